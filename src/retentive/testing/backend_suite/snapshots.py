"""Backend suite: the nine reads of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import TypeVar

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Created, Deleted, Entry, Memory, Moved, Snapshot, Transaction, Updated, Version
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening, memory_at
from retentive.values.paths import ROOT

# Paths in byte order. They have characters that sort near `/` but are not separators, and `%` and `_`, which must not
# be wildcards.
NEIGHBOURS = tuple(
    f"/memories/{name}"
    for name in (
        ".hidden", "A", "a b", "a!", "a%", "a'b", "a-b", "a.txt", "a/%", "a/_", "a/b/c", "a0", "a_", "aa", "a\u00e9",
        "a\uffee", "a😀", "é", "報告", "😀/😀",
    )
)  # fmt: skip
UNDER = (ROOT, "/memories/a", "/memories/a/b", "/memories/A", "/memories/😀", "/memories/%", "/memories/none")
STARTS = ("", "/memories/a.txt", "/memories/a/", "/memories/a/_", "/memories/a/b\x01", "/memories/a\0", "/memories/~")


P = TypeVar("P", Memory, Version)


def expected(every: Iterable[P], under: str, *, start: str, limit: int | None, one_level: bool) -> list[P]:
    """Select from `every` what `Snapshot.list` and `list_at` return."""
    entries: dict[str, P] = {}
    for one in sorted(every, key=lambda one: one.path.encode()):
        if one.path.startswith(f"{under}/") and one.path.encode() >= start.encode():
            name = one.path[len(under) + 1 :]
            entries.setdefault(name.partition("/")[0] if one_level else name, one)
    return list(entries.values())[:limit]


class SnapshotsSuite(SuiteOpening):
    """Tests of the nine reads."""

    def test_an_entry_has_the_memory_or_reports_what_is_above_and_below(self, store: Opened) -> None:
        """`get` returns the memory with its bytes and metadata, or the memory above the path, or `below=True`."""
        store.create({A: b"one\r\n", C: b"", "/memories/deep/er/file": b""})
        looks = {
            A: Entry(store.memories()[0], b"one\r\n"),
            "/memories/d": Entry(below=True),
            "/memories/deep": Entry(below=True),
            "/memories/deep/er": Entry(below=True),
            "/memories/d/c/x": Entry(above=C),
            "/memories/deep/er/file/x/y/z": Entry(above="/memories/deep/er/file"),
            "/memories/d/d": Entry(),
            "/memories/de": Entry(),
            "/memories/nothing/at/all": Entry(),
        }
        for path, entry in looks.items():
            assert store.get(path) == entry, path

    def test_lists_are_those_of_a_model(self, store: Opened) -> None:
        """`list` for each directory, start, limit and level, with and without texts, is what the model selects."""
        store.create({path: path.encode() for path in reversed(NEIGHBOURS)})
        many = [f"/memories/many/{number:03}/x" for number in range(300)]
        store.create({path: path.encode() for path in many})

        def work(found: Snapshot) -> None:
            every = [memory for memory, _ in found.list(ROOT)]
            assert [memory.path for memory in every if "many" not in memory.path] == list(NEIGHBOURS)
            assert every[::9] == [found.get(memory.path).memory for memory in every[::9]]
            for path in (*NEIGHBOURS, *UNDER[1:]):  # only `/` separates names, and no character is a wildcard
                look = found.get(path)
                assert (look.memory is not None) == (path in NEIGHBOURS), path
                assert look.below == any(one.startswith(path + "/") for one in NEIGHBOURS), path
            for under, start, one_level in product((*UNDER, "/memories/many"), STARTS, (False, True)):
                for limit in (None, 0, 1, 3, 40):
                    wanted = expected(every, under, start=start, limit=limit, one_level=one_level)
                    plain = found.list(under, start=start, limit=limit, one_level=one_level)
                    assert list(plain) == [(memory, None) for memory in wanted], (under, start, limit)
                    texts = found.list(under, start=start, limit=limit, one_level=one_level, texts=True)
                    assert list(texts) == [(memory, memory.path.encode()) for memory in wanted], (under, start, limit)

        store.read(work)

    def test_earlier_lists_are_those_of_a_model(self, store: Opened) -> None:
        """`list_at` shows each earlier state, even after versions of it were redacted and pruned."""
        store.create(dict.fromkeys(NEIGHBOURS, b"1"))
        store.move("/memories/a/_", "/memories/a/b/_", data=b"2")
        store.delete("/memories/a-b", "/memories/a/%")
        store.put("/memories/aa", b"3")
        store.move("/memories/a/b/_", "/memories/a/_")
        store.create({"/memories/a/%": b"4"})
        _compare_earlier(store)
        versions = store.versions()
        store.write(lambda tx: tx.redact([version.id for version in versions[1:12:3]], None))
        _compare_earlier(store)
        alive = [version.id for version in versions if version.operation != "deleted"]
        store.write(lambda tx: tx.prune(alive[-14::4]))
        _compare_earlier(store)

    def test_each_step_is_an_earlier_state(self, store: Opened) -> None:
        """Revision and usage follow each change. The state before a version has the memories as they were before it."""
        states: list[dict[str, bytes | None]] = [{}]
        for number, step in enumerate(steps(store)):
            assert (store.revision(), store.usage().memories) == (number, len(states[-1]))
            step()
            states.append(store.tree())
            assert store.usage().size_bytes == sum(len(data or b"") for data in states[-1].values())
        versions = store.versions()[::-1]
        assert [state_at(store, version.id) for version in versions] == states[:-1]
        assert state_at(store, versions[-1].id + "!") == states[-1]
        found = store.read(lambda snapshot: [snapshot.version(version.id) for version in versions])
        assert [version for version, _ in found] == versions
        assert [data for _, data in found] == [b"1", b"2", b"3", b"3", b"4", None, b"5", b"5", b"6"]
        for unknown in ("memver_nothing", "", versions[0].memory_id):
            with pytest.raises(NotFound):
                store.version_text(unknown)

    def test_a_memory_is_found_by_its_id_at_any_path(self, store: Opened) -> None:
        store.create({A: b"one"})
        memory = store.memory(A)
        for old, new in ((A, B), (B, C), (C, A)):
            store.move(old, new)
            assert store.found(memory.id) == store.memory(new)
        store.delete(A)
        store.create({A: b"two"})
        assert store.found(memory.id) is store.found("mem_nothing") is None

    def test_versions_are_selected_and_bounded(self, store: Opened) -> None:
        """By memory across its renames, by path, by revision, between ids and in both orders."""
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
        ids = [version.id for version in every]
        bounds = (None, "\0", ids[-1], ids[3][:-1] + "\uffff", ids[2] + "\0", ids[0])

        def work(found: Snapshot) -> None:
            for memory_id, path in product((None, first.id, every[0].memory_id, "mem_nothing"), (None, A, B, C, ROOT)):
                of_these = partial(found.versions, memory_id=memory_id, path=path)
                for after, before in product(bounds, bounds):
                    wanted = [
                        version
                        for version in every
                        if memory_id in {None, version.memory_id} and path in {None, version.path}
                        if (after is None or version.id > after) and (before is None or version.id < before)
                    ]
                    assert list(of_these(after=after, before=before)) == wanted, (memory_id, path, after, before)
                    oldest = list(of_these(after=after, before=before, limit=2, oldest_first=True))
                    assert oldest == wanted[::-1][:2], (memory_id, path, after, before)

        store.read(work)
        for limit in (0, 1, 4, 100):
            assert store.versions(limit=limit) == every[:limit]
        assert store.versions(revision_of=ids[-1], oldest_first=True) == every[-2:][::-1]
        store.create({"/memories/d/e": b"5", "/memories/d0": b"6"})
        store.move("/memories/d/e", "/memories/f")
        assert [version.path for version in store.versions(path="/memories/d/")] == ["/memories/d/e", C, C]
        assert store.versions(path=f"{ROOT}/") == store.versions()
        assert store.versions(revision_of=ids[2], path=A) == store.versions(revision_of="memver_nothing") == []

    def test_records_are_read_in_pages(self, store: Opened) -> None:
        """`after` is an exclusive bound of the keys. The limit counts only records of the requested kind."""
        keys = [f"k{number:03}" for number in range(7)]
        store.write(lambda tx: [tx.put_record(kind, key, key) for kind in ("kind", "kind2", "kin") for key in keys])
        pairs = [(key, key) for key in keys]
        pages = [("", None, pairs), ("", 3, pairs[:3]), ("k002", 3, pairs[3:6]), ("k0021", 2, pairs[3:5])]

        def work(found: Snapshot) -> None:
            for after, limit, wanted in (*pages, ("k006", 3, []), ("", 0, [])):
                assert list(found.records("kind", after=after, limit=limit)) == wanted, (after, limit)
            assert (found.get_record("kind", "k003"), found.get_record("kind", "k")) == ("k003", None)

        store.read(work)

    def test_a_transaction_sees_its_own_changes(self, store: Opened) -> None:
        store.create({A: b"1", B: b"2"})

        def work(tx: Transaction) -> tuple[object, ...]:
            _all_reads(tx)  # what was read before must not be repeated after the changes
            a, b = memory_at(tx, A), memory_at(tx, B)
            tx.record([Created("/memories/new", b"new"), Updated(a, A, b"11")], None)
            tx.record([Moved(b, C), Deleted(memory_at(tx, A))], None)
            tx.put_record("kind", "key", "value")
            tx.set_metadata(settings="s", properties="{}")
            return _all_reads(tx)

        assert store.write(work) == store.read(_all_reads)


def steps(store: Opened) -> Iterable[partial[None]]:
    """Return functions that make changes of every kind. Each function creates one version."""
    yield partial(store.create, {A: b"1"})
    yield partial(store.create, {B: b"2"})
    yield partial(store.put, A, b"3")
    yield partial(store.move, A, C)
    yield partial(store.create, {A: b"4"})
    yield partial(store.delete, B)
    yield partial(store.put, C, b"5")
    yield partial(store.move, C, B)
    yield partial(store.put, B, b"6")


def state_at(store: Opened, before: str) -> dict[str, bytes | None]:
    """Return the bytes of all memories, by path, in the state before the version `before`."""
    return store.read(
        lambda found: {version.path: found.version(version.id)[1] for version in found.list_at(before, ROOT)}
    )


def _compare_earlier(store: Opened) -> None:
    versions = store.versions(oldest_first=True)

    def work(found: Snapshot) -> None:
        for before in [*(version.id for version in versions[::3]), "\0", versions[-1].id + "!", "~"]:
            newest = {version.memory_id: version for version in versions if version.id < before}
            every = [version for version in newest.values() if version.operation != "deleted"]
            for under, start, one_level in product(UNDER, STARTS[:4], (False, True)):
                for limit in (None, 1, 2):
                    wanted = expected(every, under, start=start, limit=limit, one_level=one_level)
                    earlier = found.list_at(before, under, start=start, limit=limit, one_level=one_level)
                    assert list(earlier) == wanted, (before, under, one_level, start, limit)

    store.read(work)


def _all_reads(found: Snapshot) -> tuple[object, ...]:
    every, versions = list(found.list(ROOT, texts=True)), list(found.versions())
    return (
        every,
        list(found.list(ROOT, one_level=True)),
        list(found.list_at("~", ROOT)),
        [found.get(path) for path in (A, B, C, "/memories/d", "/memories/new", "/memories/new/x")],
        [found.find(memory.id) for memory, _ in every],
        versions,
        [found.version(version.id) for version in versions],
        list(found.records("kind")),
        found.get_record("kind", "key"),
        found.state,
    )
