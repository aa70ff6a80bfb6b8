"""Backend suite: packs of superseded texts. A pack changes no answer, and loses no text but those that are removed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Transaction, Updated
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening, memory_at
from retentive.testing.backend_suite.versions import TEXTS, blank, prune

COUNT = 150  # more than a pack takes


class PacksSuite(SuiteOpening):
    """Tests of `Transaction.pack`."""

    def test_packing_changes_no_answer(self, store: Opened) -> None:
        """Packing again, or with other memories, changes nothing either. Edits of a packed memory go on."""
        _write_history(store)
        for ids in (store_ids(store)[5:40], store_ids(store), store_ids(store)):
            before = _answers(store)
            pack(store, ids)
            assert _answers(store) == before
        store.put(A, b"later")
        before = _answers(store)
        pack(store, store_ids(store))
        assert _answers(store) == before

    def test_all_texts_can_be_packed(self, store: Opened) -> None:
        for text in TEXTS:
            store.put(A, b"other")
            store.put(A, text)
        before = _answers(store)
        pack(store, store_ids(store))
        assert _answers(store) == before

    @pytest.mark.parametrize("removal", [blank, prune], ids=["redact", "prune"])
    def test_packed_texts_are_removed(self, store: Opened, removal: Callable[[Opened, list[str]], None]) -> None:
        _write_history(store)
        pack(store, store_ids(store))
        texts = {version_id: store.version_text(version_id) for version_id in store_ids(store)}
        ids, second = store_ids(store), store.versions(path=B, oldest_first=True)[1].id
        for going in ([ids[10]], ids[20:22], [second], ids[30:120]):
            removal(store, going)
            texts |= dict.fromkeys(going)
            assert {each: _text(store, each) for each in texts} == texts
        pack(store, store_ids(store))
        assert {each: _text(store, each) for each in texts} == texts

    def test_a_shared_text_goes_with_its_last_version(self, store: Opened) -> None:
        store.create({A: b"one"})
        store.move(A, B)
        store.put(B, b"two")
        store.put(B, b"three")
        _, second, renamed, first = store_ids(store)
        pack(store, store_ids(store))
        blank(store, [first])
        assert (_text(store, first), _text(store, renamed), _text(store, second)) == (None, b"one", b"two")
        store.put(B, b"four")
        pack(store, store_ids(store))  # makes a pack of the one before and of another text
        assert (_text(store, first), _text(store, renamed), _text(store, second)) == (None, b"one", b"two")
        blank(store, [renamed])
        assert (_text(store, renamed), _text(store, second)) == (None, b"two")
        prune(store, [first, renamed])
        assert (_text(store, second), store.tree()) == (b"two", {B: b"four"})

    def test_a_packed_memory_can_be_erased(self, store: Opened) -> None:
        _write_history(store)
        pack(store, store_ids(store))
        store.delete(A)
        ids = [version.id for version in store.versions() if version.memory_id == store.versions(path=A)[0].memory_id]
        kept = {each: _text(store, each) for each in store_ids(store) if each not in ids}
        prune(store, ids)
        assert {each: _text(store, each) for each in store_ids(store)} == kept

    def test_a_failed_write_packs_nothing(self, store: Opened) -> None:
        _write_history(store)
        before = _answers(store)

        def work(tx: Transaction) -> None:
            tx.pack([version.id for version in tx.versions()])
            tx.redact([next(tx.versions(oldest_first=True)).id], None)
            tx.record([Updated(memory_at(tx, A), A, b"new")], None)
            raise RuntimeError

        with pytest.raises(RuntimeError):
            store.write(work)
        assert _answers(store) == before

    def test_packing_and_edits_in_one_write(self, store: Opened) -> None:
        _write_history(store)
        ids = store_ids(store)
        texts = [_text(store, each) for each in ids]

        def work(tx: Transaction) -> list[bytes | None]:
            tx.pack(ids)
            tx.record([Updated(memory_at(tx, A), A, b"new")], None)
            tx.redact([ids[3]], None)
            tx.pack([version.id for version in tx.versions()])
            return [tx.version(each)[1] for each in ids]

        texts[3] = None
        assert store.write(work) == texts
        assert [_text(store, each) for each in ids] == texts


def pack(store: Opened, ids: list[str]) -> None:
    store.write(lambda tx: tx.pack(ids))


def store_ids(store: Opened) -> list[str]:
    return [version.id for version in store.versions()]


def _text(store: Opened, version_id: str) -> bytes | None:
    try:
        return store.version_text(version_id)
    except NotFound:
        return None


def _answers(store: Opened) -> object:
    texts = {version_id: store.version_text(version_id) for version_id in store_ids(store)}
    return store.versions(), store.memories(), store.tree(), store.usage(), store.revision(), texts


def _write_history(store: Opened) -> None:
    """Edit one memory often, rename, delete and recreate others."""
    line = b"a line that stays as it is\n" * 40
    store.create({A: line, C: b"c"})

    def edit(tx: Transaction, number: int) -> None:
        tx.record([Updated(memory_at(tx, A), A, line + b"edit %d" % number)], None)

    for number in range(COUNT):
        store.write(partial(edit, number=number))
    store.move(C, B)
    for text in (b"b1", b"b2"):
        store.put(B, text)
    store.move(B, C)
    store.put(C, b"c2")
    store.delete(C)
    store.create({B: b"another"})
    store.put(B, b"another one")
