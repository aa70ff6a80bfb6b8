"""Backend suite: reads of a snapshot."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Unpack

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import (
    Actor,
    Backend,
    Change,
    Entry,
    Memory,
    Selection,
    Snapshot,
    Transaction,
    Usage,
    Version,
)
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening
from retentive.values.paths import ROOT

# Paths in byte order. They have characters that sort near `/` but are not separators, and `%` and `_`, which must not
# be wildcards.
NEIGHBOURS = (
    "/memories/.hidden",
    "/memories/A",
    "/memories/a b",
    "/memories/a!",
    "/memories/a%",
    "/memories/a'b",
    "/memories/a-b",
    "/memories/a.txt",
    "/memories/a/%",
    "/memories/a/_",
    "/memories/a/b/c",
    "/memories/a0",
    "/memories/a_",
    "/memories/aa",
    "/memories/a\u00e9",
    "/memories/a\uffee",
    "/memories/a😀",
    "/memories/é",
    "/memories/報告",
    "/memories/😀/😀",
)


class SnapshotsSuite(SuiteOpening):
    """Tests of read methods: lookups, listings, queries by id, and reads of the history."""

    def test_a_memory_is_returned_with_its_bytes(self, store: Opened) -> None:
        """`get` returns the memory with its bytes and all its metadata."""
        store.create({A: b"one\r\n"})
        look = store.get(A)
        assert look == Entry(store.memory(A), b"one\r\n")
        assert look.exists

    def test_an_entry_reports_memories_above_and_below(self, store: Opened) -> None:
        """The entry at a directory has `below=True`. The entry at a path below a memory has the memory as `above`."""
        store.create({C: b"", "/memories/deep/er/file": b""})
        looks = {
            "/memories/d": Entry(below=True),
            "/memories/deep": Entry(below=True),
            "/memories/deep/er": Entry(below=True),
            "/memories/d/c/x": Entry(above=C),
            "/memories/d/c/x/y": Entry(above=C),
            "/memories/deep/er/file/x/y/z": Entry(above="/memories/deep/er/file"),
            "/memories/d/d": Entry(),
            "/memories/de": Entry(),
            "/memories/nothing/at/all": Entry(),
        }
        for path, expected in looks.items():
            assert store.get(path) == expected, path

    def test_neighbours_in_byte_order_are_not_below(self, store: Opened) -> None:
        """Only `/` separates the names in a path, and no character in a path is a wildcard."""
        store.create(dict.fromkeys(NEIGHBOURS, b"x"))
        for path in (*NEIGHBOURS, "/memories/a", "/memories/%", "/memories/_", "/memories/a/b", "/memories/😀"):
            look = store.get(path)
            assert (look.memory is not None) == (path in NEIGHBOURS), path
            assert look.below == any(one.startswith(path + "/") for one in NEIGHBOURS), path

    def test_listings_are_in_byte_order(self, store: Opened) -> None:
        """A listing has every memory below a path, but not the memory at the path. `sizes` returns the same paths."""
        store.create({path: path.encode() for path in reversed(NEIGHBOURS)})
        for under in (
            ROOT,
            "/memories/a",
            "/memories/a/b",
            "/memories/A",
            "/memories/😀",
            "/memories/%",
            "/memories/x",
        ):
            expected = [path for path in NEIGHBOURS if path.startswith(under + "/")]
            walked = store.memories(under)
            sizes = store.sizes(under)
            assert [memory.path for memory in walked] == expected == sorted(expected, key=str.encode)
            assert sizes == [(path, len(path.encode())) for path in expected]
            assert walked == [store.memory(path) for path in expected]

    def test_the_state_differs_after_each_change(self, store: Opened) -> None:
        """Two reads of the same memories give the same `state`.

        Each change gives a new `state`, or `state` is always None.
        """
        states = [store.read(_state)]
        for change in (
            partial(store.create, {"/memories/a": b"1", "/memories/b": b"2"}),
            partial(store.put, "/memories/a", b"3"),
            partial(store.move, "/memories/a", "/memories/c"),
            partial(store.delete, "/memories/b"),
        ):
            change()
            states.append(store.read(_state))
            assert store.read(_state) == states[-1]
        assert len(set(states)) == (1 if states[0] is None else len(states))

    def test_a_walk_reads_a_range_of_a_listing(self, store: Opened) -> None:
        """A walk starts at the path `start`. No memory needs to have this path.

        With `texts=True`, each memory is returned with its bytes.
        """
        store.create({path: path.encode() for path in reversed(NEIGHBOURS)})
        for under in (ROOT, "/memories/a", "/memories/x"):
            walked = store.memories(under)
            for start in ("", "/", *NEIGHBOURS, "/memories/a/", "/memories/a0", "/memories/a/b\x01", "0"):
                expected = [memory for memory in walked if memory.path >= start]
                for limit in (None, 0, 1, 3):
                    found = store.read(partial(_walked, under=under, start=start, limit=limit))
                    assert [memory for memory, _ in found] == expected[:limit], (under, start)
                    assert {data for _, data in found} <= {None}
        found = store.read(lambda snapshot: list(snapshot.walk("/memories/a", start="/memories/a/_", texts=True)))
        assert [(memory.path, data) for memory, data in found] == [
            (path, path.encode()) for path in ("/memories/a/_", "/memories/a/b/c")
        ]

    def test_one_level_has_each_directory_once(self, store: Opened) -> None:
        """Each directory is represented by its first memory only, even if its memories do not fit in one batch."""
        store.create(dict.fromkeys([*NEIGHBOURS, *(f"/memories/many/{number:03}/x" for number in range(300))], b"x"))
        for under in (ROOT, "/memories/a", "/memories/a/b", "/memories/many", "/memories/nothing"):
            walked = store.memories(under)
            for start in ("", "/memories/a.txt", "/memories/a/_", "/memories/aa", "/memories/many/1", "/memories/~"):
                entries: dict[str, Memory] = {}
                for memory in walked:
                    if memory.path >= start:
                        entries.setdefault(memory.path[len(under) + 1 :].partition("/")[0], memory)
                for limit in (None, 0, 1, 5, 40):
                    found = store.read(partial(_one_level, under=under, start=start, limit=limit))
                    assert found == list(entries.values())[:limit], (under, start, limit)

    def test_a_walk_may_leave_out_memories_without_some_names(self, store: Opened) -> None:
        """`walk_naming` returns at least the memories whose provenance contains one of the names or a backslash.

        It also returns the path from which to continue, or None at the end.
        """
        made = {A: '"ann"', B: '"bob"', C: '"b\\\\u0061d"', "/memories/e": None, "/memories/f": '"an"'}
        changes = [Change(None, path, b"x", provenance_text=text) for path, text in made.items()]
        store.write(lambda tx: tx.record(changes, None))
        for names, wanted in ((("ann",), {A, C}), (("nn", "bob"), {A, B, C}), ((), {C}), (None, set(made))):
            for limit in (1, 2, 5, 9):
                found, start = list[Memory](), ""
                while True:
                    batch, following = store.read(partial(_naming, names=names, start=start, limit=limit))
                    assert len(batch) <= limit
                    found += batch
                    if following is None:
                        break
                    start = following
                paths = [memory.path for memory in found]
                assert paths == sorted(paths)
                assert wanted <= set(paths) <= set(made), (names, limit)

    def test_a_memory_is_found_by_its_id_at_any_path(self, store: Opened) -> None:
        """A memory is found by its id until it is deleted. A new memory at the same path has another id."""
        store.create({A: b"one"})
        memory = store.memory(A)
        for old, new in ((A, B), (B, C), (C, A)):
            store.move(old, new)
            assert store.found(memory.id) == store.memory(new)
        store.delete(A)
        assert store.found(memory.id) is None
        store.create({A: b"two"})
        assert store.found(memory.id) is None
        assert store.found("mem_nothing") is None

    def test_versions_are_newest_first_and_can_be_filtered(self, store: Opened) -> None:
        """Versions can be filtered by memory, across its renames, or by path."""
        store.create({A: b"1", B: b"2"})
        first = store.memory(A)
        store.move(A, C)
        store.put(C, b"3")
        store.create({A: b"4"})
        store.delete(B)
        every = store.versions()
        operations = ["deleted", "created", "modified", "modified", "created", "created"]
        assert [version.operation for version in every] == operations
        assert [version.path for version in every] == [B, A, C, C, B, A]
        assert store.versions(memory_id=first.id) == [version for version in every if version.memory_id == first.id]
        assert store.versions(path=A) == [every[1], every[5]]
        assert store.versions(path=C, memory_id=first.id) == [every[2], every[3]]
        assert store.versions(path=B, memory_id=first.id) == []
        assert store.versions(path="/memories") == store.versions(memory_id="mem_nothing") == []
        for limit in (0, 1, 4, 6, 100):
            assert store.versions(limit=limit) == every[:limit]
        assert store.versions(path=A, limit=1) == [every[1]]

    def test_versions_are_scanned(self, store: Opened) -> None:
        """A scan for a path or an actor returns at least the versions that match. It may return other versions too.

        It also returns the id from which to continue, or None at the end.
        """
        ann, bob = Actor("user", "ann"), Actor("user", "bob")
        store.create({A: b"a", "/memories/d/e": b"e"}, ann)
        store.create({C: b"c", "/memories/d0": b"0"}, bob)
        store.move(A, "/memories/d/a", bob)
        store.delete(C, actor=ann)
        store.put("/memories/d0", b"1")
        versions = store.versions()
        for path, actor in ((None, None), ("/memories/d", None), (C, None), (None, ann), ("/memories/d", bob)):
            wanted = [
                each.id
                for each in versions
                if (path is None or each.path == path or each.path.startswith(path + "/"))
                and actor in {None, each.actor}
            ]
            for most, oldest_first in ((1, False), (2, True), (3, False), (7, True), (9, False)):
                ids = store.read(partial(_scanned, most=most, path=path, actor=actor, oldest_first=oldest_first))
                every = [each.id for each in (reversed(versions) if oldest_first else versions)]
                assert [each for each in every if each in ids] == ids
                assert set(wanted) <= set(ids), (path, actor, most)

    def test_versions_can_be_listed_oldest_first(self, store: Opened) -> None:
        """With `oldest_first`, every filtered list is reversed. The limit then counts from the oldest version."""
        store.create({A: b"1", B: b"2"})
        store.put(A, b"3")
        store.move(A, C)
        store.delete(B)
        newest = store.versions()
        memory = store.memory(C)

        def oldest(**chosen: Unpack[Selection]) -> list[Version]:
            chosen["oldest_first"] = True
            return store.read(lambda snapshot: list(snapshot.versions(**chosen)))

        assert oldest() == newest[::-1]
        assert oldest(limit=2) == newest[:-3:-1]
        assert oldest(after=newest[-2].id, limit=2) == newest[1:3][::-1]
        assert oldest(before=newest[1].id, after=newest[-1].id) == newest[2:-1][::-1]
        assert oldest(memory_id=memory.id) == store.versions(memory_id=memory.id)[::-1]
        assert oldest(path=B) == store.versions(path=B)[::-1]
        assert oldest(revision_of=newest[-1].id) == newest[-2:][::-1]

    def test_records_are_read_in_pages(self, store: Opened) -> None:
        """`after` is an exclusive bound of the keys. The limit counts only records of the requested kind."""
        keys = [f"k{number:03}" for number in range(7)]
        store.write(lambda tx: [tx.put_record(kind, key, key) for kind in ("kind", "kind2", "kin") for key in keys])
        pairs = [(key, key) for key in keys]

        def read(after: str, limit: int | None) -> list[tuple[str, str]]:
            return store.read(lambda snapshot: list(snapshot.records("kind", after=after, limit=limit)))

        assert read("", None) == pairs
        assert read("", 3) == pairs[:3]
        assert read("k002", 3) == pairs[3:6]
        assert read("k0021", 2) == pairs[3:5]
        assert read("k006", 3) == read("", 0) == []

    def test_texts_of_all_versions_can_be_read(self, store: Opened) -> None:
        """A deletion has the text None. Reading an unknown version raises `NotFound`."""
        store.create({A: b"1"})
        store.put(A, b"2")
        store.move(A, B)
        store.put(B, b"3")
        store.move(B, C)
        store.move(C, A)
        store.delete(A)
        texts = [store.version_text(version.id) for version in store.versions()]
        assert texts == [None, b"3", b"3", b"3", b"2", b"2", b"1"]
        for unknown in ("memver_nothing", "", store.versions()[0].memory_id):
            with pytest.raises(NotFound):
                store.version_text(unknown)

    def test_usage_and_revision_follow_every_write(self, store: Opened) -> None:
        """The revision increases by one with every write that changes something."""
        assert (store.usage(), store.revision()) == (Usage(0, 0), 0)
        store.create({A: b"123", B: b"", C: "é".encode()})
        assert (store.usage(), store.revision()) == (Usage(3, 5), 1)
        store.put(A, b"1")
        assert (store.usage(), store.revision()) == (Usage(3, 3), 2)
        store.move(A, "/memories/z")
        assert (store.usage(), store.revision()) == (Usage(3, 3), 3)
        store.delete(B, C)
        assert (store.usage(), store.revision()) == (Usage(1, 1), 4)
        store.write(lambda tx: tx.get(A))
        store.write(lambda tx: tx.record([], Actor("job", "idle")))
        assert store.revision() == 4

    def test_a_transaction_sees_its_own_changes(self, store: Opened) -> None:
        """In a transaction, every read method shows the changes that the transaction has already recorded."""
        store.create({A: b"1", B: b"2"})
        seen = store.write(_record_and_look)
        assert seen == _look_again(store)

    @pytest.mark.parametrize("path", [A, B, "/memories/d", "/memories/d/x", "/memories/a/x"])
    def test_an_expected_entry_is_read_like_any_other(self, store: Opened, path: str) -> None:
        """A call of `expect` does not change the result of any read, before or after a change."""
        store.create({A: b"1", C: b"2"})
        ways = [store.read(partial(_looked, expected=one, path=path)) for one in (None, path, A)]
        assert ways[0] == ways[1] == ways[2]
        changed = [store.write(partial(_looked_after_change, expected=one, path=path)) for one in (None, path)]
        assert changed[0] == changed[1]

    def test_work_that_reads_nothing_needs_a_store_too(self, backend: Backend) -> None:
        """For an unknown store, the call raises `NotFound` even if `work` reads nothing or only calls `expect`."""
        for work in (lambda found: None, lambda found: found.expect(A)):
            with pytest.raises(NotFound):
                backend.read("memstore_0", work)
            with pytest.raises(NotFound):
                backend.write("memstore_0", work)

    def test_a_read_returns_the_result_of_its_work(self, backend: Backend, store: Opened) -> None:
        """`read` and `write` both return the result of `work`."""
        thing = object()
        assert store.read(lambda snapshot: thing) is thing
        assert store.write(lambda tx: thing) is thing


def _look_again(store: Opened) -> tuple[object, ...]:
    return store.read(_all_ways)


def _looked(found: Snapshot, *, expected: str | None, path: str) -> tuple[object, ...]:
    if expected is not None:
        found.expect(expected)
    return (found.settings, found.revision, found.get(path), found.get(path), found.get(A), _all_ways(found))


def _looked_after_change(tx: Transaction, *, expected: str | None, path: str) -> tuple[object, ...]:
    """Change and delete the memories at or below a path, and then create them again.

    Returns the number of changes, the entry at the path after the deletion, and the usage of the store.
    """
    if expected is not None:
        tx.expect(expected)
    memories = list(tx.memories(path)) or [memory for memory in tx.memories(ROOT) if memory.path == path]
    recorded = tx.record([Change(memory, memory.path, memory.path.encode() + b"!") for memory in memories], None)
    tx.record([Change(tx.get(one.path).memory, None) for one in memories], None)
    entry = tx.get(path)
    tx.record([Change(None, memory.path, b"again", again=None) for memory in memories], None)
    return len(recorded), entry, tx.usage()


def _record_and_look(tx: Transaction) -> tuple[object, ...]:
    a, b = tx.get(A).memory, tx.get(B).memory
    tx.record([Change(None, "/memories/new", b"new"), Change(a, A, b"11")], None)
    tx.record([Change(b, C), Change(tx.get(A).memory, None)], None)
    return _all_ways(tx)


def _all_ways(found: Snapshot) -> tuple[object, ...]:
    walked = list(found.memories(ROOT))
    return (
        walked,
        list(found.sizes(ROOT)),
        [found.get(path) for path in (A, B, C, "/memories/d", "/memories/new", "/memories/new/x")],
        [found.find(memory.id) for memory in walked],
        list(found.versions()),
        [found.text(version.id) for version in found.versions()],
        found.usage(),
        found.revision,
    )


def _state(snapshot: Snapshot) -> Hashable:
    return snapshot.state


def _walked(snapshot: Snapshot, under: str, start: str, limit: int | None) -> list[tuple[Memory, bytes | None]]:
    return list(snapshot.walk(under, start=start, limit=limit))


def _one_level(snapshot: Snapshot, under: str, start: str, limit: int | None) -> list[Memory]:
    return list(snapshot.one_level(under, start=start, limit=limit))


def _naming(
    snapshot: Snapshot, names: tuple[str, ...] | None, start: str, limit: int
) -> tuple[list[Memory], str | None]:
    return snapshot.walk_naming(ROOT, names, start=start, limit=limit)


def _scanned(snapshot: Snapshot, most: int, path: str | None, actor: Actor | None, *, oldest_first: bool) -> list[str]:
    found, last = list[str](), None
    by = None if actor is None else str(actor)
    while True:
        bound = {"after": last} if oldest_first else {"before": last}
        batch, last = snapshot.scan(most, path=path, actor=by, oldest_first=oldest_first, **bound)
        assert len(batch) <= most
        found += [version.id for version in batch]
        if last is None:
            return found
