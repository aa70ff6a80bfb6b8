"""Every operation leaves exactly one complete entry in the audit log, through each door.

The operations are found in the code. One without a case in the table fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from retentive import MemoryStore, Mounts
from retentive.audit.reader import AuditEntry
from retentive.errors import RetentiveError
from retentive.evidence import gather
from support.modules import operations

from .doors import DOORS, Doors
from .table import BOB, OPERATIONS, ROOT, Operation, Scene, reads

BAD = "/elsewhere"
INVALID: dict[str, Operation] = {
    "execute": Operation(lambda _, at: at.execute({"command": "view", "path": BAD}), "view"),
    "execute, unknown": Operation(lambda _, at: at.execute({"command": "nothing"}), None),
    "execute, no command": Operation(lambda _, at: at.execute(None), None),
    "view": reads("view", lambda _, at: at.view(BAD)),
    "search, query": reads("search", lambda _, at: at.search('""'), ROOT),
    "Mounts.execute": reads("view", lambda _, at: Mounts({ROOT: at}).execute({"command": "view", "path": BAD})),
}
"""Calls of a model that are no operation, and an operation with invalid arguments."""


def entries_of(store: MemoryStore, act: Callable[[MemoryStore], object]) -> list[AuditEntry]:
    """Run an action, ignore its error, and return the entries that it left."""
    before = len(list(store.audit.entries()))
    with suppress(RetentiveError):
        act(store)
    verified = store.audit.verify()
    assert (verified.problem, verified.unaudited) == (None, ())
    return list(store.audit.entries())[before:]


def test_every_operation_has_a_case() -> None:
    of_stores = {"erase.store"}  # its entry goes with the store; see test_an_erasure_of_a_store_that_is_refused
    found = operations("Read", "Write") - of_stores
    assert found | {"view", "nothing", "export", "list.as_of"} == {name.partition(",")[0] for name in OPERATIONS}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_leaves_one_entry(name: str, scene: Scene) -> None:
    """The entry has the actor, the operation, the paths, the outcome, the integration, the time and the versions."""
    case, store = OPERATIONS[name], scene.store
    scene.switch_on()
    last = store.versions(limit=1)[0].id
    origin: dict[str, Any] = {"session": "s"} if case.origin else {}
    (entry,) = entries_of(store.through("somewhere"), partial(case, scene, **origin))
    assert (entry.operation, entry.actor, entry.outcome) == (case.name, case.actor, case.outcome)
    through_location = name.startswith("store.") or name == "list.as_of"
    assert (entry.paths, entry.integration) == (case.paths, "python" if through_location else "somewhere")
    assert entry.time == datetime.fromtimestamp(scene.now, UTC)
    made = store._core.read(lambda snapshot: list(snapshot.versions(after=last, oldest_first=True)))
    changes = [tuple(change) for change in entry.changes]
    assert changes == [(each.memory_id, each.id) for each in made] or name in {"erase", "promote"}  # removed, proposed
    assert len(entry.changes) == case.makes
    (found,) = gather([store], "s").stores
    assert (found.findings, entry.seq in {step.entry for step in found.steps} or not case.origin) == ([], True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_refused_operation_leaves_one_entry(name: str, scene: Scene) -> None:
    """The store is read-only. Writes are refused and create no version, while reads work."""
    case = OPERATIONS[name]
    scene.switch_on()
    before = scene.store.versions()
    (entry,) = entries_of(scene.store.read_only(), partial(case, scene))
    assert (entry.operation, entry.actor, entry.outcome) == (case.name, case.actor, case.refused or case.outcome)
    assert (entry.changes, scene.store.versions()) == ((), before)


@pytest.mark.parametrize("name", INVALID)
def test_a_call_with_invalid_arguments_leaves_one_entry(name: str, scene: Scene) -> None:
    case = INVALID[name]
    scene.switch_on()
    (entry,) = entries_of(scene.store, partial(case, scene))
    assert (entry.operation, entry.actor, entry.integration) == (case.name, case.actor, "python")
    assert entry.outcome in ({"invalid_path", "invalid_input"} if case.outcome == "ok" else {case.outcome})
    assert entry.paths == case.paths


def test_an_erasure_of_a_store_that_is_refused_leaves_one_entry(scene: Scene) -> None:
    scene.switch_on()
    scene.store.change_settings({"read_only": True})
    (entry,) = entries_of(scene.store, lambda _: scene.place.erase("default", actor=BOB))
    assert (entry.operation, entry.actor, entry.outcome) == ("erase.store", BOB, "read_only")


CALLS: tuple[tuple[Any, str | None, str, tuple[str, ...]], ...] = (
    ({"command": "create", "path": "/memories/n", "file_text": "words"}, "create", "ok", ("/memories/n",)),
    ({"command": "view", "path": "/memories/none"}, "view", "not_found", ("/memories/none",)),
    ({"command": "view", "path": "/elsewhere"}, "view", "invalid_path", ()),
    ({"command": "create", "path": 1, "file_text": "x"}, "create", "invalid_input", ()),
)


@pytest.mark.parametrize("name", DOORS)
def test_each_door_leaves_one_entry_with_its_name(name: str, scene: Scene, closing: ExitStack) -> None:
    """Also for what is not found and for what is no valid command. Another store has none."""
    door, doors = DOORS[name], Doors(scene, closing)
    scene.switch_on()
    scene.other.change_settings({"audit": True})
    before = len(list(scene.store.audit.entries()))
    for command, *_ in CALLS:
        door.send(doors, command, None)
    entries = list(scene.store.audit.entries())[before:]
    assert [(each.operation, each.outcome, each.paths) for each in entries] == [each[1:] for each in CALLS]
    assert {(each.integration, each.actor) for each in entries} == {(door.integration, BOB)}
    assert [each.operation for each in scene.other.audit.entries()] == ["settings"]
