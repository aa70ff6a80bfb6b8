"""Memory stores in object storage: compaction, history, caches, damaged objects and garbage collection."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from retentive.errors import Damaged, InvalidInput, NotFound, Unavailable, UnknownSchema
from retentive.storage.contract import (
    Backend,
    Created,
    Snapshot,
    Transaction,
    create_or_update,
)
from retentive.storage.objects.backend import ObjectsBackend
from retentive.testing.backend_suite.opening import A, Opened
from retentive.values.paths import ROOT
from support.profiles import some

from .objects import Bottom, small

# -- compaction and history ----------------------------------------------------------------------------------


def test_a_compaction_survives_a_lost_attempt(url: str) -> None:
    """Another writer commits while a writer compacts, and may compact too. Nothing is lost, and no page is left."""
    other = Opened(ObjectsBackend(url))
    for size in (1, 9):  # the second one is long enough to be compacted
        store = Opened(small(url))
        store.create({f"/memories/{size}/{number}": b"x" for number in range(9)})
        runs: list[int] = []

        def work(tx: Transaction, size: int = size, runs: list[int] = runs) -> None:
            if not runs:
                late = other if size == 1 else Opened(small(url))
                late.create({f"/memories/late/{size}/{number}": b"x" for number in range(size)})
            runs.append(1)
            tx.record([Created(f"/memories/own/{size}", b"x")], None)

        store.backend.write(store.id, work)
        assert len(runs) == 2
    fresh = Opened(small(url))
    assert len(fresh.tree()) == len(fresh.versions()) == 9 + 9 + 1 + 9 + 2
    assert list(small(url).check()) == []


@pytest.mark.parametrize("line", some(range(30), 4))
def test_an_interrupt_at_any_line_deletes_nothing_in_use(url: str, line: int) -> None:
    """Ctrl+C during a commit: what the new state refers to stays, and what it does not may go."""
    store = Opened(small(url))
    store.create({f"/memories/{number}": b"x" for number in range(9)})  # so that the next commit compacts
    passed = 0

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if frame.f_code.co_name not in {"run", "_swap"} or "objects/batch" not in frame.f_code.co_filename:
            return None
        passed += event == "line"
        if passed == line + 1:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        store.create({A: b"a text"})
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    assert passed > 0, "the lines are elsewhere"
    fresh = Opened(small(url))
    assert fresh.get(A).data in {None, b"a text"}
    assert len(fresh.tree()) >= 9
    assert list(small(url).check()) == []


# -- several handles -----------------------------------------------------------------------------------------


def test_an_error_is_never_based_on_an_outdated_state(url: str) -> None:
    """Work that raises an error or records no change is run again on the current state."""
    one, other = Opened(small(url)), Opened(small(url))
    one.create({A: b"1"})
    assert other.get(A).exists
    one.delete(A)

    def create(tx: Transaction) -> None:
        if tx.get(A).exists:
            raise AssertionError("it is there")
        tx.record([Created(A, b"2")], None)

    other.backend.write(other.id, create)
    assert one.get(A).data == b"2"
    one.put(A, b"3")
    assert other.backend.write(other.id, lambda tx: tx.get(A).data) == b"3"


def test_a_write_that_must_not_wait_is_tried_once(url: str) -> None:
    """If another writer is first, it fails at once, and leaves no object. A view never waits for a writer."""
    one, other = Opened(small(url)), Opened(small(url))
    one.create({A: b"1"})
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        other.create({f"/memories/{len(runs)}": b"x"})
        runs.append(1)
        tx.put_record("kind", "key", "v" * 10_000)

    with pytest.raises(Unavailable):
        one.backend.write(one.id, work, wait=False)
    assert len(runs) == 1
    one.backend.write(one.id, lambda tx: tx.put_record("kind", "key", "v"), wait=False)
    assert one.read(lambda found: found.get_record("kind", "key")) == "v"
    assert small(url).collect(one.id) == 0


# -- store keys ----------------------------------------------------------------------------------------------


def test_a_crashed_creation_is_completed_by_the_next(url: str) -> None:
    """The store key is reserved, but the store was not created. The store does not exist until the next creation."""
    made = small(url).create_store(key="k", name="first", seal="s")
    bottom = Bottom(url)
    bottom.delete(f"manifests/{made.id}")
    backend = small(url)
    assert backend.get_store("k") is None
    assert backend.get_store(made.id) is None
    assert backend.list_stores() == []
    assert backend.create_store(key="k", name="second") == made
    assert backend.get_store("k") == made
    assert backend.list_stores() == [made]


# -- truncated or modified objects ---------------------------------------------------------------------------


def filled(url: str) -> Opened:
    """Create a store with leaves, nodes, packs and a log."""
    store = Opened(small(url))
    for number in range(60):
        store.create({f"/memories/{number:02d}": f"text {number}".encode()})
    return store


def all_of(snapshot: Snapshot) -> tuple[object, ...]:
    """Return the whole state of a store."""
    every = [memory for memory, _ in snapshot.list(ROOT)]
    versions = list(snapshot.versions())
    return every, versions, [snapshot.version(version.id)[1] for version in versions], snapshot.state.usage


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 64]) + data[len(data) // 2 + 1 :],
        lambda data: b"retentive list 1\n" + data.partition(b"\n")[2],
        None,
    ],
)
@pytest.mark.parametrize("kind", ["manifests", "pages", "packs"])
def test_a_truncated_or_modified_object_is_never_accepted(
    url: str, kind: str, harm: Callable[[bytes], bytes] | None
) -> None:
    """After a change of any object, a read raises `Damaged` or returns the same result as before."""
    store, bottom = filled(url), Bottom(url)
    before = store.backend.read(store.id, all_of)
    small(url).collect(store.id)
    keys = bottom.listed("manifests" if kind == "manifests" else f"stores/{store.id}/{kind}")
    for key in random.Random(1).sample(keys, min(len(keys), 8)):
        whole = bottom.get(key)
        harmed = None if harm is None else harm(whole)
        if harmed is None:
            bottom.delete(key)
        else:
            bottom.put(key, harmed)
        found = what_is_seen(url, store.id)
        assert found in ("damaged", "not_found" if kind == "manifests" else "damaged") or found == before
        is_noticed = kind == "pages" or (kind == "packs" and not (harmed or b"")[17:].startswith(whole[17:]))
        assert found != before or not is_noticed  # nothing reads what precedes or follows the texts of a pack
        bottom.put(key, whole)
    assert what_is_seen(url, store.id) == before


def what_is_seen(url: str, store_id: str) -> object:
    """Return the whole state, or the code of the error."""
    try:
        return small(url).read(store_id, all_of)
    except (Damaged, NotFound) as error:
        return error.code


@pytest.mark.parametrize("number", [b"2", b"0", b"17"])
@pytest.mark.parametrize("kind", ["manifests", "keys"])
def test_an_unknown_format_is_refused_and_not_overwritten(url: str, kind: str, number: bytes) -> None:
    """Manifests and store keys raise `UnknownSchema`."""
    store, bottom = filled(url), Bottom(url)
    key = bottom.listed(kind)[0]
    unknown = bottom.get(key).replace(b" 1\n", b" %b\n" % number, 1)
    bottom.put(key, unknown)
    before = bottom.listed()
    calls: list[Callable[[Backend], object]] = [
        lambda backend: backend.get_store("tested"),
        lambda backend: backend.create_store(key="tested", name="new"),
    ]
    if kind != "keys":
        calls += [
            lambda backend: backend.write(store.id, lambda tx: tx.put_record("kind", "key", "value")),
            lambda backend: backend.read(store.id, lambda snapshot: snapshot.state.revision),
            lambda backend: backend.list_stores(),
            lambda backend: backend.erase_store(store.id, None),
        ]
    for call in calls:
        with pytest.raises(UnknownSchema, match=f"format {number.decode()}, but this version of retentive"):
            call(small(url))
    assert (bottom.get(key), bottom.listed()) == (unknown, before)


def test_a_manifest_under_another_name_is_refused(url: str) -> None:
    """A manifest under the name of another store is refused, and so is the key object of another store key."""
    one, other = Opened(small(url), "one"), Opened(small(url), "other")
    bottom = Bottom(url)
    bottom.put(f"manifests/{one.id}", bottom.get(f"manifests/{other.id}"))
    with pytest.raises(Damaged):
        small(url).get_store(one.id)
    first, second = bottom.listed("keys")
    bottom.put(first, bottom.get(second))
    found = [key for key in ("one", "other") if what_get_store_says(url, key) == "damaged"]
    assert len(found) == 1


def what_get_store_says(url: str, key: str) -> str:
    """Return `found`, or the code of the error."""
    try:
        return "found" if small(url).get_store(key) else "nothing"
    except Damaged as error:
        return error.code


# -- garbage collection --------------------------------------------------------------------------------------


def test_unreferenced_objects_are_collected(url: str) -> None:
    """A collection deletes pages replaced by compaction, packs and pages of crashed writers, and no other object."""
    store, bottom = filled(url), Bottom(url)
    before = store.backend.read(store.id, all_of)
    for kind in ("packs", "pages"):
        bottom.put(f"stores/{store.id}/{kind}/{'0' * 32}", b"left behind")
    pages = len(bottom.listed(f"stores/{store.id}/pages"))
    assert small(url).collect(store.id) > 3
    assert len(bottom.listed(f"stores/{store.id}/pages")) < pages / 2
    assert len(bottom.listed(f"stores/{store.id}/packs")) == 60
    assert not [key for key in bottom.listed() if key.endswith("0" * 32)]
    assert small(url).read(store.id, all_of) == before
    assert small(url).collect(store.id) == 0


def test_a_concurrent_write_is_retried_after_a_collection(url: str) -> None:
    """The writer cannot commit a reference to a deleted object. It runs again, and all its objects exist."""
    store = filled(url)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        if not runs:
            assert small(url).collect(store.id) > 0
        runs.append(1)
        tx.record([create_or_update(tx.get("/memories/00").memory, "/memories/00", b"changed")], None)

    store.backend.write(store.id, work)
    assert len(runs) == 2
    assert small(url).read(store.id, lambda found: found.get("/memories/00").data) == b"changed"
    assert len(small(url).read(store.id, all_of)[0]) == 60  # type: ignore[arg-type] # a list of memories


def test_a_read_that_finds_a_collected_page_runs_again(url: str) -> None:
    """The read started on an outdated state. It runs again and returns the current state."""
    store = filled(url)
    reader: Backend = small(url)
    runs: list[int] = []

    def work(snapshot: Snapshot) -> int:
        if not runs:
            for number in range(60):
                store.put(f"/memories/{number:02d}", b"new")
            assert small(url).collect(store.id) > 0
        runs.append(1)
        return len([memory for memory, _ in snapshot.list(ROOT)])

    assert reader.read(store.id, work) == 60
    assert len(runs) == 2


# -- URLs of locations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://bucket?colour=red", "endpoint, region, allow_http, timeout_s"),
        ("s3://bucket?access_key_id=x", "unknown option"),
        ("gs://bucket?region=x", "choose from endpoint"),
        ("s3://bucket?timeout_s=-1", "timeout_s"),
        ("s3://bucket?timeout_s=soon", "timeout_s"),
        ("s3://bucket?timeout_s=nan", "timeout_s"),
        ("s3://bucket?allow_http=yes", "allow_http"),
        ("s3://", "bucket"),
        ("s3://key:secret@bucket", "environment"),
        ("ftp://bucket", "s3://"),
        ("memory://x?region=y", "timeout_s"),
    ],
)
def test_an_invalid_place_is_refused(place: str, said: str) -> None:
    """The error shows a valid form of the URL, but not the given value."""
    with pytest.raises(InvalidInput) as caught:
        ObjectsBackend(place)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
