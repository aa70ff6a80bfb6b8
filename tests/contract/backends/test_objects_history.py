"""The history in object storage agrees with that of SQLite, and redacted contents leave no byte."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import pytest

from retentive.storage.contract import (
    Actor,
    Again,
    Created,
    Deleted,
    Moved,
    Snapshot,
    Transaction,
    Version,
    create_or_update,
)
from retentive.storage.objects.reachability import reachable
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite.opening import Opened
from retentive.values.paths import ROOT
from retentive.values.records import time_in_id, to_datetime

from .objects import SMALL, Bottom, manifest_of, small

pytestmark = pytest.mark.long

PERSON = Actor("user", "ann")


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
