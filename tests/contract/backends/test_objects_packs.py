"""Packs in object storage: the cost of a batch and of a view, and the erasure of one text from a pack."""

from __future__ import annotations

import random
from functools import partial

import pytest

from retentive.errors import Damaged
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Created, Transaction
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.reader import NewTexts, without
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import finish, start

from .objects import Bottom, small
from .objects_dump import everything

PERSON = Actor("user", "ann")


def redact(tx: Transaction, version_id: str) -> None:
    """Redact one version."""
    tx.redact([version_id], PERSON)


# -- erasure -------------------------------------------------------------------------------------------------


def test_a_redacted_text_leaves_its_pack_and_the_others_stay(url: str) -> None:
    """No object contains the redacted text. Readers that know the old pack can still read the other texts."""
    store, reader = Opened(ObjectsBackend(url)), Opened(ObjectsBackend(url))
    files = {f"/memories/{number:02}": b"the text %d." % number for number in range(20)}
    store.create(files)
    assert reader.tree() == files
    (pack,) = Bottom(url).listed(f"stores/{store.id}/packs")
    left = dict(files)
    for number in random.Random(1).sample(range(20), 20):
        path = f"/memories/{number:02}"
        version = store.memory(path).version_id
        store.put(path, b"harmless")
        store.backend.write(store.id, partial(redact, version_id=version))
        left[path] = b"harmless"
        assert f"the text {number}." not in everything(url)
        for one in (reader, Opened(ObjectsBackend(url))):
            assert one.tree() == left
    assert pack not in Bottom(url).listed()
    assert list(capabilities.check(store.backend)) == []


def test_concurrent_erasures_from_one_pack_lose_none(url: str) -> None:
    """Every erased text stays erased, although several processes rewrite the same pack concurrently."""
    stores = [Opened(ObjectsBackend(url)) for _ in range(6)]
    stores[0].create({f"/memories/{number:02}": b"the text %d." % number for number in range(24)})
    versions = {version.path: version.id for version in stores[0].versions()}

    def erase(store: Opened, first: int) -> None:
        for number in range(first, 24, 6):
            path = f"/memories/{number:02}"
            store.put(path, b"harmless")
            store.backend.write(store.id, partial(redact, version_id=versions[path]))

    finish(start([partial(erase, store, first) for first, store in enumerate(stores)]))
    assert all(capabilities.purge(store.backend) for store in stores)
    assert "the text" not in everything(url)
    assert set(stores[3].tree().values()) == {b"harmless"}


def test_a_text_of_a_failed_attempt_is_removed(url: str) -> None:
    """The job runs again, because another writer was first. The texts of the first attempt leave no byte."""
    store, other = Opened(ObjectsBackend(url)), Opened(ObjectsBackend(url))
    store.create({A: b"0"})
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            other.put(A, b"1")
        changing = b"secret" if len(attempts) == 1 else b"public"
        tx.record([Created("/memories/x", b"same"), Created("/memories/y", changing)], None)

    store.backend.write(store.id, work)
    assert len(attempts) == 3  # the second attempt finds that its texts differ from the uploaded ones
    assert "secret" not in everything(url)
    assert Opened(ObjectsBackend(url)).tree() == {A: b"1", "/memories/x": b"same", "/memories/y": b"public"}


# -- bytes ---------------------------------------------------------------------------------------------------


def test_erased_texts_leave_the_others_where_they_are() -> None:
    """A pack without any text need not be kept."""
    texts = NewTexts(0)
    refs = [texts.add(text) for text in (b"one", b"", b"two", b"\0[[]]", b"three")]
    data: bytes | None = b"".join(texts.texts.values())
    assert not refs[1]
    for number, (ref, text) in enumerate([(refs[2], b"two"), (refs[0], b"one"), (refs[4], b"three"), (refs[3], b"[")]):
        assert data is not None
        assert text in data
        erased = without(data, [ref])
        assert (erased is None) == (number == 3)
        assert erased is None or (text not in erased and len(erased) == len(data) and without(erased, [ref]) == erased)
        data = erased


def test_an_intact_page_in_the_place_of_another_is_noticed(url: str) -> None:
    """A storage that returns an earlier state of a page, or another one, must not change the history unnoticed."""
    store = Opened(small(url))
    for number in range(30):
        store.create({f"/memories/{number:02}": b"%d" % number})
    bottom = Bottom(url)
    first, *others = sorted(bottom.listed(f"stores/{store.id}/pages"))
    for other in others:
        bottom.put(other, bottom.get(first))
    with pytest.raises(Damaged):
        Opened(small(url)).tree()
