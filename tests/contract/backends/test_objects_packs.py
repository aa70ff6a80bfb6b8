"""Packs in object storage: the cost of a batch and of a view, and the erasure of one text from a pack."""

from __future__ import annotations

import os
import random
import threading
from functools import partial
from typing import cast

import pytest

from retentive.errors import Damaged
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Change, Snapshot, Transaction
from retentive.storage.objects.backend import ObjectsBackend, open_objects
from retentive.storage.objects.reader import NewTexts, without
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import finish, start
from support import servers
from support.waiting import until

from .objects import Bottom, small
from .objects_dump import everything
from .wire import BUCKET, Asked, Wire

PATIENCE_S = 60.0
PERSON = Actor("user", "ann")


def far(wire: Wire, prefix: str) -> str:
    """A location on the server behind the proxy."""
    return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{wire.port}&region=us-east-1&allow_http=true"


def kinds(asked: list[Asked]) -> list[tuple[bytes, bytes]]:
    """Return the method and the kind of object of each request."""
    return [
        (one.method, next(kind for kind in (b"packs", b"pages", b"manifests") if kind in one.path)) for one in asked
    ]


# -- costs ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_batch_of_writers_costs_two_puts(wire: Wire) -> None:
    """One PUT writes all texts, and one writes the manifest."""
    store = Opened(open_objects(far(wire, os.urandom(6).hex())))
    store.create({A: b"0"})
    started, go = threading.Event(), threading.Event()

    def first(tx: Transaction) -> None:
        started.set()
        assert go.wait(PATIENCE_S)
        tx.record([Change(None, "/memories/first", b"first")], None)

    def follow(tx: Transaction, number: int) -> None:
        tx.record([Change(None, f"/memories/{number:02}", b"text %d" % number)], None)

    workers = start([lambda: store.backend.write(store.id, first)])
    assert started.wait(PATIENCE_S)
    workers += start([partial(store.backend.write, store.id, partial(follow, number=number)) for number in range(20)])
    queue = cast("ObjectsBackend", store.backend)._queue(store.id)
    until(lambda: len(queue._waiting) == 20)
    wire.asked.clear()
    go.set()
    finish(workers)
    puts = [asked for asked in kinds(wire.asked) if asked[0] == b"PUT"]
    batches = len(puts) // 2
    assert puts == [(b"PUT", b"packs"), (b"PUT", b"manifests")] * batches
    assert batches <= 4  # one commit for the first writer, one for all others
    assert len(store.tree()) == 22


@pytest.mark.long
def test_a_view_by_another_process_costs_one_request_besides_the_manifest(wire: Wire) -> None:
    """The extra request reads only the bytes of the text, although the pack contains a hundred texts."""
    prefix = os.urandom(6).hex()
    store = Opened(open_objects(far(wire, prefix)))
    store.create({f"/memories/{number:02}": b"text %d " % number * 1_000 for number in range(100)})
    reader = open_objects(far(wire, prefix))
    assert reader.read(store.id, lambda found: found.revision) == 1
    wire.asked.clear()
    assert reader.read(store.id, lambda found: found.get("/memories/42").data) == b"text 42 " * 1_000
    assert kinds(wire.asked) == [(b"GET", b"manifests"), (b"GET", b"packs")]
    assert b"\r\nrange: bytes=" in wire.asked[1].head
    wire.asked.clear()
    assert reader.read(store.id, lambda found: found.get("/memories/42").data) == b"text 42 " * 1_000
    assert kinds(wire.asked) == [(b"GET", b"manifests")]


@pytest.mark.long
def test_the_versions_of_a_revision_cost_one_path_through_the_tree(wire: Wire) -> None:
    """The number of requests does not depend on the length of the history or on the revision."""
    prefix = os.urandom(6).hex()
    store = Opened(small(f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{servers.moto().port}&allow_http=true"))
    for number in range(150):
        store.put(A, b"%d" % number)
        if number == 40:
            store.create({f"/memories/many/{each}": b"x" for each in range(3)})
    every = store.versions()
    reader = small(far(wire, prefix))

    def of_revision(found: Snapshot, version_id: str) -> list[str]:
        return [version.id for version in found.versions(revision_of=version_id)]

    for at in (0, 1, 75, 109, 110, 149, len(every) - 1):
        wire.asked.clear()
        expected = [version.id for version in every if version.revision == every[at].revision]
        assert reader.read(store.id, partial(of_revision, version_id=every[at].id)) == expected
        assert len(wire.asked) <= 12  # two adjacent leaves at a depth of 5, out of 50 leaves
    assert reader.read(store.id, partial(of_revision, version_id="memver_nothing")) == []


def redact(tx: Transaction, version_id: str) -> None:
    """Redact one version."""
    tx.redact([version_id], PERSON)


# -- erasure -------------------------------------------------------------------------------------------------


def test_a_redacted_text_leaves_its_pack_and_the_others_stay(url: str) -> None:
    """No object contains the redacted text. Readers that know the old pack can still read the other texts."""
    store, reader = Opened(open_objects(url)), Opened(open_objects(url))
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
        for one in (reader, Opened(open_objects(url))):
            assert one.tree() == left
    assert pack not in Bottom(url).listed()
    assert list(capabilities.check(store.backend)) == []


def test_concurrent_erasures_from_one_pack_lose_none(url: str) -> None:
    """Every erased text stays erased, although several processes rewrite the same pack concurrently."""
    stores = [Opened(open_objects(url)) for _ in range(6)]
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
    store, other = Opened(open_objects(url)), Opened(open_objects(url))
    store.create({A: b"0"})
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            other.put(A, b"1")
        changing = b"secret" if len(attempts) == 1 else b"public"
        tx.record([Change(None, "/memories/x", b"same"), Change(None, "/memories/y", changing)], None)

    store.backend.write(store.id, work)
    assert len(attempts) == 3  # the second attempt finds that its texts differ from the uploaded ones
    assert "secret" not in everything(url)
    assert Opened(open_objects(url)).tree() == {A: b"1", "/memories/x": b"same", "/memories/y": b"public"}


# -- bytes ---------------------------------------------------------------------------------------------------


def test_erased_texts_leave_the_others_where_they_are() -> None:
    """A pack without any text need not be kept. What is no pack raises `Damaged`."""
    texts = NewTexts()
    refs = [texts.add(text) for text in (b"one", b"", b"two", b"\0[[]]", b"three")]
    data: bytes | None = texts.encoded()
    assert refs[1] == ""
    for number, (ref, text) in enumerate([(refs[2], b"two"), (refs[0], b"one"), (refs[4], b"three"), (refs[3], b"[")]):
        assert data is not None
        assert text in data
        erased = without(data, [ref])
        assert (erased is None) == (number == 3)
        assert erased is None or (text not in erased and len(erased) == len(data) and without(erased, [ref]) == erased)
        data = erased
    for wrong in (b"", b"retentive page 1\n"):
        with pytest.raises(Damaged):
            without(wrong, [])


def test_an_attempt_uses_the_uploaded_texts_again(wire: Wire) -> None:
    """If the texts are the same as in the first attempt, they are uploaded once."""
    prefix = os.urandom(6).hex()
    store, other = Opened(open_objects(far(wire, prefix))), Opened(open_objects(far(wire, prefix)))
    store.create({A: b"0"})
    other.put(A, b"1")
    wire.asked.clear()
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        tx.record([Change(None, f"/memories/{number}", b"equal texts") for number in range(2)], None)

    store.backend.write(store.id, work)
    assert len(attempts) == 2
    assert [kind for kind in kinds(wire.asked) if kind == (b"PUT", b"packs")] == [(b"PUT", b"packs")]
    assert store.tree() == {A: b"1", "/memories/0": b"equal texts", "/memories/1": b"equal texts"}


def test_texts_of_a_failed_job_are_not_uploaded() -> None:
    """They are dropped from the pack, and the next text takes their place."""
    texts = NewTexts()
    first = [texts.add(text) for text in (b"a", b"a", b"b")]
    texts.add(b"failed")
    texts.undo(3)
    assert len({*first, texts.add(b"c")}) == 4
    assert texts.encoded().endswith(b"\naabc")
