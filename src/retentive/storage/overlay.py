"""Base class of overlays: snapshots that show another snapshot with changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, Unpack

from retentive.storage.contract import Entry, Memory, Selection, Snapshot, State, Version
from retentive.values.listing import P, path_after
from retentive.values.listing import one_level as one_level_of

_MOST = 1_000  # memories in one batch of a walk
T = TypeVar("T")


class Overlay(Snapshot):
    """Snapshot that shows the snapshot `inner` with differences. It delegates the nine reads to `inner`."""

    def __init__(self, inner: Snapshot) -> None:
        self._inner = inner

    def shows(self, memory: Memory) -> bool:
        """Return whether a memory of `inner` is in this snapshot too, unchanged."""
        return True

    @property
    def state(self) -> State:
        return self._inner.state

    def get(self, path: str) -> Entry:
        return self._inner.get(path)

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return memory if memory is not None and self.shows(memory) else None

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        def walk(at: str, size: int) -> Iterator[Memory]:
            return (memory for memory, _ in self.list(under, start=at, limit=size))

        def read(at: str, size: int) -> Iterator[tuple[Memory, bytes | None]]:
            return self._inner.list(under, start=at, limit=size, texts=texts)

        if not one_level:
            return shown(read, lambda pair: pair[0], self.shows, start, limit)
        level = one_level_of(walk, under, start=start, limit=limit)
        return ((memory, self.get(memory.path).data if texts else None) for memory in level)

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
