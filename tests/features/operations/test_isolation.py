"""A caller who is limited to some paths, and another memory store: no operation and no door reaches beyond."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack

import pytest

from retentive import errors
from retentive.store import with_options

from .doors import DOORS, Doors
from .table import MARKED, OPERATIONS, ROOT, TEXTS, A, B, Scene, state_of

SCOPE = ("/memories/team/**", "/memories/*/open.md")
OF_LOCATION = {"store.update", "store.archive"}  # methods of the location, which has no limited callers
LIMITED = [name for name in OPERATIONS if name not in OF_LOCATION]


def dumped(value: object) -> str:
    """Everything in a value, also what its repr leaves out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return f"{value!r} {dumped(fields)}"
    if isinstance(value, list | tuple):
        return " ".join(map(dumped, value))
    return str(value)


@pytest.mark.parametrize("name", LIMITED)
def test_an_operation_neither_shows_nor_changes_what_is_outside(name: str, scene: Scene) -> None:
    """It is refused or finds nothing: no text appears, and the audit log says so. The caller's own paths work."""
    limited = with_options(scene.store, scope=SCOPE)
    before = state_of(scene.store)
    try:
        seen = dumped(OPERATIONS[name](scene, limited))
    except errors.RetentiveError as refused:
        seen = str(refused)
    assert [text for text in TEXTS if text in seen] == []
    assert [path for path in (A, B, MARKED) if path in seen and path not in OPERATIONS[name].paths] == []
    assert state_of(scene.store) == before
    limited.create("/memories/team/own.md", "mine\n")
    assert [each.path for each in limited.memories()] == ["/memories/team/own.md"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_leaves_another_store_alone(name: str, scene: Scene) -> None:
    before, info = state_of(scene.other), scene.place.get_store("other")
    OPERATIONS[name](scene, scene.store)
    assert (state_of(scene.other), scene.place.get_store("other")) == (before, info)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.limited])
def test_no_door_reaches_outside(name: str, scene: Scene, closing: ExitStack) -> None:
    """A memory outside is answered like a path without a memory, and its directory shows nothing of it."""
    door, doors = DOORS[name], Doors(scene, closing, scope=SCOPE)
    before = state_of(scene.store)
    for command in (
        {"command": "view", "path": A},
        {"command": "str_replace", "path": A, "old_str": "walrus", "new_str": "x"},
        {"command": "insert", "path": A, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": A},
        {"command": "rename", "old_path": A, "new_path": "/memories/team/a.md"},
        {"command": "create", "path": A, "file_text": "x"},
    ):
        said = door.send(doors, command, None)
        absent = door.send(
            doors, {key: "/memories/z.md" if value == A else value for key, value in command.items()}, None
        )
        assert said == absent.replace("/memories/z.md", A)
    assert state_of(scene.store) == before
    listed = door.send(doors, {"command": "view", "path": ROOT}, None)
    assert [text for text in (*TEXTS, A, B) if text in listed] == []
    door.send(doors, {"command": "create", "path": "/memories/team/own.md", "file_text": "mine\n"}, None)
    assert scene.store.read("/memories/team/own.md") == "mine\n"


@pytest.mark.parametrize("limit", ["scope", "write_scope"])
def test_a_dry_run_is_refused_as_the_run(limit: str, scene: Scene) -> None:
    """An import needs the whole store, so a caller who may not run it cannot preview it either."""
    limited = with_options(scene.store, **{limit: SCOPE})
    for dry_run in (True, False):
        with pytest.raises(errors.PermissionDenied, match="needs access to the whole memory store"):
            OPERATIONS["import"].act(scene, limited, dry_run=dry_run)


@pytest.mark.parametrize("name", ["usage", "stats", "scan"])
def test_figures_of_the_whole_store_are_refused(name: str, scene: Scene) -> None:
    """They would tell of memories that do not exist for the caller."""
    with pytest.raises(errors.PermissionDenied, match="needs access to the whole memory store"):
        OPERATIONS[name].act(scene, with_options(scene.store, scope=SCOPE))
