"""Backend suite: the versions that are recorded for changes; their import, redaction and pruning."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import (
    ACTOR_KINDS,
    Actor,
    Again,
    Backend,
    Change,
    Created,
    Deleted,
    Imported,
    Moved,
    Transaction,
    Updated,
    Usage,
    Version,
    sortable_id,
)
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening, memory_at
from retentive.testing.backend_suite.snapshots import P, steps
from retentive.values.paths import ROOT

# Texts that must be stored byte for byte, without translated line ends, Unicode normalization or trimmed spaces.
TEXTS = (
    b"", b"\n", b"a\r\nb\r\n", b"a\rb", b" a \t \n\n\n", "a\u2028b\u2029c\u0085d\x0ce\x0bf".encode(),
    "\ufeffa".encode(), "e\u0301 \u00e9".encode(), "\u0001\u0007\u001b[31m\u007f".encode(),
    "😀\U0010ffff\ufffd\ufffe".encode(), b"%s %d {} \\n ' \" ; --", ("é" * 1_023 + "\n").encode() * 1_024,
)  # fmt: skip
ODD_PATHS = tuple(
    f"/memories/{name}"
    for name in (
        "it's; DROP TABLE memories", '"quoted" <a> | b * c ?', "100% _ off", " ", "-rf", "~", "...", ".retentive/x",
        "memories/memories", "\u3000wide", "😀👍🏽/報告．md", "می\u200cخ", "میخ", "👩\u200d💻/a\u200db", "CON", "a:b",
        "x" * 255, "é" * 127, "deep" + "/x" * 19, "/".join(["y" * 204] * 5),
    )
)  # fmt: skip
WHO = Actor("user", "ann")


class VersionsSuite(SuiteOpening):
    """Tests of versions. Each change adds one version with the operation, time, actor and new text of the change."""

    def test_a_creation_is_recorded(self, store: Opened) -> None:
        """A new memory and its first version have the same path, size, hash, ids and time."""
        before = datetime.now(UTC)
        store.create({A: "é\n".encode()}, WHO)
        memory, (version,) = store.memory(A), store.versions()
        sha256 = hashlib.sha256("é\n".encode()).hexdigest()
        assert memory.id.startswith("mem_")
        assert version.id.startswith("memver_")
        assert (memory.path, memory.size_bytes, memory.sha256, memory.version_id) == (A, 3, sha256, version.id)
        assert (version.memory_id, version.operation, version.path) == (memory.id, "created", A)
        assert (version.size_bytes, version.sha256, version.actor, version.revision) == (3, sha256, WHO, 1)
        assert memory.created_at == memory.updated_at == version.created_at
        assert before - timedelta(seconds=1) <= memory.created_at <= datetime.now(UTC) + timedelta(seconds=1)

    @pytest.mark.parametrize(("path", "data"), [(A, b"other"), (C, None), (C, b"other")], ids=["text", "path", "both"])
    def test_a_modification_is_recorded(self, store: Opened, path: str, data: bytes | None) -> None:
        store.create({A: b"one"})
        before = store.memory(A)
        store.move(A, path, WHO, data=data)
        memory, (version, first) = store.memory(path), store.versions()
        text = data or b"one"
        sha256 = hashlib.sha256(text).hexdigest()
        assert (memory.id, memory.created_at, memory.path) == (before.id, before.created_at, path)
        assert memory.updated_at == version.created_at > before.updated_at
        assert (memory.size_bytes, memory.sha256, memory.version_id) == (len(text), sha256, version.id)
        assert (version.operation, version.path, version.memory_id) == ("modified", path, before.id)
        assert (version.size_bytes, version.sha256, version.actor, version.revision) == (len(text), sha256, WHO, 2)
        assert (first.id, store.version_text(first.id)) == (before.version_id, b"one")
        assert (store.tree(), store.usage()) == ({path: text}, Usage(1, len(text)))
        assert store.found(before.id) == memory
        assert store.versions(path=A) == [each for each in (version, first) if each.path == A]

    def test_a_deletion_is_recorded(self, store: Opened) -> None:
        """The version has no size and no hash. A new memory at the path has another id, even within one write."""
        store.create({A: b"one"})
        before = store.memory(A)

        def work(tx: Transaction) -> None:
            tx.record([Deleted(memory_at(tx, A))], WHO)
            tx.record([Created(A, b"two")], None)

        store.write(work)
        created, deleted, first = store.versions()
        assert (deleted.operation, deleted.path, deleted.memory_id) == ("deleted", A, before.id)
        assert (deleted.size_bytes, deleted.sha256, deleted.actor) == (None, None, WHO)
        assert [created.revision, deleted.revision, first.revision] == [2, 2, 1]
        assert store.memory(A).id == created.memory_id != before.id
        assert (store.tree(), store.version_text(first.id)) == ({A: b"two"}, b"one")
        store.delete(A)
        assert (store.tree(), store.usage()) == ({}, Usage(0, 0))

    def test_a_change_returns_its_memories_and_versions(self, store: Opened) -> None:
        """`record` returns the ids of the memory and version of each change, in the order of the changes."""
        store.create({A: b"a", B: b"b"})
        a, b = store.memory(A), store.memory(B)
        changes: list[Change] = [Created("/memories/new", b"new"), Updated(a, A, b"aa"), Moved(b, C)]
        recorded = store.write(lambda tx: tx.record(changes, None))
        gone = store.write(lambda tx: tx.record([Deleted(memory_at(tx, A))], None))
        assert [*recorded, *gone] == [(version.memory_id, version.id) for version in reversed(store.versions()[:4])]
        assert store.write(lambda tx: tx.record([], None)) == []

    def test_many_changes_in_one_write_are_one_revision(self, store: Opened) -> None:
        """Each creation, edit, rename or deletion adds one version. The times of the versions increase."""
        count = 300
        files = {f"/memories/d{number % 7}/{number:03d}": str(number).encode() for number in range(count)}
        store.create(files)
        assert (store.tree(), store.revision(), len(store.versions())) == (files, 1, count)
        moved = {path.replace("/memories/", "/memories/moved/"): data for path, data in files.items()}
        every = store.memories()
        store.write(lambda tx: tx.record([Moved(one, f"/memories/moved{one.path[9:]}") for one in every], None))
        assert (store.tree(), store.revision(), len(store.versions())) == (moved, 2, 2 * count)
        store.write(lambda tx: tx.record([Updated(one, one.path, b"!" * 9) for one, _ in tx.list(ROOT)], None))
        assert (set(store.tree().values()), store.usage()) == ({b"!" * 9}, Usage(count, 9 * count))
        store.delete(*(path for path in moved if path.startswith("/memories/moved/d3/")))
        assert set(store.tree()) == {path for path in moved if not path.startswith("/memories/moved/d3/")}
        self._check_order(store)

    def test_changes_of_one_record_apply_in_order(self, store: Opened) -> None:
        store.create({A: b"one", B: b"two", "/memories/e": b"e"})
        a, b, e = (store.memory(path) for path in (A, B, "/memories/e"))

        def work(tx: Transaction) -> None:
            changes: list[Change] = [Updated(a, C, b"one, moved"), Moved(b, A), Created(B, b"new"), Deleted(e)]
            tx.record([*changes, Created("/memories/e", b"")], WHO)
            assert [tx.get(path).data for path in (C, A, B, "/memories/e")] == [b"one, moved", b"two", b"new", b""]

        store.write(work)
        assert store.tree() == {A: b"two", B: b"new", C: b"one, moved", "/memories/e": b""}
        assert (store.memory(C).id, store.memory(A).id) == (a.id, b.id)
        assert store.usage() == Usage(4, 16)
        assert [(one.operation, one.path) for one in store.versions()[:5]] == [
            ("created", "/memories/e"), ("deleted", "/memories/e"), ("created", B), ("modified", A), ("modified", C),
        ]  # fmt: skip
        texts = [store.version_text(one.id) for one in store.versions(memory_id=a.id)]
        assert (texts, store.get("/memories/none").exists) == ([b"one, moved", b"one"], False)

    def test_bytes_are_stored_exactly(self, store: Opened) -> None:
        """Line ends, spaces, marks, Unicode forms and two megabytes are stored exactly, also in the history."""
        store.create({f"/memories/{number}": data for number, data in enumerate(TEXTS)})
        assert store.tree() == {f"/memories/{number}": data for number, data in enumerate(TEXTS)}
        for data in TEXTS:
            store.put("/memories/0", data)
            assert store.get("/memories/0").data == data
            assert store.memory("/memories/0").sha256 == hashlib.sha256(data).hexdigest()
        assert [store.version_text(one.id) for one in reversed(store.versions())] == [*TEXTS, *TEXTS]
        assert store.usage().size_bytes == sum(map(len, TEXTS)) + len(TEXTS[-1])

    def test_unusual_paths_and_actors_are_stored(self, store: Opened) -> None:
        actors = [None, *(Actor(kind, "x") for kind in ACTOR_KINDS), Actor("user", "a:b é😀'"), Actor("job", "x" * 255)]
        for path, actor in zip(ODD_PATHS, cycle(actors)):
            store.create({path: path.encode()}, actor)
            assert store.versions(limit=1)[0].actor == actor
        assert store.tree() == {path: path.encode() for path in ODD_PATHS}
        for path in ODD_PATHS:
            store.put(path, b"changed")
            store.move(path, "/memories/elsewhere")
            store.move("/memories/elsewhere", path)
            assert [one.path for one in store.versions(path=path)] == [path] * 3
        store.delete(*ODD_PATHS)
        assert store.tree() == {}

    def test_times_and_ids_increase_with_any_clock(self, tmp_path: Path) -> None:
        """Times have microseconds and the zone UTC. They increase even if the clock stops or goes back by an hour."""
        now = [1_800_000_000.25]
        store = Opened(self.opened(tmp_path, clock=lambda: now[0]))
        store.create({A: b""})
        assert store.memory(A).created_at == datetime.fromtimestamp(1_800_000_000.25, UTC)
        for step, seconds in enumerate((1_800_000_000.0, 1_799_996_400.0, time.time())):
            now[0] = seconds
            store.create({f"/memories/{step}/{number}": b"" for number in range(20)})
            store.put(f"/memories/{step}/0", b"changed")
        store = Opened(self.reopened(store.backend, tmp_path))
        store.create({B: b""})
        self._check_order(store)

    def test_ids_come_from_new_id(self, tmp_path: Path) -> None:
        told: list[tuple[str, int]] = []

        def new_id(prefix: str, time_us: int) -> str:
            told.append((prefix, time_us))
            return sortable_id(prefix, time_us)

        store = Opened(self.opened(tmp_path, new_id=new_id))
        store.create({A: b""})
        store.put(A, b"x")
        prefixes = [prefix for prefix, _ in told]
        assert (prefixes[0], sorted(prefixes[1:])) == ("memstore_", ["mem_", "memver_", "memver_"])
        times = [time_us for _, time_us in told]
        assert times == sorted(times)

    def test_a_deleted_memory_can_be_recreated(self, store: Opened) -> None:
        store.create({A: b"one"})
        before = store.memory(A)
        store.delete(A)
        again = Again(before.id, before.created_at)
        store.write(lambda tx: tx.record([Created(B, b"two", again=again)], WHO))
        after = store.memory(B)
        assert (after.id, after.created_at) == (before.id, before.created_at)
        assert after.updated_at > before.updated_at
        assert store.found(before.id) == after
        operations = [version.operation for version in store.versions(memory_id=before.id)]
        assert operations == ["created", "deleted", "created"]
        assert store.usage() == Usage(1, 3)

    def test_versions_are_imported_unchanged(self, backend: Backend, store: Opened) -> None:
        for step in steps(store):
            step()
        other = Opened(backend, "copy")
        for version in store.versions(oldest_first=True):
            other.write(partial(_take_one, version=version, data=store.version_text(version.id)))
        assert unsealed(other.versions()) == unsealed(store.versions())
        assert unsealed(other.memories()) == unsealed(store.memories())
        assert (other.tree(), other.usage(), other.revision()) == (store.tree(), store.usage(), store.revision())
        texts = [store.version_text(version.id) for version in store.versions()]
        assert [other.version_text(version.id) for version in other.versions()] == texts
        other.put(A, b"later")
        assert other.versions()[0].revision == store.revision() + 1
        assert other.versions()[0].created_at > store.versions()[0].created_at

    def test_a_redacted_version_records_actor_and_time(self, store: Opened) -> None:
        """The text, path, size and hash are removed. A query by path no longer finds the version."""
        store.create({A: b"secret"}, WHO)
        store.put(A, b"public")
        newest, first = store.versions()
        blank(store, [first.id])
        blanked = store.versions(memory_id=first.memory_id)[1]
        gone = replace(first, path="", size_bytes=None, sha256=None, seal=None, provenance_text=None)
        assert blanked == replace(gone, redacted_at=blanked.redacted_at, redacted_by=Actor("user", "bob"))
        assert blanked.redacted_at is not None
        assert abs(blanked.redacted_at - newest.created_at) < timedelta(hours=1)
        assert store.version_text(first.id) is None
        assert store.versions(path=A) == [newest]
        assert (store.tree(), store.usage()) == ({A: b"public"}, Usage(1, 6))

    def test_a_current_version_cannot_be_redacted(self, store: Opened) -> None:
        """Redaction ignores the current version of a memory, and versions that are already redacted."""
        store.create({A: b"one"})
        store.move(A, B)
        store.move(B, C)
        ids = [version.id for version in store.versions()]
        blank(store, ids)
        present, *older = store.versions()
        assert (present.path, store.tree()) == (C, {C: b"one"})
        assert all(version.redacted_at for version in older)
        blank(store, ids, Actor("user", "later"))
        assert store.versions() == [present, *older]
        store.put(C, b"two")
        blank(store, ids)
        assert [store.version_text(each) for each in ids] == [None] * 3
        assert store.tree() == {C: b"two"}
        store.delete(C)
        store.create({C: b"other"})
        blank(store, [version.id for version in store.versions()])
        assert [version.path for version in store.versions()] == [C, "", "", "", "", ""]
        assert [version.operation for version in store.versions()][:3] == ["created", "deleted", "modified"]

    def test_pruned_versions_are_removed(self, store: Opened) -> None:
        """Pruning keeps all other versions and their texts. The revision never goes back."""
        for number in range(6):
            store.put(A, b"%d" % number)
        store.create({B: b"b"})
        store.delete(B)
        versions, revision = store.versions(), store.revision()
        prune(store, [version.id for version in (*versions[:2], versions[4], versions[6])])
        assert store.versions() == [versions[2], versions[3], versions[5], versions[7]]
        assert [store.version_text(version.id) for version in store.versions()] == [b"5", b"4", b"2", b"0"]
        with pytest.raises(NotFound):
            store.version_text(versions[4].id)
        assert store.versions(memory_id=versions[0].memory_id) == []
        assert store.tree() == {A: b"5"}
        store.put(A, b"later")
        assert store.revision() == store.versions()[0].revision > revision

    def test_a_deletion_is_pruned_after_its_texts(self, store: Opened) -> None:
        """Without its deletion, an earlier version of a memory would look current."""
        store.create({A: b"one"})
        store.put(A, b"two")
        store.delete(A)
        deleted, second, first = store.versions()
        prune(store, [deleted.id, second.id])
        assert store.versions() == [deleted, first]
        prune(store, [deleted.id, first.id])
        assert store.versions() == []
        assert (store.tree(), store.usage(), store.found(first.memory_id)) == ({}, Usage(0, 0), None)

    def test_totals_survive_the_newest_version(self, store: Opened) -> None:
        """After the newest version is redacted or pruned, usage and revision stay, and the next id is higher."""
        store.create({A: b"one", B: b"b"})
        store.delete(B)
        deleted, second, _ = store.versions()
        blank(store, [deleted.id])
        assert (store.usage(), store.revision()) == (Usage(1, 3), 2)
        prune(store, [deleted.id, second.id])
        assert len(store.versions()) == 1
        assert (store.usage(), store.revision()) == (Usage(1, 3), 2)
        store.put(A, b"two")
        newest = store.versions()[0]
        assert newest.id > deleted.id
        assert (newest.revision, store.usage()) == (3, Usage(1, 3))

    def test_needed_versions_are_not_pruned(self, store: Opened) -> None:
        store.create({A: b"one"})
        store.move(A, B)
        store.create({C: b"c"})
        prune(store, [version.id for version in store.versions()])
        assert store.tree() == {B: b"one", C: b"c"}
        assert [store.version_text(version.id) for version in store.versions()][:2] == [b"c", b"one"]
        store.put(B, b"two")
        prune(store, [version.id for version in store.versions()])
        assert [store.version_text(version.id) for version in store.versions()] == [b"two", b"c"]

    def _check_order(self, store: Opened) -> None:
        versions = store.versions()
        times, ids = [one.created_at for one in versions], [one.id for one in versions]
        assert times == sorted(set(times), reverse=True)
        assert ids == sorted(set(ids), reverse=True)
        revisions = [one.revision for one in versions]
        assert revisions == sorted(revisions, reverse=True)


def unsealed(records: Sequence[P]) -> list[P]:
    return [replace(record, seal=None) for record in records]


def blank(store: Opened, ids: Sequence[str], actor: Actor | None = None) -> None:
    store.write(lambda tx: tx.redact(ids, actor or Actor("user", "bob")))


def prune(store: Opened, ids: Sequence[str]) -> None:
    store.write(lambda tx: tx.prune(ids))


def _take_one(tx: Transaction, version: Version, data: bytes | None) -> None:
    before = tx.find(version.memory_id)
    path = None if version.operation == "deleted" else version.path
    moved = before is not None and path is not None and before.path != path
    tx.record([Imported(version, before, None if moved or path is None else data)], None)
