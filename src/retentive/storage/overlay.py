"""Base class of overlays: snapshots that show another snapshot with changes.

An overlay can show decrypted texts, the state after a proposal, or an earlier state. A subclass overrides the methods
whose results differ. `Overlay` calls the inner snapshot for every other method except `walk_naming`, even if `Snapshot`
implements the method by calling other methods. A subclass that changes texts must therefore also override `text`,
`texts`, `sizes` and `as_of`. A subclass that hides memories must also override `one_level` and `earlier`. A subclass
that changes `versions` must also override `scan`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar, Unpack

from retentive.storage.contract import Entry, Memory, Selection, Snapshot, State, Usage, Version
from retentive.values.one_level import P, directory_of, one_level, path_after

_MOST = 1_000  # memories in one batch of a walk
_path = attrgetter("path")
T = TypeVar("T")


class Layer(Snapshot):
    """Snapshot that shows the snapshot `inner` with differences. It delegates the nine reads to `inner`."""

    def __init__(self, inner: Snapshot) -> None:
        self._inner = inner

    @property
    def state(self) -> State:
        return self._inner.state

    def get(self, path: str) -> Entry:
        return self._inner.get(path)

    def find(self, memory_id: str) -> Memory | None:
        return self._inner.find(memory_id)

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        return self._inner.list(under, start=start, limit=limit, one_level=one_level, texts=texts)

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        return self._inner.list_at(before, under, start=start, limit=limit, one_level=one_level)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        return self._inner.versions(**selection)

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        return self._inner.version(version_id)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        return self._inner.records(kind, after=after, limit=limit)

    def get_record(self, kind: str, key: str) -> str | None:
        return self._inner.get_record(kind, key)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:  # old, and goes
        return ((memory, data or b"") for memory, data in self.list(under, texts=True))


def shown(
    read: Callable[[str, int], Iterable[T]],
    item: Callable[[T], P],
    shows: Callable[[P], bool],
    start: str,
    limit: int | None,
) -> Iterator[T]:
    """Yield at most `limit` of the items that `read(start, size)` reads page by page, without the hidden ones."""
    left, size = limit, _MOST if limit is None else limit
    while left is None or left > 0:
        page = list(read(start, size))
        for each in page:
            if shows(item(each)) and left != 0:
                yield each
                left = None if left is None else left - 1
        if len(page) < size:
            return
        start, size = path_after(item(page[-1]).path), min(2 * size, _MOST)


class Overlay(Snapshot):
    """Snapshot that delegates its methods to the snapshot `inner`."""

    def __init__(self, inner: Snapshot) -> None:
        self._inner = inner

    @property
    def revision(self) -> int:
        return self._inner.revision

    @property
    def seal(self) -> str | None:
        return self._inner.seal

    @property
    def settings(self) -> str | None:
        return self._inner.settings

    @property
    def properties(self) -> str | None:
        return self._inner.properties

    @property
    def listing_key(self) -> Hashable:
        return None  # a subclass may add or hide memories while the inner state stays the same

    def expect(self, path: str) -> None:
        self._inner.expect(path)

    def get(self, path: str) -> Entry:
        return self._inner.get(path)

    def memories(self, under: str) -> Iterator[Memory]:
        return self._inner.memories(under)

    def find(self, memory_id: str) -> Memory | None:
        return self._inner.find(memory_id)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        return self._inner.versions(**selection)

    def scan(
        self,
        most: int,
        *,
        path: str | None = None,
        actor: str | None = None,
        after: str | None = None,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> tuple[list[Version], str | None]:
        return self._inner.scan(most, path=path, actor=actor, after=after, before=before, oldest_first=oldest_first)

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        return self._inner.version(version_id)

    def usage(self) -> Usage:
        return self._inner.usage()

    def get_record(self, kind: str, key: str) -> str | None:
        return self._inner.get_record(kind, key)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        return self._inner.records(kind, after=after, limit=limit)

    def text(self, version_id: str) -> bytes | None:
        return self._inner.text(version_id)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return self._inner.sizes(under)

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        return self._inner.walk(under, start=start, limit=limit, texts=texts)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        return Snapshot.walk_naming(self, under, names, start=start, limit=limit)  # calls `walk` of the subclass

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return self._inner.one_level(under, start=start, limit=limit)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return self._inner.texts(under)

    def as_of(self, before: str) -> Iterator[Version]:
        return self._inner.as_of(before)

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        return self._inner.earlier(before, under, start=start, limit=limit, one_level=one_level)


def walk_shown(
    inner: Snapshot,
    shows: Callable[[Memory], bool],
    under: str,
    *,
    start: str = "",
    limit: int | None = None,
    texts: bool = False,
) -> Iterator[tuple[Memory, bytes | None]]:
    """Yield what `inner.walk` yields, but only memories for which `shows` is true. `limit` counts only these."""
    if limit is None:
        yield from (found for found in inner.walk(under, start=start, texts=texts) if shows(found[0]))
        return
    left, size = limit, limit
    while left > 0:
        batch = list(inner.walk(under, start=start, limit=size, texts=texts))
        for found in batch:
            if left and shows(found[0]):
                yield found
                left -= 1
        if len(batch) < size:
            return
        start, size = batch[-1][0].path + "\0", min(2 * size, _MOST)


def one_level_shown(
    inner: Snapshot, shows: Callable[[Memory], bool], under: str, *, start: str = "", limit: int | None = None
) -> Iterator[Memory]:
    """Yield the memories directly in the directory `under` of `inner` and the first memory of each subdirectory.

    Memories for which `shows` is false are left out. A subdirectory is then represented by its first memory for which
    `shows` is true.
    """

    def read(at: str, size: int) -> Iterator[Memory]:
        return inner.one_level(under, start=at, limit=size)

    def walk(directory: str, at: str) -> Iterator[Memory]:
        return (memory for memory, _ in walk_shown(inner, shows, directory, start=at, limit=1))

    return _shown(read, shows, under, start=start, limit=limit, walk=walk)


def earlier_shown(
    inner: Snapshot,
    shows: Callable[[Version], bool],
    before: str,
    under: str,
    *,
    start: str = "",
    limit: int | None = None,
    is_level: bool = False,
) -> Iterator[Version] | None:
    """Return the versions of `inner.earlier` for which `shows` is true, or None if `inner.earlier` returns None.

    With `is_level`, a subdirectory is represented by its first version for which `shows` is true.
    """
    if inner.earlier(before, under, limit=0) is None:
        return None

    def read(at: str, size: int) -> Iterator[Version]:
        found = inner.earlier(before, under, start=at, limit=size, one_level=is_level)
        return islice(earlier_of(inner.as_of(before), under, at, is_level=is_level), size) if found is None else found

    def walk(directory: str, at: str) -> Iterator[Version]:
        return earlier_shown(inner, shows, before, directory, start=at, limit=1) or iter(())

    return _shown(read, shows, under, start=start, limit=limit, walk=walk if is_level else None)


def _shown(
    read: Callable[[str, int], Iterable[P]],
    shows: Callable[[P], bool],
    under: str,
    *,
    start: str,
    limit: int | None,
    walk: Callable[[str, str], Iterator[P]] | None,
) -> Iterator[P]:
    """Yield at most `limit` entries for which `shows` is true.

    `read(path, size)` reads at most `size` entries, starting at `path`. If `walk` is given, each subdirectory is one
    entry. If the first memory of a subdirectory is hidden, `walk` finds the first of its memories for which `shows` is
    true.
    """
    left, size = limit, _MOST if limit is None else limit
    while left is None or left > 0:
        batch = list(read(start, size))
        for each in batch:
            directory = None if walk is None else directory_of(under, each.path)
            start = path_after(directory or each.path)
            found = each if shows(each) else None
            if found is None and walk is not None and directory is not None:
                found = next(walk(directory[:-1], each.path), None)
            if found is not None and left != 0:
                yield found
                left = None if left is None else left - 1
        if len(batch) < size:
            return
        size = min(2 * size, _MOST)


def earlier_of(versions: Iterable[Version], under: str, start: str, *, is_level: bool) -> Iterator[Version]:
    """Compute the result of `Snapshot.earlier` from `versions`, the result of `Snapshot.as_of`."""
    low, high = f"{under}/", f"{under}0"
    found = sorted((each for each in versions if max(low, start) <= each.path < high), key=_path)
    if not is_level:
        return iter(found)

    def walk(at: str, size: int) -> Sequence[Version]:
        first = bisect_left(found, at, key=_path)
        return found[first : first + size]

    return one_level(walk, under, start=start)
