"""Backend suite: renames, alone and combined with other changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from retentive.storage.contract import Actor, Change, Transaction, Usage
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening

WHO = Actor("user", "ann")


def move_and_edit(store: Opened, path: str, new: str, data: bytes) -> None:
    """Change path and text of a memory in one change."""
    store.backend.write(store.id, lambda tx: tx.record([Change(tx.get(path).memory, new, data)], WHO))


class MovesSuite(SuiteOpening):
    """Tests of renames, alone and combined with other changes."""

    def test_a_change_of_path_and_text_is_one_version(self, store: Opened) -> None:
        """At the new path with the new text. The id and the creation time stay."""
        store.create({A: b"one"})
        before = store.memory(A)
        move_and_edit(store, A, C, b"other")
        memory, versions = store.memory(C), store.versions()
        sha256 = hashlib.sha256(b"other").hexdigest()
        assert len(versions) == 2
        assert (memory.id, memory.created_at, memory.path) == (before.id, before.created_at, C)
        assert (memory.size_bytes, memory.sha256, memory.version_id) == (5, sha256, versions[0].id)
        assert (versions[0].operation, versions[0].path, versions[0].memory_id) == ("modified", C, before.id)
        assert (versions[0].size_bytes, versions[0].sha256, versions[0].actor) == (5, sha256, WHO)
        assert store.version_text(before.version_id) == b"one"
        assert (store.tree(), store.usage()) == ({C: b"other"}, Usage(1, 5))
        assert store.found(before.id) == memory
        assert store.chosen(path=A) == versions[1:]

    def test_a_memory_that_was_moved_and_edited_can_be_changed_further(self, store: Opened) -> None:
        """Edited, moved back, deleted: its old path is free."""
        store.create({A: b"one", B: b"two"})
        move_and_edit(store, A, C, b"other")
        store.create({A: b"new"})
        store.put(C, b"edited")
        assert store.tree() == {A: b"new", B: b"two", C: b"edited"}
        store.delete(A)
        move_and_edit(store, C, A, b"back")
        assert store.tree() == {A: b"back", B: b"two"}
        store.delete(A, B)
        assert (store.tree(), store.usage()) == ({}, Usage(0, 0))

    def test_moves_with_text_are_durable(self, tmp_path: Path) -> None:
        """They exist when the location is opened again."""
        if not self.lasting:
            pytest.skip("this backend keeps nothing once it is closed")
        store = Opened(self.opened(tmp_path))
        store.create({A: b"one"})
        move_and_edit(store, A, C, b"other")
        versions = store.versions()
        store.backend.close()
        again = Opened(self.opened(tmp_path))
        assert again.tree() == {C: b"other"}
        assert again.versions() == versions

    def test_changes_of_one_record_apply_in_order(self, store: Opened) -> None:
        """A path that one change frees is free for the next."""
        store.create({A: b"one", B: b"two"})
        ids = store.memory(A).id, store.memory(B).id

        def work(tx: Transaction) -> None:
            one, two = tx.get(A).memory, tx.get(B).memory
            tx.record([Change(one, C, b"one, moved"), Change(two, A), Change(None, B, b"new")], WHO)
            assert (tx.get(C).data, tx.get(A).data, tx.get(B).data) == (b"one, moved", b"two", b"new")

        store.backend.write(store.id, work)
        assert store.tree() == {A: b"two", B: b"new", C: b"one, moved"}
        assert (store.memory(C).id, store.memory(A).id) == ids
        assert store.usage() == Usage(3, 16)
        assert [version.path for version in store.versions()[:3]] == [B, A, C]

    def test_a_rename_frees_its_path_for_a_later_change(self, store: Opened) -> None:
        """In one record: the rename applies before the changes after it."""
        store.create({A: b"one", B: b"two"})

        def work(tx: Transaction) -> None:
            one, two = tx.get(A).memory, tx.get(B).memory
            tx.record([Change(one, C), Change(two, A, b"two, edited")], WHO)

        store.backend.write(store.id, work)
        assert store.tree() == {A: b"two, edited", C: b"one"}
        assert len(store.versions()) == 4
