"""Backend suite: imported versions, redaction and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Actor, Backend, Change, Memory, Transaction, Usage, Version
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening
from retentive.testing.backend_suite.snapshots import steps
from retentive.values.records import Again

SealedRecord = TypeVar("SealedRecord", Memory, Version)
PERSON = Actor("user", "ann")


class HistorySuite(SuiteOpening):
    """Tests of imported versions, redaction and pruning."""

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

    def test_a_deletion_is_imported_without_its_memory(self, backend: Backend, store: Opened) -> None:
        """Versions can be imported even if the earlier versions of the memory are missing."""
        store.create({A: b"1"})
        store.delete(A)
        other = Opened(backend, "copy")
        deleted = store.versions()[0]
        other.write(lambda tx: tx.record([Change(None, None, origin=deleted)], None))
        assert unsealed(other.versions()) == unsealed([deleted])
        assert (other.tree(), other.usage()) == ({}, Usage(0, 0))

    def test_a_redacted_version_records_actor_and_time(self, store: Opened) -> None:
        """The text, path, size and hash are removed. A query by path no longer finds the version."""
        store.create({A: b"secret"}, PERSON)
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
        blank(store, [version.id for version in store.versions()[1:]])
        assert [version.path for version in store.versions()] == [B, "", "", ""]
        assert [version.operation for version in store.versions()] == ["created", "deleted", "modified", "created"]
        assert store.tree() == {B: b"other"}

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


def unsealed(records: Sequence[SealedRecord]) -> list[SealedRecord]:
    """Return the memories or versions without their seals, because seals differ between stores."""
    return [replace(record, seal=None) for record in records]


def blank(store: Opened, ids: Sequence[str], actor: Actor | None = None) -> None:
    """Redact versions."""
    store.write(lambda tx: tx.redact(ids, actor or Actor("user", "bob")))


def prune(store: Opened, ids: Sequence[str]) -> None:
    """Remove versions."""
    store.write(lambda tx: tx.prune(ids))


def _take_one(tx: Transaction, version: Version, data: bytes | None) -> None:
    before = tx.find(version.memory_id)
    path = None if version.operation == "deleted" else version.path
    moved = before is not None and path is not None and before.path != path
    tx.record([Change(before, path, None if moved or path is None else data, origin=version)], None)
