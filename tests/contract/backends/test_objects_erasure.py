"""Removal from object storage: redacted texts, packs and erased stores leave no byte."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from retentive.errors import Damaged, NotFound, Unavailable
from retentive.storage.contract import Actor, Created, Transaction
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.ordered_map import Sizes
from retentive.testing.backend_suite.opening import A, B, Opened
from retentive.testing.backend_suite.sharing import together
from support import servers

from .objects import BUCKET, Asked, Bottom, Reply, Wire, everything, small

PERSON = Actor("user", "ann")
long = pytest.mark.long


def place(port: int, prefix: str) -> str:
    """A location on a server."""
    return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}&region=us-east-1&allow_http=true&timeout_s=1.5"


@pytest.fixture
def far(wire: Wire) -> str:
    """A location on the server behind the proxy."""
    return place(wire.port, os.urandom(6).hex())


def redact(tx: Transaction, ids: Sequence[str]) -> None:
    tx.redact(ids, PERSON)


def put_record(tx: Transaction, key: str, value: str | None) -> None:
    tx.put_record("kind", key, value)


# -- packs ---------------------------------------------------------------------------------------------------


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
        store.backend.write(store.id, partial(redact, ids=[version]))
        left[path] = b"harmless"
        assert f"the text {number}." not in everything(url)
        for one in (reader, Opened(ObjectsBackend(url))):
            assert one.tree() == left
    assert pack not in Bottom(url).listed()
    assert list(store.backend.check()) == []


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


# -- redacted versions ---------------------------------------------------------------------------------------


SECRET, PLACE = b"the secret text", "/memories/the-secret-place"


def a_secret_among_others(store: Opened, *, before: int, after: int) -> Sequence[str]:
    """Write versions of a memory with a secret text and path, and of other memories.

    Returns the ids of the secret ones.
    """
    for number in range(before):
        store.put(f"/memories/{number % 9}", b"%d" % number)
    store.create({PLACE: SECRET}, PERSON)
    secrets = [store.versions()[0]]
    store.move(PLACE, PLACE + "/moved")
    secrets.append(store.versions()[0])
    store.move(PLACE + "/moved", B)
    store.put(B, b"harmless")
    for number in range(after):
        store.put(f"/memories/{number % 9}", b"%d" % number)
    chosen = [version for version in store.versions() if version.memory_id == secrets[0].memory_id]
    assert len(chosen) == 4
    return [version.id for version in chosen]


@long
@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 3), (3, 0), (30, 2), (2, 30), (60, 60)])
def test_a_redacted_version_leaves_no_byte(url: str, before: int, after: int) -> None:
    """When the redaction returns, no object in the log or the pages contains the text, the path or the hash."""
    store, reader = Opened(small(url)), Opened(small(url))
    ids = a_secret_among_others(store, before=before, after=after)
    old = reader.backend.read(reader.id, lambda found: [found.version(each) for each in ids])
    shas = [version.sha256 for version, _ in old[1:]]
    assert SECRET.decode() in everything(url)
    store.backend.write(store.id, partial(redact, ids=ids))
    left = everything(url)
    assert not [one for one in (SECRET.decode(), "secret-place", *shas) if one is not None and one in left]
    assert store.get(B).data == b"harmless"
    for each in (store, reader, Opened(small(url))):
        assert [each.version_text(one) for one in ids] == [b"harmless", None, None, None]
        assert [version.path for version in each.versions() if version.id in ids] == [B, "", "", ""]
    assert store.backend.purge()
    assert not Bottom(url).listed("purging")
    assert len(store.versions()) == before + after + 4


@long
def test_a_concurrent_compaction_restores_nothing(url: str) -> None:
    """The pages of the compaction contain the state before the redaction. They are deleted and never used."""
    store = Opened(ObjectsBackend(url, sizes=Sizes(log=10_000)))
    ids = a_secret_among_others(store, before=3, after=3)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        if not runs:
            store.backend.write(store.id, partial(redact, ids=ids))
        runs.append(1)
        tx.put_record("kind", "key", "value")

    other = Opened(small(url))
    assert other.get(B).data == b"harmless"
    other.backend.write(other.id, work)
    assert len(runs) == 2
    assert SECRET.decode() not in everything(url)
    assert "secret-place" not in everything(url)
    assert store.get(B).data == b"harmless"


@long
def test_replaced_records_are_deleted_with_the_version(url: str) -> None:
    """A record may repeat the text of the version. The redacting write removes the record, and no object retains it."""
    store = Opened(small(url))
    for number in range(100):
        value = "SECRET " * 400 if number == 7 else f"secret {number}" if number < 9 else "x"
        store.backend.write(store.id, partial(put_record, key=str(number), value=value))
    store.create({A: b"secret"})
    store.put(A, b"harmless")
    ids = [version.id for version in store.versions()]
    assert "secret 3" in everything(url)
    assert "SECRET" in everything(url)

    def work(tx: Transaction) -> None:
        tx.redact(ids, PERSON)
        for number in range(9):
            tx.put_record("kind", str(number), None)
        tx.redact(ids, PERSON)

    store.backend.write(store.id, work)
    store.put(A, b"more")
    store.backend.write(store.id, partial(redact, ids=ids))
    assert store.backend.purge()
    assert "ecret" not in everything(url)
    assert "SECRET" not in everything(url)


@long
def test_pruning_a_long_history_keeps_it_small(url: str) -> None:
    """Sparse pages are merged and empty pages are deleted. All remaining versions of each memory are found."""
    store = Opened(small(url))
    for number in range(200):
        store.put(A if number % 40 else B, b"%d" % number)
    assert small(url).purge()
    versions = store.versions()
    bottom = Bottom(url)
    before = len(bottom.listed(f"stores/{store.id}/pages"))
    kept = [version for version in versions if version.path == B or version == versions[0]]
    gone = [version.id for version in versions if version not in kept]
    store.backend.write(store.id, lambda tx: tx.prune(gone))
    for one in (store, Opened(small(url))):
        assert one.versions() == kept
        assert one.tree() == {A: b"199", B: b"160"}
    assert len(bottom.listed(f"stores/{store.id}/packs")) == len(kept)
    assert len(bottom.listed(f"stores/{store.id}/pages")) < before // 4
    store.put(A, b"on")
    assert len(store.versions()) == len(kept) + 1


@long
def test_thousands_of_versions_are_erased_at_once(url: str) -> None:
    """The number of texts exceeds the number that a manifest can list."""
    store = Opened(ObjectsBackend(url))
    files = {f"/memories/{number:04}": b"%d" % number for number in range(700)}
    store.create(files)
    store.delete(*files)
    ids = [version.id for version in store.versions()]
    store.backend.write(store.id, lambda tx: tx.prune(ids))
    assert store.versions() == []
    assert store.tree() == {}
    assert [key for key in Bottom(url).listed(f"stores/{store.id}") if "/pages/" not in key] == []


@long
def test_concurrent_redactions_remove_exactly_their_versions(url: str) -> None:
    """Each redaction removes its versions while other handles write, compact, collect and purge."""
    stores = [Opened(small(url)) for _ in range(4)]
    stores[0].create({f"/memories/{name}": b"0" for name in "abcd"})

    def writing(store: Opened, name: str) -> None:
        path = f"/memories/{name}"
        for number in range(20):
            store.put(path, f"secret {name}{number}.".encode())
            memory = store.memory(path)
            ids = [version.id for version in store.versions(memory_id=memory.id)]
            store.backend.write(store.id, partial(redact, ids=ids))
            if number % 7 == 0:
                assert store.backend.purge()

    together([partial(writing, store, name) for store, name in zip(stores, "abcd", strict=True)])
    assert stores[0].backend.purge()
    left = everything(url)
    assert [f"secret {name}19." in left for name in "abcd"] == [True] * 4
    assert not [n for n in range(19) for name in "abcd" if f"secret {name}{n}." in left]
    assert stores[1].tree() == {f"/memories/{name}": f"secret {name}19.".encode() for name in "abcd"}
    assert len(stores[2].versions()) == 4 + 80


# -- crashes between the steps -------------------------------------------------------------------------------


def no_deleting(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Drop the requests that delete objects, like a process that ended before these requests."""
    return None if asked.method == b"DELETE" or b"?delete" in asked.path else forward(asked.raw)


@long
def test_a_crash_before_the_deletion_is_completed(wire: Wire) -> None:
    """The deletion is completed by `purge` in any process."""
    prefix = os.urandom(6).hex()
    store = Opened(ObjectsBackend(place(wire.port, prefix)))
    ids = a_secret_among_others(store, before=2, after=2)
    wire.rule = no_deleting
    store.backend.write(store.id, lambda tx: tx.redact(ids[1:], PERSON))
    url = place(servers.moto().port, prefix)
    assert SECRET.decode() in everything(url)
    fresh = Opened(ObjectsBackend(url))
    assert [fresh.version_text(each) for each in ids[1:]] == [None] * 3
    assert fresh.backend.purge()
    assert SECRET.decode() not in everything(url)
    assert Bottom(url).listed("purging") == []
    assert fresh.backend.read(fresh.id, lambda found: found.state.usage).memories == 3


# -- erased stores -------------------------------------------------------------------------------------------


def filled(url: str) -> Opened:
    """Create a store with records of every kind."""
    store = Opened(small(url), "secret-key")
    for number in range(30):
        store.put(f"/memories/secret/{number % 9}", b"secret %d" % number)
        store.write(partial(put_record, key=str(number), value="secret " * number * 10))
    store.backend.write(store.id, lambda tx: tx.set_metadata(settings="secret"))
    return store


@long
def test_an_erased_store_leaves_only_its_erased_manifest(url: str) -> None:
    """The only other object is the one for its store key, which does not name the store."""
    store, reader = filled(url), Opened(small(url), "secret-key")
    other = Opened(small(url), "other")
    other.create({A: b"stays"})
    assert len(reader.versions()) == 30
    store.backend.erase_store(store.id, None)
    mine = [key for key in Bottom(url).listed() if other.id not in key]
    assert sorted(key.split("/")[0] for key in mine) == ["keys", "keys", "manifests"]
    assert "secret" not in everything(url)
    assert len(Bottom(url).get(f"manifests/{store.id}")) < 300
    for backend in (store.backend, reader.backend, small(url)):
        with pytest.raises(NotFound, match="was erased"):
            backend.read(store.id, lambda snapshot: snapshot.state.revision)
        with pytest.raises(NotFound, match="was erased"):
            backend.write(store.id, lambda tx: tx.put_record("kind", "key", "value"))
        assert backend.get_store("secret-key") is None
        assert [info.id for info in backend.list_stores(limit=1)] == [other.id]
    assert [key for key in Bottom(url).listed() if other.id not in key] == mine
    again = small(url).create_store(key="secret-key", name="new")
    assert again.id != store.id
    assert small(url).get_store("secret-key") == again


@long
def test_concurrent_writers_leave_nothing_in_an_erased_store(url: str) -> None:
    """A writer deletes its texts, records and pages when its commit finds that the store is erased."""
    store, other = filled(url), small(url)

    def work(tx: Transaction) -> None:
        tx.record([Created(f"/memories/late/{number}", b"secret") for number in range(40)], None)
        tx.put_record("kind", "late", "secret" * 1_000)
        other.erase_store(store.id, None)

    with pytest.raises(NotFound):
        store.backend.write(store.id, work)
    assert Bottom(url).listed("stores") == []


@long
@pytest.mark.parametrize("finish", ["again", "purge"])
@pytest.mark.parametrize("stopped_at", [b"?delete", b"/keys/"])
def test_a_crashed_erasure_is_completed(wire: Wire, far: str, finish: str, stopped_at: bytes) -> None:
    """Another erasure or a `purge` completes the erasure. Until then, opening reports that the store does not exist."""
    store = Opened(ObjectsBackend(far), "secret-key")
    store.create({A: b"secret"})
    wire.rule = lambda asked, forward: None if stopped_at in asked.path else forward(asked.raw)
    with pytest.raises(Unavailable):
        store.backend.erase_store(store.id, None)
    wire.rule = lambda asked, forward: forward(asked.raw)
    fresh = ObjectsBackend(far)
    assert fresh.get_store("secret-key") is None
    with pytest.raises(NotFound, match="was erased"):
        fresh.read(store.id, lambda snapshot: snapshot.state.revision)
    if finish == "again":
        fresh.erase_store(store.id, None)
    else:
        assert fresh.purge()
    assert "secret" not in everything(far)
    assert [key.split("/")[0] for key in Bottom(far).listed()] == ["keys", "manifests"]


@long
def test_a_key_reused_during_an_erasure_stays_in_use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key already belongs to a new store, so the end of the old erasure does not release the key."""
    store = filled(url)
    backend = small(url)
    finish = backend._clear
    monkeypatch.setattr(backend, "_clear", lambda _: 0)
    backend.erase_store(store.id, None)
    made = small(url).create_store(key="secret-key", name="new")
    finish(store.id)
    assert small(url).get_store("secret-key") == made
    assert small(url).create_store(key="secret-key", name="newer") == made
