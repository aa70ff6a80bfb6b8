"""The history in object storage agrees with that of SQLite, and redacted contents leave no byte."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import pytest

from retentive.storage import capabilities
from retentive.storage.contract import (
    Actor,
    Again,
    Backend,
    Created,
    Deleted,
    Moved,
    Snapshot,
    Transaction,
    Version,
    create_or_update,
)
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.ordered_map import Rebuild, Sizes
from retentive.storage.objects.reachability import reachable
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite.opening import A, B, C, Opened
from retentive.testing.backend_suite.sharing import together
from retentive.values.paths import ROOT
from retentive.values.records import time_in_id, to_datetime
from support import servers

from .objects import SMALL, Bottom, manifest_of, small
from .objects_dump import everything
from .wire import BUCKET, Asked, Reply, Wire

pytestmark = pytest.mark.long

PERSON = Actor("user", "ann")


def place(port: int, prefix: str) -> str:
    """A location on a server."""
    return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}&region=us-east-1&allow_http=true&timeout_s=1.5"


class Ticking:
    """A clock that tests advance by one millisecond at a time."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def id_of(prefix: str, time_us: int) -> str:
    """An id computed from the time alone. Each change of a store has a time of its own."""
    return f"{prefix}{time_us:014x}{'0' * 18}"


# -- comparison with SQLite ----------------------------------------------------------------------------------

Work = Callable[[Transaction], object]


def changing(chance: random.Random, snapshot: Snapshot) -> Work:
    """A random write that has the same effect on every backend in the same state."""
    path = f"/memories/{chance.choice('abc')}/{chance.randrange(6)}"
    data = b"%d" % chance.randrange(1_000)
    kind = chance.choice(["put", "put", "put", "move", "delete", "again", "blank", "blank", "prune", "note", "both"])
    ids = [version.id for version in snapshot.versions()]
    some = [*chance.sample(ids, min(len(ids), chance.choice([1, 3, 9]))), "memver_nothing"]
    older = [each for one in some[:-1] for each in oldest(snapshot, one)]
    key = str(chance.randrange(40))
    gone = {version.memory_id for version in snapshot.versions() if version.operation == "deleted"}
    absent = sorted(memory for memory in gone if snapshot.find(memory) is None)
    again = chance.choice(absent) if absent else None

    def put(tx: Transaction) -> None:
        tx.record([create_or_update(tx.get(path).memory, path, data)], PERSON)

    def move(tx: Transaction) -> None:
        memory, new = tx.get(path).memory, f"/memories/moved/{key}"
        tx.record([] if memory is None or tx.get(new).exists else [Moved(memory, new)], None)

    def delete(tx: Transaction) -> None:
        memory = tx.get(path).memory
        tx.record([] if memory is None else [Deleted(memory)], PERSON)

    def make_again(tx: Transaction) -> None:
        if again is not None and not tx.get(path).exists:
            born = to_datetime(time_in_id(again) or 0)
            tx.record([Created(path, data, again=Again(again, born))], None)

    def note(tx: Transaction) -> None:
        tx.put_record("kind", key, chance_value)

    def both(tx: Transaction) -> None:
        for step in (put, lambda tx: tx.redact(some, PERSON), delete, put, note):
            step(tx)

    chance_value = chance.choice([None, "x", "y" * 3_000])
    return {
        "put": put,
        "move": move,
        "delete": delete,
        "again": make_again,
        "blank": lambda tx: tx.redact(some, PERSON),
        "prune": lambda tx: tx.prune(older),
        "note": note,
        "both": both,
    }[kind]


def oldest(snapshot: Snapshot, version_id: str) -> list[str]:
    """Oldest versions of the memory up to this version, oldest first, without redacted ones.

    SQL may keep a redacted version while a rename shares its text.
    """
    memory = snapshot.version(version_id)[0].memory_id
    until = reversed(list(snapshot.versions(memory_id=memory, before=version_id + "!")))
    return [version.id for version in takewhile(lambda version: version.redacted_at is None, until)]


def all_there_is(snapshot: Snapshot) -> dict[str, Any]:
    """The whole state except the revision: a write without changes increments the revision on some backends only."""
    versions = [_without_revision(version) for version in snapshot.versions()]
    ids = [version.id for version in versions]
    bounds = [*ids[:: max(len(ids) // 5, 1)], "memver_"]
    return {
        "versions": versions,
        "texts of versions": [snapshot.version(each)[1] for each in ids],
        "of memories": [
            [version.id for version in snapshot.versions(memory_id=memory)]
            for memory in sorted({version.memory_id for version in versions})
        ],
        "walk": [memory for memory, _ in snapshot.list(ROOT)],
        "texts": list(snapshot.list("/memories/a", texts=True)),
        "directories": list(snapshot.list(ROOT, one_level=True, limit=3)),
        "usage": snapshot.state.usage,
        "heads": [[(one.id, one.path) for one in snapshot.list_at(bound, ROOT)] for bound in [*bounds, "n"]],
        "bounded": [[one.id for one in snapshot.versions(after=low, before=high)] for low in bounds for high in bounds],
        "notes": list(snapshot.records("kind")),
        "each note": [snapshot.get_record("kind", str(number)) for number in range(40)],
    }


def _without_revision(version: Version) -> Version:
    return replace(version, revision=0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 12))])
def test_any_operations_give_the_history_of_sqlite(url: str, seed: int) -> None:
    """Random writes through three handles give the same history.

    The pages are small enough to be split, merged and emptied.
    """
    chance, clock = random.Random(seed), Ticking()
    reference = Opened(SqliteBackend(None, clock=clock, new_id=id_of))
    stores = [Opened(small(url, clock=clock, new_id=id_of)) for _ in range(3)]
    for step in range(120):
        clock.now += 0.001
        at = chance.getstate()
        work = reference.backend.read(reference.id, partial(changing, chance))
        reference.backend.write(reference.id, work)
        chance.setstate(at)
        store = stores[step % 7 % 3]
        work = store.backend.read(store.id, partial(changing, chance))
        store.backend.write(store.id, work)
        if step % 40 == 39:
            expected = reference.backend.read(reference.id, all_there_is)
            for one in (store, Opened(small(url, clock=clock, new_id=id_of))):
                found = one.backend.read(one.id, all_there_is)
                for what, value in expected.items():
                    assert found[what] == value, what
    before = stores[0].backend.read(stores[0].id, all_there_is)
    small(url).collect(stores[0].id)
    assert small(url).read(stores[0].id, all_there_is) == before
    assert_all_is_named(url, stores[0].id)
    reference.backend.close()


def assert_all_is_named(url: str, store_id: str) -> None:
    """Check that every object is reachable after a collection, and that the root of the tree is small."""
    bottom, manifest = Bottom(url), manifest_of(url, store_id)
    names, _ = reachable(manifest, small(url)._reader(store_id))
    assert {"/".join(key.split("/")[-2:]) for key in bottom.listed(f"stores/{store_id}")} == names
    assert len(manifest.tree.refs) <= SMALL.fan_out


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


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 3), (3, 0), (30, 2), (2, 30), (60, 60)])
def test_a_redacted_version_leaves_no_byte(url: str, before: int, after: int) -> None:
    """When the redaction returns, no object in the log or the pages contains the text, the path or the hash."""
    store, reader = Opened(small(url)), Opened(small(url))
    ids = a_secret_among_others(store, before=before, after=after)
    old = reader.backend.read(reader.id, lambda found: [found.version(each) for each in ids])
    shas = [version.sha256 for version, _ in old[1:]]
    assert SECRET.decode() in everything(url)
    store.backend.write(store.id, lambda tx: tx.redact(ids, PERSON))
    left = everything(url)
    assert not [one for one in (SECRET.decode(), "secret-place", *shas) if one is not None and one in left]
    assert store.get(B).data == b"harmless"
    for each in (store, reader, Opened(small(url))):
        assert [each.version_text(one) for one in ids] == [b"harmless", None, None, None]
        assert [version.path for version in each.versions() if version.id in ids] == [B, "", "", ""]
    assert capabilities.purge(store.backend)
    assert not Bottom(url).listed("purging")
    assert len(store.versions()) == before + after + 4


def test_a_concurrent_compaction_restores_nothing(url: str) -> None:
    """The pages of the compaction contain the state before the redaction. They are deleted and never used."""
    store = Opened(ObjectsBackend(url, sizes=Sizes(log=10_000)))
    ids = a_secret_among_others(store, before=3, after=3)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        if not runs:
            store.backend.write(store.id, lambda tx: tx.redact(ids, PERSON))
        runs.append(1)
        tx.put_record("kind", "key", "value")

    other = Opened(small(url))
    assert other.get(B).data == b"harmless"
    other.backend.write(other.id, work)
    assert len(runs) == 2
    assert SECRET.decode() not in everything(url)
    assert "secret-place" not in everything(url)
    assert store.get(B).data == b"harmless"


def test_a_compaction_that_finds_a_page_deleted_is_made_again(url: str) -> None:
    """The writer has an old manifest in its cache. Since then, a redaction has deleted the pages of that manifest."""
    store = Opened(small(url))
    other = ObjectsBackend(url, sizes=replace(SMALL, log=SMALL.log - 1))
    number = 0
    while number < 20 or manifest_of(url, store.id).weight < SMALL.log - 1:
        store.put(A, b"%d" % number)
        number += 1
    other.read(store.id, lambda found: found.state)
    ids = [version.id for version in store.versions()]
    store.backend.write(store.id, lambda tx: tx.redact(ids, PERSON))
    other.write(store.id, lambda tx: tx.set_metadata(settings="settings"))
    assert store.read(lambda found: found.state.settings) == "settings"
    assert len(store.versions()) == number


def test_the_next_purge_deletes_the_pages_of_a_crashed_compaction(url: str) -> None:
    """The crashed compaction wrote its pages after the redaction.

    The purge of a later redaction finds and deletes them.
    """
    store = Opened(ObjectsBackend(url, sizes=Sizes(log=10_000)))
    ids = a_secret_among_others(store, before=3, after=3)
    old = manifest_of(url, store.id)
    prepared = Rebuild(old.tree, old.log, pages=lambda refs: [], sizes=SMALL, generation=old.generation)
    store.backend.write(store.id, lambda tx: tx.redact(ids[1:2], PERSON))
    for name, (data, _) in prepared.written.items():
        Bottom(url).put(f"stores/{store.id}/pages/{name}", data)
    assert "secret-place" in everything(url)
    store.backend.write(store.id, lambda tx: tx.redact(ids, PERSON))
    assert "secret-place" not in everything(url)


def test_replaced_records_are_deleted_with_the_version(url: str) -> None:
    """A record may repeat the text of the version. The redacting write removes the record, and no object retains it."""
    store = Opened(small(url))
    for number in range(100):
        value = "SECRET " * 400 if number == 7 else f"secret {number}" if number < 9 else "x"
        store.backend.write(store.id, partial(_put_note, key=str(number), value=value))
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
    store.backend.write(store.id, lambda tx: tx.redact(ids, PERSON))
    assert capabilities.purge(store.backend)
    assert "ecret" not in everything(url)
    assert "SECRET" not in everything(url)


def _blank(tx: Transaction, ids: Sequence[str]) -> None:
    tx.redact(ids, PERSON)


def _put_note(tx: Transaction, key: str, value: str | None) -> None:
    tx.put_record("kind", key, value)


def test_pruning_a_long_history_keeps_it_small(url: str) -> None:
    """Sparse pages are merged and empty pages are deleted. All remaining versions of each memory are found."""
    store = Opened(small(url))
    for number in range(200):
        store.put(A if number % 40 else B, b"%d" % number)
    assert capabilities.purge(small(url))
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
            store.backend.write(store.id, partial(_blank, ids=ids))
            if number % 7 == 0:
                assert capabilities.purge(store.backend)

    together([partial(writing, store, name) for store, name in zip(stores, "abcd", strict=True)])
    assert capabilities.purge(stores[0].backend)
    left = everything(url)
    assert [f"secret {name}19." in left for name in "abcd"] == [True] * 4
    assert not [n for n in range(19) for name in "abcd" if f"secret {name}{n}." in left]
    assert stores[1].tree() == {f"/memories/{name}": f"secret {name}19.".encode() for name in "abcd"}
    assert len(stores[2].versions()) == 4 + 80


# -- crashes between the steps -------------------------------------------------------------------------------


def no_deleting(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Drop the requests that delete objects, like a process that ended before these requests."""
    return None if asked.method == b"DELETE" or b"?delete" in asked.path else forward(asked.raw)


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
    assert capabilities.purge(fresh.backend)
    assert SECRET.decode() not in everything(url)
    assert Bottom(url).listed("purging") == []
    assert fresh.backend.read(fresh.id, lambda found: found.state.usage).memories == 3


def test_a_missing_object_of_any_kind_is_reported(url: str) -> None:
    """The check reads objects of every kind, so it reports any missing object."""
    backend: Backend = small(url)
    store = Opened(backend)
    a_secret_among_others(store, before=30, after=30)
    for number in range(60):
        store.backend.write(store.id, partial(_put_note, key=str(number), value="v" * (number * 40)))
    assert capabilities.purge(backend)
    bottom = Bottom(url)
    for key in bottom.listed(f"stores/{store.id}"):
        whole = bottom.get(key)
        bottom.delete(key)
        subject = "/".join(key.split("/")[2:])
        assert ("object_missing", subject) in {(one.code, one.subject) for one in capabilities.check(small(url))}
        bottom.put(key, whole)
    assert list(capabilities.check(small(url))) == []
    assert store.get(C).exists is False
