"""Memory stores in object storage: compaction, history, caches, damaged objects and garbage collection."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from retentive.errors import Damaged, InvalidInput, NotFound, UnknownSchema
from retentive.storage.contract import (
    Actor,
    Backend,
    Created,
    Moved,
    Snapshot,
    StoreInfo,
    Transaction,
    Usage,
    Version,
    create_or_update,
)
from retentive.storage.objects.backend import open_objects
from retentive.testing.backend_suite.opening import A, B, Opened, memory_at
from retentive.testing.backend_suite.sharing import count_up, together
from retentive.values.paths import ROOT
from support.profiles import LONG

from .objects import SMALL, Bottom, in_two_days, manifest_of, small

# -- compaction and history ----------------------------------------------------------------------------------


class Held:
    """The expected state of a store, in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.texts: list[bytes | None] = []
        self.paths: list[str] = []

    def add(self, path: str, data: bytes | None) -> None:
        self.texts.insert(0, data)
        self.paths.insert(0, path)


def one_step(chance: random.Random, model: Held, stores: list[Opened]) -> None:
    """Do a random write through one of the handles."""
    store = chance.choice(stores)
    path = f"/memories/{chance.choice('abc')}/{chance.randrange(12):02d}"
    data = str(chance.random()).encode()
    if path not in model.files:
        store.create({path: data})
        model.files[path] = data
        model.add(path, data)
        return
    kind = chance.choice(["put", "put", "move", "delete"])
    if kind == "put":
        store.put(path, data)
        model.files[path] = data
        model.add(path, data)
    elif kind == "delete":
        store.delete(path)
        model.files.pop(path)
        model.add(path, None)
    else:
        new = f"/memories/moved/{len(model.paths):05d}"
        store.move(path, new)
        model.files[new] = model.files.pop(path)
        model.add(new, model.files[new])


def check(model: Held, store: Opened) -> None:
    """Check that all reads agree with the model."""
    assert store.tree() == dict(sorted(model.files.items()))
    versions = store.versions()
    assert [version.path for version in versions] == model.paths
    assert store.revision() == len(versions)
    assert store.usage() == Usage(len(model.files), sum(map(len, model.files.values())))
    ids = [version.id for version in versions]
    assert ids == sorted(ids, reverse=True)
    assert [(one.path, one.size_bytes) for one in store.memories("/memories/b")] == [
        (path, len(data)) for path, data in sorted(model.files.items()) if path.startswith("/memories/b/")
    ]


def check_history(model: Held, store: Opened) -> None:
    """Check that every version can be found by id, by memory and by path, and every memory by id."""
    versions = store.versions()
    found: list[tuple[Version, bytes | None]] = store.backend.read(
        store.id, lambda snapshot: [snapshot.version(version.id) for version in versions]
    )
    assert found == list(zip(versions, model.texts, strict=True))
    for version in versions[:: max(len(versions) // 20, 1)]:
        memory = version.memory_id
        assert store.versions(memory_id=memory) == [one for one in versions if one.memory_id == memory]
        assert store.versions(path=version.path) == [one for one in versions if one.path == version.path]
        assert store.versions(path=version.path, limit=1) == store.versions(path=version.path)[:1]
    for memory_now in store.memories(ROOT):
        assert store.found(memory_now.id) == memory_now


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4) if LONG else [0])
def test_a_long_history_over_many_chunks_loses_nothing(url: str, seed: int) -> None:
    """Hundreds of writes run through three handles. Pages and chunks are small enough to split, merge and nest."""
    chance, model = random.Random(seed), Held()
    stores = [Opened(small(url)) for _ in range(3)]
    for step in range(260):
        one_step(chance, model, stores)
        if step % 13 == 0:
            check(model, chance.choice(stores))
    for store in (*stores, Opened(small(url))):
        check(model, store)
        check_history(model, store)
    manifest = manifest_of(url, stores[0].id)
    assert manifest.tree.depth >= 3
    assert len(manifest.tree.refs) <= SMALL.fan_out
    assert manifest.weight < 2 * SMALL.log
    in_two_days(url).collect(stores[0].id)
    items = len(model.files) + len(model.paths)
    assert len(Bottom(url).listed(f"stores/{stores[0].id}/pages")) < 2 * 3 * items / SMALL.page


def test_an_emptied_store_still_works(url: str) -> None:
    """Writes after the deletion of all pages create new pages."""
    store = Opened(small(url))
    files = {f"/memories/{number:03d}": b"x" for number in range(40)}
    for _ in range(3):
        store.create(files)
        assert store.tree() == files
        store.delete(*files)
        assert store.tree() == {}
        assert store.memories() == []
    assert store.get("/memories/001").exists is False
    assert len(store.versions()) == 240


def test_a_directory_is_found_across_pages(url: str) -> None:
    """Reads find the memories above and below a path, both in pages and in the log, deleted or not."""
    store = Opened(small(url))
    files = {f"/memories/d/{number:02d}/x": b"x" for number in range(30)}
    store.create(files)
    assert store.get("/memories/d/07").below
    assert store.get("/memories/d/07/x/y/z").above == "/memories/d/07/x"
    store.delete("/memories/d/07/x")
    assert not store.get("/memories/d/07").exists
    assert store.get("/memories/d/07/x/y/z").above is None
    store.delete(*(path for path in files if path != "/memories/d/07/x"))
    assert not store.get("/memories/d").exists


def test_swapped_paths_are_one_write(url: str) -> None:
    """A chain of renames in one record takes effect as a whole, before and after compaction."""
    store = Opened(small(url))
    store.create({"/memories/1": b"1", "/memories/2": b"2", "/memories/3": b"3"})

    def shift(tx: Transaction) -> None:
        one, two, three = (memory_at(tx, f"/memories/{name}") for name in "123")
        tx.record([Moved(three, "/memories/4"), Moved(two, "/memories/3"), Moved(one, "/memories/2")], None)

    expected = {"/memories/2": b"1", "/memories/3": b"2", "/memories/4": b"3"}
    store.backend.write(store.id, shift)
    assert store.tree() == expected
    assert Opened(small(url)).tree() == expected
    for number in range(9):
        store.create({f"/memories/more/{number}": b""})
    assert {path: data for path, data in Opened(small(url)).tree().items() if "more" not in path} == expected


def test_a_change_of_path_and_text_is_one_version(url: str) -> None:
    """The change adds one version to one memory, before and after compaction. The old path is free."""
    store = Opened(small(url))
    store.create({A: b"one"})
    before = store.memory(A)
    store.backend.write(store.id, lambda tx: tx.record([create_or_update(tx.get(A).memory, B, b"longer")], None))
    for reader in (store, Opened(small(url))):
        assert (reader.tree(), reader.usage()) == ({B: b"longer"}, Usage(1, 6))
        assert not reader.get(A).exists
    assert store.found(before.id) == store.memory(B)
    assert [(one.operation, one.path, one.size_bytes) for one in store.versions()] == [
        ("modified", B, 6),
        ("created", A, 3),
    ]
    for number in range(9):
        store.create({f"/memories/more/{number}": b""})
    fresh = Opened(small(url))
    assert (fresh.get(B).data, fresh.get(A).exists, fresh.memory(B).id) == (b"longer", False, before.id)


def test_a_compaction_survives_a_lost_attempt(url: str) -> None:
    """Another writer commits while a writer compacts, and may compact too. Nothing is lost, and no page is left."""
    other = Opened(open_objects(url))
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


# -- several handles -----------------------------------------------------------------------------------------


def test_a_handle_with_an_old_manifest_loses_nothing(url: str) -> None:
    """A handle detects on each read and before each commit that its cached manifest is outdated."""
    stores = [Opened(small(url)) for _ in range(2)]
    stores[0].create({A: b"0"})
    for _ in range(20):
        for store in stores:
            count_up(store, 1)
            count_up(store, 1)
    assert [store.get(A).data for store in stores] == [b"80", b"80"]


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


def test_a_failed_write_in_a_batch_leaves_no_trace(url: str) -> None:
    """A failed write leaves neither its versions nor its text."""
    store = Opened(small(url))

    def fail(tx: Transaction) -> None:
        tx.record([Created(B, b"secret")], None)
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        store.backend.write(store.id, fail)
    store.create({A: b"1"})
    bottom = Bottom(url)
    (pack,) = bottom.listed(f"stores/{store.id}/packs")
    assert b"secret" not in bottom.get(pack)


def test_many_handles_compact_at_once(url: str) -> None:
    """Six handles write at once, and each compacts after a few of its writes."""
    stores = [Opened(small(url)) for _ in range(6)]
    stores[0].create({A: b"0"})
    together([partial(count_up, store, 25) for store in stores])
    assert stores[0].tree() == {A: b"150"}
    assert len(stores[1].versions()) == stores[2].revision() == 151


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


def test_one_of_many_creations_of_a_key_wins(url: str) -> None:
    """All callers get the same store, and no other store exists."""
    backends = [small(url) for _ in range(8)]
    found: list[StoreInfo] = []

    def make(backend: Backend) -> None:
        found.append(backend.create_store(key="k", name="n"))

    together([partial(make, one) for one in backends])
    assert len(set(found)) == 1
    assert backends[0].list_stores() == found[:1]


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
    in_two_days(url).collect(store.id)
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
            lambda backend: backend.put_side_records(store.id, "kind", {"key": "value"}),
        ]
    for call in calls:
        with pytest.raises(UnknownSchema, match=f"format {number.decode()}, but this version of retentive"):
            call(small(url))
    assert (bottom.get(key), [one for one in bottom.listed() if "/side/" not in one]) == (unknown, before)


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
    assert in_two_days(url).collect(store.id) > 3
    assert len(bottom.listed(f"stores/{store.id}/pages")) < pages / 2
    assert len(bottom.listed(f"stores/{store.id}/packs")) == 60
    assert not [key for key in bottom.listed() if key.endswith("0" * 32)]
    assert small(url).read(store.id, all_of) == before
    assert in_two_days(url).collect(store.id) == 0


def test_young_objects_are_kept(url: str) -> None:
    """Young objects may belong to an active writer. A minimum age below the safe limit is refused."""
    store, bottom = filled(url), Bottom(url)
    before = bottom.listed()
    assert small(url).collect(store.id) == 0
    assert bottom.listed() == before
    with pytest.raises(InvalidInput, match="7200"):
        small(url).collect(store.id, older_than_s=60)
    with pytest.raises(NotFound):
        small(url).collect("memstore_" + "0" * 32)


def test_a_concurrent_write_is_retried_after_a_collection(url: str) -> None:
    """The writer cannot commit a reference to a deleted object. It runs again, and all its objects exist."""
    store = filled(url)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        if not runs:
            assert in_two_days(url).collect(store.id) > 0
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
            assert in_two_days(url).collect(store.id) > 0
        runs.append(1)
        return len([memory for memory, _ in snapshot.list(ROOT)])

    assert reader.read(store.id, work) == 60
    assert len(runs) == 2


# -- URLs of locations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://bucket?colour=red", "endpoint, region, allow_http, quirk, timeout_s"),
        ("s3://bucket?access_key_id=x", "unknown option"),
        ("gs://bucket?region=x", "choose from endpoint"),
        ("s3://bucket?quirk=none&timeout_s=-1", "timeout_s"),
        ("s3://bucket?timeout_s=soon", "timeout_s"),
        ("s3://bucket?timeout_s=nan", "timeout_s"),
        ("s3://bucket?quirk=odd", "unquoted-etag"),
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
        open_objects(place)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_memory_place_is_shared_by_name(url: str) -> None:
    """A second handle with the same name sees the same memories, even after the first handle was closed."""
    with_one = open_objects(url)
    Opened(with_one).create({A: b"1"}, Actor("user", "ann"))
    with_one.close()
    assert Opened(open_objects(url)).get(A).data == b"1"
    assert open_objects(url + "other").list_stores() == []
