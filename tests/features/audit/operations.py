"""Each operation of the code: a call of it, and the entry that the call leaves in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import retentive
from retentive import MemoryStore, Mounts
from retentive.console.pages.tree import ListLevels
from retentive.engine.queries import list_memories
from retentive.history.past import AsOf
from retentive.stats import memory_use, stats
from retentive.transfer.export import export_files
from retentive.transfer.import_files import Import
from retentive.transfer.sources import DirectorySource
from retentive.values.paths import MemoryPath
from retentive.values.records import Invocation

ROOT, A, B, GONE, NEW = "/memories", "/memories/a.md", "/memories/d/b.md", "/memories/gone.md", "/memories/new.md"
MARKED = "/memories/marked.md"
ANN, BOB = "user:ann", "user:bob"
DAY = 86_400.0


class Scene:
    """A memory store with some history, audited afterwards. `now` is the time of its clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 1_800_000_000.0
        self.place = retentive.open(f"sqlite:///{directory}/memory.db", actor=ANN, clock=lambda: self.now, sweep=False)
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
    "Restore, dry run": Case(
        lambda scene, at: at.history.restore(A, scene.oldest.id, dry_run=True),
        "restore.preview",
        (A,),
        refused="read_only",
    ),
    "AsOf": reads("list.as_of", list_as_of, ROOT),
    "Redact": Case(
        lambda scene, at: at.history.redact([scene.oldest.id], actor=BOB), "redact", actor=BOB, refused="read_only"
    ),
    "Erase": Case(lambda _, at: at.history.erase(B, actor=BOB), "erase", makes=1, actor=BOB, refused="read_only"),
    "Sweep": Case(lambda _, at: at.sweep(), "sweep", makes=1, actor="job:expiry", days=3),
    "Sweep, dry run": Case(lambda _, at: at.sweep(dry_run=True), "sweep.preview", days=3),
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
    "Read stats": reads("stats", lambda _, at: stats(at)),
    "Read memory_use": reads("memory_use", lambda _, at: memory_use(at)),
}
