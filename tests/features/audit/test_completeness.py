"""Every operation of the code leaves exactly one complete entry when its public method is called.

The test finds the operations in the code. An operation without a case in the table fails the first test.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, Mounts
from retentive.audit.reader import AuditEntry
from retentive.engine.handlers import HANDLERS
from retentive.engine.operation import Operation, ReadOperation, Write
from retentive.errors import RetentiveError
from retentive.transfer.export import export_files
from retentive.transfer.import_files import Import
from support.modules import import_all, reads_by_function

from .operations import ANN, BOB, CASES, ROOT, A, Case, Scene, reads

BAD = "/elsewhere"
INVALID: dict[str, Case] = {
    "execute": Case(lambda _, at: at.execute({"command": "view", "path": BAD}), "view"),
    "execute, unknown": Case(lambda _, at: at.execute({"command": "nothing"}), None),
    "execute, no command": Case(lambda _, at: at.execute(None), None),
    "create": reads("create", lambda _, at: at.create(BAD, "x")),
    "create, text": reads("create", lambda _, at: at.create(A, "a\0b")),
    "write": reads("write", lambda _, at: at.write(BAD, "x")),
    "write, version": reads("write", lambda _, at: at.write(A, "x", if_version=3)),  # type: ignore[arg-type] # invalid
    "append": reads("append", lambda _, at: at.append(BAD, "x")),
    "edit": reads("str_replace", lambda _, at: at.edit(BAD, "x", "y")),
    "insert": reads("insert", lambda _, at: at.insert(A, "1", "y")),  # type: ignore[arg-type] # invalid
    "delete": reads("delete", lambda _, at: at.delete(BAD)),
    "rename": reads("rename", lambda _, at: at.rename(A, BAD)),
    "view": reads("view", lambda _, at: at.view(BAD)),
    "load": reads("load", lambda _, at: at.load(BAD)),
    "list": reads("list", lambda _, at: at.memories(BAD)),
    "list, page": reads("list", lambda _, at: at.list_memories(BAD)),
    "list, limit": reads("list", lambda _, at: at.list_memories(limit=0)),
    "versions": reads("versions", lambda _, at: at.versions(BAD)),
    "search": reads("search", lambda _, at: at.search("two", under=BAD)),
    "search, query": reads("search", lambda _, at: at.search('""'), ROOT),
    "log": reads("log", lambda _, at: at.history.log(BAD)),
    "by_id.update": reads("update", lambda scene, at: at.by_id.update(scene.newest.memory_id, path=BAD)),
    "by_id.update, text": reads("update", lambda scene, at: at.by_id.update(scene.newest.memory_id, text="a\0b")),
    "by_id.update, nothing": reads("update", lambda scene, at: at.by_id.update(scene.newest.memory_id)),
    "by_id.delete": reads("delete", lambda scene, at: at.by_id.delete(scene.newest.memory_id, if_sha256="x")),
    "log, pattern": reads("log", lambda _, at: at.history.log(actor="")),
    "page": reads("versions", lambda _, at: at.history.page(BAD)),
    "feed": reads("feed", lambda _, at: at.history.feed("no id")),
    "text_at": reads("text_at", lambda scene, at: at.history.text_at(BAD, scene.oldest.id)),
    "changes": reads("log", lambda _, at: at.history.changes(BAD)),
    "show, name": reads("show", lambda _, at: at.history.show("HEAD~x")),
    "show, path": reads("show", lambda _, at: at.history.show("HEAD", BAD)),
    "diff, states": reads("diff", lambda _, at: at.history.diff("HEAD~1", "HEAD")),
    "differences": reads("diff", lambda _, at: at.history.differences(BAD, since="HEAD")),
    "differences, nothing": reads("diff", lambda _, at: at.history.differences()),
    "restore, name": reads("restore", lambda _, at: at.history.restore(A, "soon")),
    "undo, name": reads("undo", lambda _, at: at.history.undo(change="1234")),
    "blame": reads("blame", lambda _, at: at.history.blame(BAD)),
    "blame, level": reads("blame", lambda _, at: at.history.blame(A, trust="none")),  # type: ignore[arg-type] # invalid
    "restore": reads("restore", lambda scene, at: at.history.restore(BAD, scene.oldest.id)),
    "restore, mode": reads("restore", lambda _, at: at.history.restore(A, "x", mode="no")),  # type: ignore[arg-type] # invalid
    "restore, preview": reads("restore.preview", lambda _, at: at.history.restore(BAD, "x", dry_run=True)),
    "undo": reads("undo", lambda _, at: at.history.undo("x", mode="no")),  # type: ignore[arg-type] # invalid
    "undo, preview": reads("undo.preview", lambda _, at: at.history.undo_by("", dry_run=True)),
    "redact": reads("redact", lambda _, at: at.history.redact(all_of=BAD)),
    "erase": reads("erase", lambda _, at: at.history.erase(BAD)),
    "trust.list": reads("trust.list", lambda _, at: at.trust.doubted(BAD)),
    "trust.confirm": reads("trust.confirm", lambda _, at: at.trust.confirm(BAD)),
    "trust.quarantine": reads("trust.quarantine", lambda _, at: at.trust.quarantine("")),
    "trust.release": reads("trust.release", lambda _, at: at.trust.release("")),
    "review.list": reads("review.list", lambda _, at: at.review.pending(actor="nobody")),
    "review.accept": reads("review.accept", lambda _, at: at.review.accept(None, actor=ANN, proposed_by="nobody")),
    "review.refuse": reads("review.refuse", lambda _, at: at.review.refuse(None, actor=ANN, proposed_by="nobody")),
    "import": Case(lambda _, at: Import(at, under=BAD), "import", actor="job:import"),
    "export": Case(lambda scene, at: export_files(at, str(scene.files)), "export", outcome="already_exists"),
    "Mounts.execute": reads("view", lambda _, at: Mounts({ROOT: at}).execute({"command": "view", "path": BAD})),
    "Mounts.load": reads("load", lambda _, at: Mounts({ROOT: at}).load(BAD)),
    "Mounts.load, a mount point": Case(
        lambda _, at: Mounts({ROOT: at, "/memories/m": at}).load("/memories/m"), "load", outcome="not_found"
    ),
    "Mounts.memories": reads("list", lambda _, at: Mounts({ROOT: at}).memories(BAD)),
    "Mounts.search": reads("search", lambda _, at: Mounts({ROOT: at}).search("two", under=BAD)),
    "Mounts.search, limit": reads("search", lambda _, at: Mounts({ROOT: at}).search("two", limit=-1)),
}
"""Calls with arguments that are refused before the operation runs."""


def operations() -> set[str]:
    """Return the names of all operations. `RunCommand` counts once for each command, and `Read` once for each name."""
    import_all()
    found = {kind.__name__ for base in (ReadOperation, Write) for kind in _concrete(base)}
    assert {"RunCommand", "RunView"} < found
    commands = {f"RunCommand {kind.name}" for kind in HANDLERS} | {"RunView view"}
    return (found - {"RunCommand", "RunView", "Read", "DryRun"}) | commands | set(reads_by_function())


def _concrete(base: type[Operation[Any]]) -> Iterator[type[Operation[Any]]]:
    for kind in base.__subclasses__():
        if not inspect.isabstract(kind) and kind.__module__.startswith("retentive."):
            yield kind
        yield from _concrete(kind)


def entries_of(store: MemoryStore, act: Callable[[MemoryStore], object]) -> list[AuditEntry]:
    """Run an action, ignore its error, and return the entries that it left."""
    before = len(list(store.audit.entries()))
    with suppress(RetentiveError):
        act(store)
    verified = store.audit.verify()
    assert (verified.problem, verified.unaudited) == (None, ())
    return list(store.audit.entries())[before:]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with made.place:
        yield made


def versions_after(store: MemoryStore, last: str) -> list[tuple[str, str]]:
    found = store._core.read(lambda snapshot: list(snapshot.versions(after=last)))
    return [(version.memory_id, version.id) for version in reversed(found)]


def test_every_operation_has_a_case() -> None:
    of_commands = {"Read erase.preview", "Read redact.preview"}  # tested in test_audit_cli.py
    of_checks = {"Read erase"}  # what is left after an erasure in the console, whose entry covers it
    of_stores = {"EraseStore"}  # its entry goes with the store; see test_an_erasure_of_a_store_that_is_refused
    assert operations() - of_commands - of_checks - of_stores == {name.partition(",")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_leaves_one_entry(name: str, scene: Scene) -> None:
    """The entry has the actor, the operation, the paths, the outcome, the integration, the time and the versions."""
    case, store = CASES[name], scene.store
    scene.switch_on(days=case.days)
    last = store._core.read(lambda snapshot: next(snapshot.versions(limit=1)).id)
    (entry,) = entries_of(store, partial(case.act, scene))
    assert (entry.operation, entry.actor, entry.outcome) == (case.operation, case.actor, case.outcome)
    assert (entry.paths, entry.integration) == (case.paths, "python")
    assert entry.time == datetime.fromtimestamp(scene.now, UTC)
    made = versions_after(store, last)
    assert [tuple(change) for change in entry.changes] == made or name == "Erase"  # Erase removes them too
    assert entry.change_count == case.makes


@pytest.mark.parametrize("name", CASES)
def test_a_refused_operation_leaves_one_entry(name: str, scene: Scene) -> None:
    """The store is read-only. Writes are refused and create no version, while reads work."""
    case = CASES[name]
    scene.switch_on(days=case.days)
    before = scene.store._core.read(lambda snapshot: [version.id for version in snapshot.versions()])
    store = scene.store.read_only()
    (entry,) = entries_of(store, partial(case.act, scene))
    assert (entry.operation, entry.actor, entry.outcome) == (
        case.operation,
        case.actor,
        case.refused or case.outcome,
    )
    assert entry.changes == ()
    after = scene.store._core.read(lambda snapshot: [version.id for version in snapshot.versions()])
    assert after == before


@pytest.mark.parametrize("name", INVALID)
def test_a_call_with_invalid_arguments_leaves_one_entry(name: str, scene: Scene) -> None:
    case = INVALID[name]
    scene.switch_on(days=0)
    (entry,) = entries_of(scene.store, partial(case.act, scene))
    assert (entry.operation, entry.actor, entry.integration) == (case.operation, case.actor, "python")
    expected = {"invalid_path", "invalid_input"} if case.outcome == "ok" else {case.outcome}
    assert entry.outcome in expected
    assert entry.paths == case.paths


def test_paths_are_parsed_where_an_error_has_an_entry() -> None:
    """`parsed` raises before there is an operation, so it may only be called inside `checking`."""
    no_operation = {
        "tree.py: store_of",  # names the store of a path, and runs nothing
        *("completers.py: paths", "completers.py: work"),  # paths of the program itself, for a shell
    }
    # `Memories._write` calls the function that builds the command inside `checking`.
    built = {f"memories.py: {name}" for name in ("_file", "command", "delete", "edit", "insert")}
    assert set(_unchecked()) == no_operation | built


def _unchecked() -> Iterator[str]:
    """Yield the functions that call `parsed` of a store outside `checking`."""
    source = Path(retentive.__file__).parent
    for file in set(source.rglob("*.py")) - set(
        (source / "remote").iterdir()
    ):  # the server has the log of a remote one
        text = file.read_text("utf-8")
        for function in ast.walk(ast.parse(text)) if ".parsed(" in text else ():
            if isinstance(function, ast.FunctionDef):
                checked = [
                    call
                    for block in ast.walk(function)
                    if isinstance(block, ast.With) and ".checking(" in ast.unparse(block.items[0])
                    for call in ast.walk(block)
                ]
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(ast.unparse(call.func).endswith(".parsed") and call not in checked for call in calls):
                    yield f"{file.name}: {function.name}"


def test_an_erasure_of_a_store_that_is_refused_leaves_one_entry(scene: Scene) -> None:
    scene.switch_on(days=0)
    scene.store.change_settings({"read_only": True})
    (entry,) = entries_of(scene.store, lambda _: scene.place.erase("default", actor=BOB))
    assert (entry.operation, entry.actor, entry.outcome) == ("erase.store", BOB, "read_only")


def test_an_operation_through_an_integration_names_it(scene: Scene) -> None:
    """The handle of the store has the name of the integration, so every operation through the handle has it too."""
    scene.switch_on(days=0)
    named = scene.store.through("somewhere")
    for name in ("RunCommand create", "Read load", "Read log", "Read review.list", "Undo", "Read stats", "Read scan"):
        (entry,) = entries_of(named, partial(CASES[name].act, scene))
        assert (name, entry.integration) == (name, "somewhere")
