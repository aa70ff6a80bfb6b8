"""Every operation of the code leaves exactly one complete entry when its public method is called.

The test finds the operations in the code. An operation without a case in the table fails the first test.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, Mounts
from retentive.agent import start_project
from retentive.audit.reader import AuditEntry
from retentive.console.pages.tree import ListLevels
from retentive.console.report import of_store
from retentive.engine.command_handlers import HANDLERS
from retentive.engine.operation import Operation, ReadOperation, WriteOperation
from retentive.engine.queries import list_memories
from retentive.errors import RetentiveError
from retentive.history.reads import AsOf
from retentive.stats import stats
from retentive.stats.status import status
from retentive.transfer.export import export_files
from retentive.transfer.import_files import Import
from retentive.transfer.sources import DirectorySource
from retentive.values.paths import MemoryPath
from retentive.values.records import Invocation
from support.modules import import_all, reads_by_function

ROOT, A, B, GONE, NEW = "/memories", "/memories/a.md", "/memories/d/b.md", "/memories/gone.md", "/memories/new.md"
MARKED = "/memories/marked.md"
ANN, BOB = "user:ann", "user:bob"
DAY = 86_400.0


class Scene:
    """A memory store with some history, audited afterwards. `now` is the time of its clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 1_800_000_000.0
        self.place = retentive.open(f"sqlite:///{directory}/memory.db", actor=ANN, clock=lambda: self.now)
        self.store = self.place.store()
        self.store.change_settings({"sensitive": "off", "review": ["session:*"], "expire_paths": {"/memories/d/*": 1}})
        for path in (A, B, GONE):
            self.run("create", path=path, file_text="one\ntwo\n")
        self.run("str_replace", path=A, old_str="one", new_str="1")
        self.run("delete", path=GONE)
        self.run("create", path=MARKED, file_text="password = Hunter2$hunter2")
        self.run("create", actor="session:s", path="/memories/p", file_text="proposed")
        self.newest, *_, self.oldest = self.store.versions(A)
        self.proposal = self.store.review.pending()[0].id
        self.files = directory / "files"
        self.files.mkdir()
        (self.files / "f.md").write_text("imported")

    def run(self, command: str, *, actor: str | None = None, **fields: object) -> None:
        reply = self.store.execute({"command": command, **fields}, actor=actor)
        assert not reply.is_error, reply

    def switch_on(self, *, days: float) -> None:
        """Advance the clock by some days and switch the log on. Later operations have a later time."""
        self.now += days * DAY
        self.store.change_settings({"audit": True})
        self.now += 1


@dataclass(frozen=True)
class Case:
    """The call of an operation, and the expected contents of its entry. `makes` is the number of new versions."""

    act: Callable[[Scene, MemoryStore], object]
    operation: str | None
    paths: tuple[str, ...] = ()
    outcome: str = "ok"
    makes: int = 0
    actor: str = ANN
    days: float = 0.0
    refused: str | None = None
    """The outcome if the store is read-only and the outcome is different then."""


def by_command(name: str, *paths: str, makes: int = 1, **fields: object) -> Case:
    given = {"command": name, **fields}
    return Case(lambda _, at: at.execute(given, actor=BOB), name, paths, makes=makes, actor=BOB, refused="read_only")


def reads(operation: str, act: Callable[[Scene, MemoryStore], object], *paths: str) -> Case:
    return Case(act, operation, paths)


def list_as_of(scene: Scene, at: MemoryStore) -> object:
    operation = AsOf(list_memories(MemoryPath.known(ROOT)), scene.oldest.id)
    return at._core.run(operation, Invocation()).value()


CASES: dict[str, Case] = {
    "RunCommand create": by_command("create", NEW, path=NEW, file_text="x"),
    "RunCommand str_replace": by_command("str_replace", A, path=A, old_str="two", new_str="2"),
    "RunCommand insert": by_command("insert", A, path=A, insert_line=0, insert_text="zero"),
    "RunCommand delete": by_command("delete", "/memories/d", path="/memories/d"),
    "RunCommand rename": by_command("rename", A, NEW, old_path=A, new_path=NEW),
    "RunCommand clear": Case(
        lambda _, at: at.clear(actor=BOB), "clear", (ROOT,), makes=3, actor=BOB, refused="read_only"
    ),
    "RunView view": Case(lambda _, at: at.execute({"command": "view", "path": A}, actor=BOB), "view", (A,), actor=BOB),
    "AuditOnly": Case(lambda _, at: at.execute({"command": "nothing"}), None, outcome="invalid_input"),
    "RunCommand write": Case(
        lambda scene, at: at.write(A, "x", if_version=scene.newest.id), "write", (A,), makes=1, refused="read_only"
    ),
    "RunCommand append": Case(lambda _, at: at.append(A, "x"), "append", (A,), makes=1, refused="read_only"),
    "Read load": reads("load", lambda _, at: at.read(A), A),
    "Read load, mounted": reads("load", lambda _, at: Mounts({ROOT: at}).load(A), A),
    "AuditOnly, export": reads("export", lambda scene, at: export_files(at, str(scene.directory / "out"))),
    "Read export": reads("export", lambda _, at: of_store(at)),
    "Read list": reads("list", lambda _, at: list(at.memories("/memories/d")), "/memories/d"),
    "ListLevels": reads(
        "list", lambda _, at: at._core.found(ListLevels(MemoryPath.known("/memories/d"))), "/memories/d"
    ),
    "ListMemories": reads("list", lambda _, at: at.list_memories("/memories/d"), "/memories/d"),
    "Read versions": reads("versions", lambda _, at: list(at.versions(A)), A),
    "Read show": reads("show", lambda scene, at: at.history.show(scene.oldest.id)),
    "Read usage": reads("usage", lambda _, at: at.usage()),
    "Read search": reads("search", lambda _, at: at.search("two", under="/memories/d"), "/memories/d"),
    "ChangeSettings": Case(
        lambda _, at: at.change_settings({"view_chars": 5_000}, actor=BOB), "settings", actor=BOB, refused="read_only"
    ),
    "UpdateMemory": Case(
        lambda scene, at: at.by_id.update(scene.newest.memory_id, text="x", path=NEW, actor=BOB),
        "update",
        (NEW,),
        makes=1,
        actor=BOB,
        refused="read_only",
    ),
    "DeleteMemory": Case(
        lambda scene, at: at.by_id.delete(scene.newest.memory_id, actor=BOB),
        "delete",
        makes=1,
        actor=BOB,
        refused="read_only",
    ),
    "Batch": Case(
        lambda _, at: at.batch([{"command": "create", "path": NEW, "file_text": "x"}], actor=BOB),
        "batch",
        (NEW,),
        makes=1,
        actor=BOB,
        refused="read_only",
    ),
    "ChangeProperties": Case(
        lambda scene, at: scene.place.update_store(at.id, name="New", actor=BOB), "store.update", actor=BOB
    ),
    "ArchiveStore": Case(lambda scene, at: scene.place.archive_store(at.id, actor=BOB), "store.archive", actor=BOB),
    "Read log": reads("log", lambda _, at: at.history.log(A), A),
    "Read versions, page": reads("versions", lambda _, at: at.history.page(A), A),
    "Read feed": reads("feed", lambda _, at: at.history.feed()),
    "Read text_at": reads("text_at", lambda scene, at: at.history.text_at(A, scene.oldest.id), A),
    "Read log, changes": reads("log", lambda _, at: at.history.changes(A), A),
    "Read show, path": reads("show", lambda _, at: at.history.show("HEAD~1", A), A),
    "Compare": reads("diff", lambda scene, at: at.history.diff(scene.oldest.id, scene.newest.id)),
    "Compare, change": reads("diff", lambda _, at: at.history.differences(change="HEAD")),
    "Compare, path": reads("diff", lambda scene, at: at.history.differences(A, since=scene.oldest.id), A),
    "Read blame": reads("blame", lambda _, at: at.history.blame(A), A),
    "Restore": Case(
        lambda scene, at: at.history.restore(A, scene.oldest.id, actor=BOB),
        "restore",
        (A,),
        makes=1,
        actor=BOB,
        refused="read_only",
    ),
    "Undo": Case(
        lambda scene, at: at.history.undo(scene.newest.id, actor=BOB),
        "undo",
        makes=1,
        actor=BOB,
        refused="read_only",
    ),
    "Preview": reads("restore.preview", lambda scene, at: at.history.restore(A, scene.oldest.id, dry_run=True), A),
    "AsOf": reads("list.as_of", list_as_of, ROOT),
    "Redact": Case(
        lambda scene, at: at.history.redact([scene.oldest.id], actor=BOB), "redact", actor=BOB, refused="read_only"
    ),
    "Erase": Case(lambda _, at: at.history.erase(B, actor=BOB), "erase", makes=1, actor=BOB, refused="read_only"),
    "Sweep": Case(lambda _, at: at.sweep(), "sweep", makes=1, actor="job:expiry", days=3),
    "Read sweep.preview": Case(lambda _, at: at.sweep(dry_run=True), "sweep.preview", days=3),
    "Read scan": reads("scan", lambda _, at: at.scan()),
    "RedactFound": Case(
        lambda _, at: at.scan(redact=True, actor=BOB), "scan.redact", makes=1, actor=BOB, refused="read_only"
    ),
    "ImportFiles": Case(
        lambda scene, at: list(Import(at, under="/memories/in").run(DirectorySource(str(scene.files)))),
        "import",
        ("/memories/in",),
        makes=1,
        actor="job:import",
    ),
    "ChangeProject": Case(
        lambda _, at: start_project(at, goal="A shop", actor=BOB),
        "project",
        ("/memories/project",),
        makes=3,
        actor=BOB,
        refused="read_only",
    ),
    "Read review.list": reads("review.list", lambda _, at: at.review.pending()),
    "Read review.show": reads("review.show", lambda scene, at: at.review.show(scene.proposal)),
    "Read review.decisions": reads("review.decisions", lambda _, at: at.review.decisions()),
    "Decide": Case(
        lambda scene, at: at.review.accept([scene.proposal], actor=BOB),
        "review.accept",
        makes=1,
        actor=BOB,
        refused="permission_denied",
    ),
    "Read trust.list": reads("trust.list", lambda _, at: at.trust.doubted(A), A),
    "Confirm": Case(
        lambda _, at: at.trust.confirm(A, actor=BOB), "trust.confirm", (A,), actor=BOB, refused="read_only"
    ),
    "ChangeQuarantine": Case(
        lambda _, at: at.trust.quarantine("session:x", actor=BOB), "trust.quarantine", actor=BOB, refused="read_only"
    ),
    "ChangeQuarantine, release": Case(
        lambda _, at: at.trust.release("session:x", actor=BOB), "trust.release", actor=BOB, refused="read_only"
    ),
    "ClearPart": Case(
        lambda _, at: Mounts({ROOT: at}).clear(actor=BOB), "clear", (ROOT,), makes=3, actor=BOB, refused="read_only"
    ),
    "ReadStats": reads("stats", lambda _, at: stats(at)),
    "ReadStatus": reads("status", lambda _, at: status(at, scan=True)),
}


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
    found = {kind.__name__ for base in (ReadOperation, WriteOperation) for kind in _concrete(base)}
    assert {"RunCommand", "RunView"} < found
    commands = {f"RunCommand {kind.name}" for kind in HANDLERS} | {"RunView view"}
    return (found - {"RunCommand", "RunView", "Read"}) | commands | set(reads_by_function())


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
    of_commands = {"Read erase.preview", "Read redact.preview"}  # tested in test_cli_completeness.py
    of_stores = {"EraseStore"}  # its entry goes with the store; see test_an_erasure_of_a_store_that_is_refused
    assert operations() - of_commands - of_stores == {name.partition(",")[0] for name in CASES}


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
    assert set(_unchecked()) == no_operation


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
    assert named is scene.store.through("somewhere")
    for name in ("RunCommand create", "Read load", "Read log", "Read review.list", "Undo", "ReadStats", "Read scan"):
        (entry,) = entries_of(named, partial(CASES[name].act, scene))
        assert (name, entry.integration) == (name, "somewhere")
