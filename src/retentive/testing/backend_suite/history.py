"""Backend suite: earlier states, imported versions, redaction, pruning and erasure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import product
from typing import TypeVar

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Actor, Backend, Change, Memory, Snapshot, Transaction, Usage, Version
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening
from retentive.values.paths import ROOT
from retentive.values.records import Again

SealedRecord = TypeVar("SealedRecord", Memory, Version)
PERSON = Actor("user", "ann")


class HistorySuite(SuiteOpening):
    """Tests of earlier states, imported versions, redaction, pruning and erasure."""

    def test_a_change_returns_its_memories_and_versions(self, store: Opened) -> None:
        """`record` returns the ids of the memory and version of each change, in the order of the changes."""
        store.create({A: b"a", B: b"b"})
        a, b = store.memory(A), store.memory(B)
        changes = [Change(None, "/memories/new", b"new"), Change(a, A, b"aa"), Change(b, C)]
        recorded = store.write(lambda tx: tx.record(changes, None))
        gone = store.write(lambda tx: tx.record([Change(tx.get(A).memory, None)], None))
        made = [(version.memory_id, version.id) for version in reversed(store.versions()[:4])]
        assert [*recorded, *gone] == made
        assert store.write(lambda tx: tx.record([], None)) == []

    def test_versions_can_be_bounded_by_ids(self, store: Opened) -> None:
        """The bounds of `versions` are exclusive and need not be existing ids."""
        for number in range(7):
            store.put(A, b"%d" % number)
            store.put(B, b"%d" % number)
        every = store.versions()
        ids = [version.id for version in every]
        assert store.versions(after=ids[5]) == every[:5]
        assert store.versions(before=ids[5]) == every[6:]
        assert store.versions(before=ids[2], after=ids[9]) == every[3:9]
        assert store.versions(before=ids[5] + "!", limit=3) == every[5:8]
        of_a = [version for version in every if version.path == A]
        assert store.versions(before=of_a[2].id, memory_id=of_a[0].memory_id) == of_a[3:]
        assert store.versions(after=ids[0]) == store.versions(before=ids[-1]) == []
        assert store.versions(before="\0") == []

    def test_earlier_states_can_be_read(self, store: Opened) -> None:
        """The state before a version has the newest earlier version of each memory."""
        states: list[dict[str, bytes | None]] = [{}]
        for step in steps(store):
            step()
            states.append(store.tree())
        versions = list(reversed(store.versions()))
        assert [state_at(store, version.id + "!") for version in versions] == states[1:]
        assert state_at(store, versions[0].id) == {}
        assert state_at(store, versions[3].id) == states[3]

    def test_earlier_directories_are_parts_of_earlier_states(self, store: Opened) -> None:
        """`earlier` returns None, or the same versions of a directory as `as_of`, even after redaction and pruning."""
        for step in steps(store):
            step()
            compare_earlier(store)
        store.create({"/memories/d/e": b"e", "/memories/d/f/g": b"g", "/memories/d0": b"0"})
        store.move("/memories/d/e", "/memories/d/f/e", data=b"with another text")
        store.move("/memories/d/f/e", "/memories/d/e")
        store.delete("/memories/d/f/g")
        compare_earlier(store)
        versions = store.versions()
        blank(store, [version.id for version in versions[1:8:3]])
        compare_earlier(store)
        prune(store, [version.id for version in versions[3:9:4]])
        compare_earlier(store)

    def test_all_texts_are_returned_together(self, store: Opened) -> None:
        """`texts` returns each memory with its bytes, in byte order of the paths."""
        files = {f"/memories/{number:03}/{number % 7}": b"%d" % number for number in range(150)}
        store.create(files)
        store.put(A, b"\xc3\xa9")
        store.move(A, "/memories/zz")
        found = store.read(lambda snapshot: list(snapshot.texts(ROOT)))
        assert {memory.path: data for memory, data in found} == {**files, "/memories/zz": b"\xc3\xa9"}
        assert [memory for memory, _ in found] == store.memories(ROOT)
        below = store.read(lambda snapshot: list(snapshot.texts("/memories/003")))
        assert [data for _, data in below] == [b"3"]

    def test_a_deleted_memory_can_be_recreated(self, store: Opened) -> None:
        """The recreated memory has the same id, creation time and history."""
        store.create({A: b"one"})
        before = store.memory(A)
        store.delete(A)
        again = Again(before.id, before.created_at)
        store.write(lambda tx: tx.record([Change(None, B, b"two", again=again)], PERSON))
        after = store.memory(B)
        assert (after.id, after.created_at) == (before.id, before.created_at)
        assert after.updated_at > before.updated_at
        assert store.found(before.id) == after
        operations = [version.operation for version in store.versions(memory_id=before.id)]
        assert operations == ["created", "deleted", "created"]
        assert store.usage() == Usage(1, 3)

    def test_versions_are_imported_unchanged(self, backend: Backend, store: Opened) -> None:
        """The copy of a store has the same ids, memories, times, actors and revisions, and accepts new changes."""
        for step in steps(store):
            step()
        other = Opened(backend, "copy")
        import_versions(store, other)
        assert unsealed(other.versions()) == unsealed(store.versions())
        assert unsealed(other.memories()) == unsealed(store.memories())
        assert other.tree() == store.tree()
        assert (other.usage(), other.revision()) == (store.usage(), store.revision())
        texts = [store.version_text(version.id) for version in store.versions()]
        assert [other.version_text(version.id) for version in other.versions()] == texts
        other.put(A, b"later")
        assert other.versions()[0].revision == store.revision() + 1
        assert other.versions()[0].created_at > store.versions()[0].created_at

    def test_a_history_with_gaps_is_imported(self, backend: Backend, store: Opened) -> None:
        """Versions can be imported even if earlier versions are missing.

        The first history has only the deletion of a memory. The second history lacks a deletion: the importer drops the
        memory, so that a new memory can take its path.
        """
        store.create({A: b"1", B: b"2"})
        store.delete(A)
        store.create({A: b"3"})
        third, deleted, *first = store.versions()
        other = Opened(backend, "copy")
        other.write(lambda tx: tx.record([Change(None, None, origin=deleted)], None))
        assert unsealed(other.versions()) == unsealed([deleted])
        assert (other.tree(), other.usage()) == ({}, Usage(0, 0))
        another = Opened(backend, "another")
        for version in reversed(first):
            another.write(partial(_take_one, version=version, data=store.version_text(version.id)))

        def work(tx: Transaction) -> None:
            tx.drop([memory for memory in [tx.get(A).memory] if memory is not None])
            _take_one(tx, third, b"3")

        another.write(work)
        assert another.tree() == {A: b"3", B: b"2"}
        assert another.usage() == Usage(2, 2)
        assert [version.id for version in another.versions()] == [third.id, *(version.id for version in first)]
        assert another.found(deleted.memory_id) is None

    def test_a_redacted_version_records_actor_and_time(self, store: Opened) -> None:
        """The text, path, size and hash are removed. A query by path no longer finds the version."""
        store.create({A: b"secret"}, PERSON)
        store.put(A, b"public")
        newest, first = store.versions()
        blank(store, [first.id])
        blanked = store.versions(memory_id=first.memory_id)[1]
        assert blanked == replace(
            first,
            path="",
            size_bytes=None,
            sha256=None,
            seal=None,
            provenance_text=None,
            redacted_at=blanked.redacted_at,
            redacted_by=Actor("user", "bob"),
        )
        assert blanked.redacted_at is not None
        assert abs(blanked.redacted_at - newest.created_at) < timedelta(hours=1)
        assert store.version_text(first.id) is None
        assert store.versions(path=A) == [newest]
        assert store.tree() == {A: b"public"}
        assert store.usage() == Usage(1, 6)
        assert [version.path for version in store.read(lambda found: list(found.as_of(newest.id)))] == [""]

    def test_a_current_version_cannot_be_redacted(self, store: Opened) -> None:
        """Redaction ignores the current version of a memory, and versions that are already redacted.

        After a rename, an older version has the same stored text as the current version. The current version keeps this
        text.
        """
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

    def test_a_deletion_can_be_redacted(self, store: Opened) -> None:
        """All versions of a deleted memory can be redacted."""
        store.create({A: b"one"})
        store.move(A, B)
        store.delete(B)
        store.create({B: b"other"})
        gone = store.versions()[1:]
        blank(store, [version.id for version in gone])
        assert [version.path for version in store.versions()] == [B, "", "", ""]
        assert [version.operation for version in store.versions()] == ["created", "deleted", "modified", "created"]
        assert store.tree() == {B: b"other"}

    def test_pruned_versions_are_removed(self, store: Opened) -> None:
        """Pruning keeps all other versions and their texts."""
        for number in range(6):
            store.put(A, b"%d" % number)
        store.create({B: b"b"})
        store.delete(B)
        versions = store.versions()
        prune(store, [version.id for version in versions[:2]] + [versions[4].id, versions[6].id])
        assert store.versions() == [versions[2], versions[3], versions[5], versions[7]]
        assert [store.version_text(version.id) for version in store.versions()] == [b"5", b"4", b"2", b"0"]
        with pytest.raises(NotFound):
            store.version_text(versions[4].id)
        assert store.versions(memory_id=versions[0].memory_id) == []
        assert store.tree() == {A: b"5"}

    def test_needed_versions_are_not_pruned(self, store: Opened) -> None:
        """Pruning keeps the newest version of each memory that is not deleted.

        After a rename, a pruned version may have the same stored text as a version that is kept. The text is then kept.
        """
        store.create({A: b"one"})
        store.move(A, B)
        store.create({C: b"c"})
        prune(store, [version.id for version in store.versions()])
        assert store.tree() == {B: b"one", C: b"c"}
        assert [store.version_text(version.id) for version in store.versions()][:2] == [b"c", b"one"]
        store.put(B, b"two")
        prune(store, [version.id for version in store.versions()])
        assert [store.version_text(version.id) for version in store.versions()] == [b"two", b"c"]

    def test_redaction_and_pruning_are_new_revisions(self, store: Opened) -> None:
        """Redaction and pruning increase the revision, because they invalidate data cached for an older revision."""
        store.create({A: b"one"})
        store.put(A, b"two")
        store.put(A, b"three")
        blank(store, [store.versions()[1].id])
        assert store.revision() == 4
        prune(store, [store.versions()[2].id])
        assert store.revision() == 5
        assert len(store.versions()) == 2

    def test_an_erased_store_is_removed(self, backend: Backend, store: Opened) -> None:
        """The id of the erased store cannot be used again, but its key can."""
        store.create({A: b"one", C: b"two"}, PERSON)
        store.write(lambda tx: tx.put_record("kind", "key", "value"))
        backend.put_side_records(store.id, "beside", {"key": "value"})
        other = Opened(backend, "other")
        other.create({A: b"stays"})
        backend.erase_store(store.id, PERSON)
        with pytest.raises(NotFound):
            store.tree()
        with pytest.raises(NotFound):
            store.create({A: b"again"})
        with pytest.raises(NotFound):
            backend.put_side_records(store.id, "beside", {"key": "value"})
        assert [info.id for info in backend.list_stores()] == [other.id]
        assert backend.get_store("tested") is None
        info = backend.get_store(store.id)
        assert info is not None
        assert info.erased_at is not None
        assert (info.id, info.key, info.name, info.memories, info.size_bytes) == (store.id, None, "", 0, 0)
        backend.erase_store(store.id, PERSON)
        assert backend.get_store(store.id) == info
        again = Opened(backend)
        assert again.id != store.id
        assert again.tree() == {}
        assert again.versions() == []
        again.create({A: b"new"})
        assert other.tree() == {A: b"stays"}


def steps(store: Opened) -> Sequence[Callable[[], None]]:
    """Return functions that make changes of every kind. Each function creates one version."""
    return (
        lambda: store.create({A: b"1"}, PERSON),
        lambda: store.create({B: b"2"}),
        lambda: store.put(A, b"3"),
        lambda: store.move(A, C),
        lambda: store.create({A: b"4"}),
        lambda: store.delete(B),
        lambda: store.put(C, b"5", PERSON),
        lambda: store.move(C, B),
        lambda: store.put(B, b"6"),
    )


def compare_earlier(store: Opened) -> None:
    """Compare `earlier` with `as_of` at every version."""
    ids = [version.id for version in store.versions()]
    for before in [*ids, *(each + "!" for each in ids), "memver_", "~"]:
        store.read(partial(_compare_earlier, before=before))


def _compare_earlier(found: Snapshot, before: str) -> None:
    versions = sorted(found.as_of(before), key=lambda version: version.path)
    for under, is_level in product((ROOT, "/memories/d", "/memories/d/f", "/memories/x"), (False, True)):
        for start in ("", "/memories/b", "/memories/d/c", "/memories/d/d", "/memories/d0", "/memories/e"):
            expected: dict[str, Version] = {}
            for version in versions:
                name = version.path[len(under) + 1 :]
                if version.path.startswith(under + "/") and version.path >= start:
                    expected.setdefault(name.partition("/")[0] if is_level else name, version)
            for limit in (None, 0, 1, 2):
                earlier = found.earlier(before, under, start=start, limit=limit, one_level=is_level)
                if earlier is not None:
                    assert list(earlier) == list(expected.values())[:limit], (before, under, is_level, start, limit)


def state_at(store: Opened, before: str) -> dict[str, bytes | None]:
    """Return the bytes of all memories, by path, in the state before the version `before`."""
    return store.read(lambda found: {version.path: found.text(version.id) for version in found.as_of(before)})


def unsealed(records: Sequence[SealedRecord]) -> list[SealedRecord]:
    """Return the memories or versions without their seals, because seals differ between stores."""
    return [replace(record, seal=None) for record in records]


def blank(store: Opened, ids: Sequence[str], actor: Actor | None = None) -> None:
    """Redact versions."""
    store.write(lambda tx: tx.redact(ids, actor or Actor("user", "bob")))


def prune(store: Opened, ids: Sequence[str]) -> None:
    """Remove versions."""
    store.write(lambda tx: tx.prune(ids))


def import_versions(store: Opened, other: Opened) -> None:
    """Copy all versions of one store to another, oldest first."""
    for version in reversed(store.versions()):
        other.write(partial(_take_one, version=version, data=store.version_text(version.id)))


def _take_one(tx: Transaction, version: Version, data: bytes | None) -> None:
    before = tx.find(version.memory_id)
    path = None if version.operation == "deleted" else version.path
    moved = before is not None and path is not None and before.path != path
    tx.record([Change(before, path, None if moved or path is None else data, origin=version)], None)
