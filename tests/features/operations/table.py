"""Each operation of the code: a call of it, and the entry that the call leaves in the audit log."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import retentive
from retentive import MemoryStore, Mounts
from retentive.engine.lists import list_memories
from retentive.history.revisions import as_of
from retentive.stats import memory_use, stats
from retentive.transfer.export import export_files
from retentive.transfer.import_files import directory_source, import_files
from retentive.values.paths import MemoryPath
from retentive.values.records import Invocation

ROOT, A, B, GONE, NEW = "/memories", "/memories/a.md", "/memories/d/b.md", "/memories/gone.md", "/memories/new.md"
MARKED = "/memories/marked.md"
ANN, BOB = "user:ann", "user:bob"
SECRET = "password = Hunter2$hunter2"
TEXTS = ("walrus", "ocelot", "Hunter2")
"""Words of the texts of the scene, which no operation has in its arguments."""
NOW, DAY = 1_800_000_000.0, 86_400.0


@cache
def _database() -> Path:
    """A database with the history of the scenes, which is made once."""
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory)
    with retentive.open(f"sqlite:///{directory}/memory.db", actor=ANN, clock=lambda: NOW, sweep=False) as place:
        store, other = place.store(), place.store("other")
        store.change_settings(
            {"sensitive": "off", "review": ["session:*"], "expire_paths": {"/memories/d/*": 1}, "keep_versions": 1}
        )
        for path, text in ((A, "walrus\ntwo\n"), (B, "walrus\ntwo\n"), (GONE, SECRET)):
            store.create(path, text)
            other.create(path, "of another store\n")
        store.edit(A, "walrus", "ocelot")
        store.delete(GONE)
        store.create(MARKED, SECRET)
        store.insert(MARKED, 0, "more")
        store.create("/memories/p", "proposed", actor="session:s")
    return directory / "memory.db"


class Scene:
    """A memory store with a history, proposals and a clock of its own, beside another store with the same paths."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = NOW
        self.at = f"sqlite:///{directory}/memory.db"
        shutil.copy(_database(), directory / "memory.db")
        self.place = retentive.open(self.at, actor=ANN, clock=lambda: self.now, sweep=False)
        self.store, self.other = self.place.store(), self.place.store("other")
        self.newest, self.oldest = self.store.versions(A)
        self.deleted = self.store.versions(GONE)[0]
        self.proposal = self.store.review.pending()[0].id
        self.files = directory / "files"
        self.files.mkdir()
        (self.files / "f.md").write_text("imported")

    def run(self, command: str, *, actor: str | None = None, **fields: object) -> None:
        reply = self.store.execute({"command": command, **fields}, actor=actor)
        assert not reply.is_error, reply

    def text(self, path: str) -> str | None:
        """The text of a memory, whoever may see it."""
        data = self.store._core.read(lambda snapshot: snapshot.get(path).data)
        return None if data is None else bytes(data).decode()

    def switch_on(self) -> None:
        """Switch the audit log on. Later operations have a later time."""
        self.store.change_settings({"audit": True})
        self.now += 1


def state_of(store: MemoryStore) -> object:
    """Every memory and version with its text."""

    def work(snapshot: Any) -> object:
        return list(snapshot.list(ROOT, texts=True)), [snapshot.version(each.id) for each in snapshot.versions()]

    return store._core.read(work)


@dataclass(frozen=True)
class Operation:
    """The call of an operation, and the expected contents of its entry.

    `makes` is the number of new versions. `refused` is the outcome if the store is read-only and it differs then.
    `changes` says that it changes memories or versions, and `origin` that it records a source and a session.
    """

    act: Callable[..., object]
    name: str | None
    paths: tuple[str, ...] = ()
    outcome: str = "ok"
    makes: int = 0
    actor: str = ANN
    days: float = 0.0
    refused: str | None = None
    changes: bool = False
    origin: bool = False

    def __call__(self, scene: Scene, at: MemoryStore, **origin: Any) -> object:
        scene.now += self.days * DAY
        return self.act(scene, at, **({"actor": BOB} if self.actor == BOB else {}), **origin)


def reads(name: str, act: Callable[[Scene, MemoryStore], object], *paths: str, **more: Any) -> Operation:
    return Operation(act, name, paths, **more)


def writes(name: str, act: Callable[..., object], *paths: str, makes: int = 1, **more: Any) -> Operation:
    given: dict[str, Any] = {"refused": "read_only", "changes": True, "origin": True, "actor": BOB} | more
    return Operation(act, name, paths, makes=makes, **given)


def by_command(name: str, *paths: str, makes: int = 1, **fields: object) -> Operation:
    return writes(name, lambda _, at, **who: at.execute({"command": name, **fields}, **who), *paths, makes=makes)


def decides(name: str, act: Callable[..., object], *paths: str) -> Operation:
    """An operation of a person that changes no memory."""
    return writes(name, act, *paths, makes=0, changes=False, origin=False)


def removes(name: str, act: Callable[..., object], makes: int = 0) -> Operation:
    return writes(name, act, makes=makes, origin=False)


def list_as_of(scene: Scene, at: MemoryStore) -> object:
    operation = as_of(list_memories(MemoryPath.known(ROOT)), scene.oldest.id)
    return at._core.run(operation, Invocation()).value()


OPERATIONS: dict[str, Operation] = {
    "create": by_command("create", NEW, path=NEW, file_text="x"),
    "str_replace": by_command("str_replace", A, path=A, old_str="two", new_str="2"),
    "insert": by_command("insert", A, path=A, insert_line=0, insert_text="zero"),
    "delete": by_command("delete", "/memories/d", path="/memories/d"),
    "rename": by_command("rename", A, NEW, old_path=A, new_path=NEW),
    "clear": writes("clear", lambda _, at, **who: at.clear(**who), ROOT, makes=3),
    "view": Operation(lambda _, at, **who: at.execute({"command": "view", "path": A}, **who), "view", (A,), actor=BOB),
    "nothing": Operation(lambda _, at: at.execute({"command": "nothing"}), None, outcome="invalid_input"),
    "create, method": writes("create", lambda _, at, **who: at.create(NEW, "x", **who), NEW),
    "write": writes("write", lambda scene, at, **who: at.write(A, "x", if_version=scene.newest.id, **who), A),
    "append": writes("append", lambda _, at, **who: at.append(A, "x", **who), A),
    "str_replace, method": writes("str_replace", lambda _, at, **who: at.edit(A, "two", "2", **who), A),
    "insert, method": writes("insert", lambda _, at, **who: at.insert(A, 0, "x", **who), A),
    "delete, method": writes("delete", lambda _, at, **who: at.delete(B, **who), B),
    "rename, method": writes("rename", lambda _, at, **who: at.rename(A, NEW, **who), A, NEW),
    "write, mounted": writes("write", lambda _, at, **who: Mounts({ROOT: at}).write(NEW, "x", **who), NEW),
    "load": reads("load", lambda _, at: at.read(A), A),
    "load, mounted": reads("load", lambda _, at: Mounts({ROOT: at}).load(A), A),
    "export": reads("export", lambda scene, at: export_files(at, str(scene.directory / "out"))),
    "list": reads("list", lambda _, at: list(at.memories("/memories/d")), "/memories/d"),
    "list, page": reads("list", lambda _, at: at.list_memories("/memories/d"), "/memories/d"),
    "versions": reads("versions", lambda _, at: list(at.versions(A)), A),
    "show": reads("show", lambda scene, at: at.history.show(scene.oldest.id)),
    "usage": reads("usage", lambda _, at: at.usage()),
    "search": reads("search", lambda _, at: at.search("two", under="/memories/d"), "/memories/d"),
    "recall": reads("recall", lambda _, at: at.recall("two", under="/memories/d"), "/memories/d"),
    "citations": reads("citations", lambda _, at: at.citations("/memories/d"), "/memories/d"),
    "verify": decides("verify", lambda _, at, **who: at._verified([], who.get("actor"))),
    "settings": decides("settings", lambda _, at, **who: at.change_settings({"view_chars": 5_000}, **who)),
    "update": writes(
        "update", lambda scene, at, **who: at.by_id.update(scene.newest.memory_id, text="x", path=NEW, **who), NEW
    ),
    "delete, by id": writes("delete", lambda scene, at, **who: at.by_id.delete(scene.newest.memory_id, **who)),
    "batch": writes(
        "batch", lambda _, at, **who: at.batch([{"command": "create", "path": NEW, "file_text": "x"}], **who), NEW
    ),
    "store.update": Operation(
        lambda scene, at, **who: scene.place.update_store(at.id, name="New", **who), "store.update", actor=BOB
    ),
    "store.archive": Operation(
        lambda scene, at, **who: scene.place.archive_store(at.id, **who), "store.archive", actor=BOB
    ),
    "log": reads("log", lambda _, at: at.history.log(A), A),
    "versions, page": reads("versions", lambda _, at: at.history.page(A), A),
    "feed": reads("feed", lambda _, at: at.history.feed()),
    "text_at": reads("text_at", lambda scene, at: at.history.text_at(A, scene.oldest.id), A),
    "log, changes": reads("log", lambda _, at: at.history.changes(A), A),
    "show, path": reads("show", lambda _, at: at.history.show("HEAD~1", A), A),
    "diff": reads("diff", lambda scene, at: at.history.diff(scene.oldest.id, scene.newest.id)),
    "diff, change": reads("diff", lambda _, at: at.history.differences(change="HEAD")),
    "diff, path": reads("diff", lambda scene, at: at.history.differences(A, since=scene.oldest.id), A),
    "blame": reads("blame", lambda _, at: at.history.blame(A), A),
    "restore": writes("restore", lambda scene, at, **who: at.history.restore(A, scene.oldest.id, **who), A),
    "restore, directory": writes(
        "restore",
        lambda scene, at, **who: at.history.restore(ROOT, scene.oldest.id, mode="force", **who),
        ROOT,
        makes=3,
    ),
    "undo": writes("undo", lambda scene, at, **who: at.history.undo(scene.newest.id, **who)),
    "undo, a deletion": writes("undo", lambda scene, at, **who: at.history.undo(scene.deleted.id, **who)),
    "undo, an actor": writes("undo", lambda _, at, **who: at.undo_by(ANN, mode="force", **who), makes=3),
    "restore, dry run": reads(
        "restore.preview",
        lambda scene, at: at.history.restore(A, scene.oldest.id, dry_run=True),
        A,
        refused="read_only",
    ),
    "list.as_of": reads("list.as_of", list_as_of, ROOT),
    "redact": removes("redact", lambda scene, at, **who: at.history.redact([scene.oldest.id], **who)),
    "redact, a directory": removes("redact", lambda _, at, **who: at.history.redact(all_of=ROOT, **who)),
    "redact, deleted": removes("redact", lambda _, at, **who: at.history.redact(all_of=GONE, **who)),
    "erase": removes("erase", lambda _, at, **who: at.history.erase(B, **who), 1),
    "erase, deleted": removes(
        "erase", lambda scene, at, **who: at.history.erase(memory_id=scene.deleted.memory_id, **who)
    ),
    "sweep": Operation(lambda _, at: at.sweep(), "sweep", makes=1, actor="job:expiry", days=3, changes=True),
    "sweep, dry run": reads("sweep.preview", lambda _, at: at.sweep(dry_run=True), days=3),
    "scan": reads("scan", lambda _, at: at.scan()),
    "scan.redact": writes("scan.redact", lambda _, at, **who: at.scan(redact=True, **who)),
    "scan.redact, history": writes("scan.redact", lambda _, at, **who: at.scan(redact=True, history=True, **who)),
    "import": Operation(
        lambda scene, at, **who: import_files(at, directory_source(str(scene.files)), under="/memories/in", **who),
        "import",
        ("/memories/in",),
        makes=1,
        actor="job:import",
        changes=True,
        origin=True,
    ),
    "review.list": reads("review.list", lambda _, at: at.review.pending()),
    "review.show": reads("review.show", lambda scene, at: at.review.show(scene.proposal)),
    "review.decisions": reads("review.decisions", lambda _, at: at.review.decisions()),
    "review.accept": writes(
        "review.accept",
        lambda scene, at, **who: at.review.accept([scene.proposal], **who),
        refused="permission_denied",
        origin=False,
    ),
    "review.refuse": Operation(
        lambda scene, at, **who: at.review.refuse([scene.proposal], **who),
        "review.refuse",
        actor=BOB,
        refused="permission_denied",
    ),
    "promote.read": reads(
        "promote.read", lambda scene, at: at.promote(A, scene.other, new_path="/memories/promoted"), A
    ),
    "promote": writes(
        "promote",
        lambda scene, at, **who: scene.other.promote(A, at, new_path="/memories/promoted", **who),
        "/memories/promoted",
        changes=False,
        origin=False,
    ),
    "trust.list": reads("trust.list", lambda _, at: at.trust.doubted(A), A),
    "trust.confirm": decides("trust.confirm", lambda _, at, **who: at.trust.confirm(A, **who), A),
    "trust.quarantine": decides("trust.quarantine", lambda _, at, **who: at.trust.quarantine("session:x", **who)),
    "trust.release": decides("trust.release", lambda _, at, **who: at.trust.release("session:x", **who)),
    "clear, mounted": writes("clear", lambda _, at, **who: Mounts({ROOT: at}).clear(**who), ROOT, makes=3),
    "stats": reads("stats", lambda _, at: stats(at)),
    "memory_use": reads("memory_use", lambda _, at: memory_use(at)),
}
"""Names are those of the operations, up to a comma."""
