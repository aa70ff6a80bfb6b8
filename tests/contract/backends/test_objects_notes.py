"""Records in object storage, and what remains of an erased store."""

from __future__ import annotations

import os
import random

import pytest

from retentive.errors import NotFound, Unavailable
from retentive.storage import capabilities
from retentive.storage.contract import Created, Transaction
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.reachability import reachable
from retentive.testing.backend_suite.opening import A, Opened

from .objects import Bottom, manifest_of, small
from .objects_dump import everything
from .wire import BUCKET, Wire

pytestmark = pytest.mark.long

FEW = Sizes(log=8, page=7, fan_out=9)


@pytest.fixture
def far(wire: Wire) -> str:
    """A location on the server behind the proxy."""
    options = f"endpoint=http://127.0.0.1:{wire.port}&region=us-east-1&allow_http=true"
    return f"s3://{BUCKET}/{os.urandom(6).hex()}?{options}"


def few(url: str) -> ObjectsBackend:
    """A backend that keeps few records in the manifest."""
    return ObjectsBackend(url, sizes=FEW)


def put(store: Opened, kind: str, key: str, value: str | None) -> None:
    """Write a record."""
    store.backend.write(store.id, lambda tx: tx.put_record(kind, key, value))


def notes(store: Opened, kind: str) -> dict[str, str]:
    """Return all records of a kind."""
    return dict(store.backend.read(store.id, lambda snapshot: list(snapshot.records(kind))))


def note(store: Opened, kind: str, key: str) -> str | None:
    """Return the value of one record."""
    return store.backend.read(store.id, lambda snapshot: snapshot.get_record(kind, key))


def manifest_bytes(url: str, store: Opened) -> int:
    """Return the size of the manifest."""
    return len(Bottom(url).get(f"manifests/{store.id}"))


# -- records -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_records_outside_the_root_are_read_unchanged(url: str, seed: int) -> None:
    """Records of several kinds are written, replaced and removed, alone and in batches, through three handles."""
    chance = random.Random(seed)
    stores = [Opened(few(url)) for _ in range(3)]
    expected: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c/é \U0001f600".encode("ascii", "replace").decode(): {}}
    for step in range(150):
        kind = chance.choice(sorted(expected))
        count = chance.choice([1, 1, 1, 30])
        values = {
            f"{chance.randrange(60):02}": chance.choice([None, None, "", f"value {step}", f"{step} " * 500])
            for _ in range(count)
        }
        store = chance.choice(stores)

        def work(tx: Transaction, kind: str = kind, values: dict[str, str | None] = values) -> None:
            for key, value in values.items():
                tx.put_record(kind, key, value)

        store.backend.write(store.id, work)
        expected[kind].update({key: value for key, value in values.items() if value is not None})
        for key in [key for key, value in values.items() if value is None]:
            expected[kind].pop(key, None)
        if step % 10 == 9:
            reader = chance.choice([*stores, Opened(few(url))])
            assert {kind: notes(reader, kind) for kind in expected} == expected
            assert [note(reader, "a", f"{number:02}") for number in range(60)] == [
                expected["a"].get(f"{number:02}") for number in range(60)
            ]
    assert [list(notes(stores[0], kind)) for kind in expected] == [sorted(found) for found in expected.values()]
    small(url).collect(stores[0].id)
    assert {kind: notes(Opened(few(url)), kind) for kind in expected} == expected
    assert stores[0].revision() == 0
    assert capabilities.purge(stores[0].backend)
    assert_all_is_reachable(url, stores[0])


def assert_all_is_reachable(url: str, store: Opened) -> None:
    """Check that the manifest leads to every object."""
    names, _ = reachable(manifest_of(url, store.id), few(url)._reader(store.id))
    there = {"/".join(key.split("/")[-2:]) for key in Bottom(url).listed(f"stores/{store.id}")}
    assert there == names


def filled(url: str) -> Opened:
    """Create a store with records of every kind."""
    store = Opened(small(url), "secret-key")
    for number in range(30):
        store.put(f"/memories/secret/{number % 9}", b"secret %d" % number)
        put(store, "kind", str(number), "secret " * number * 10)
    store.backend.write(store.id, lambda tx: tx.set_metadata(settings="secret"))
    return store


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
    assert manifest_bytes(url, store) < 300
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


@pytest.mark.parametrize("finish", ["again", "purge"])
@pytest.mark.parametrize("stopped_at", [b"?delete", b"/keys/"])
def test_a_crashed_erasure_is_completed(wire: Wire, far: str, finish: str, stopped_at: bytes) -> None:
    """Another erasure or a `purge` completes the erasure. Until then, opening reports that the store does not exist."""
    store = Opened(ObjectsBackend(far + "&timeout_s=1.5"), "secret-key")
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
