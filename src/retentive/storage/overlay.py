"""Base class of snapshots that modify another snapshot: decrypted texts, applied proposals, or an earlier state.

A subclass overrides only the methods whose result differs. The base class delegates every method, even those that
`Snapshot` implements with other methods. A subclass that changes texts must therefore override `text`, `texts`, `sizes`
and `as_of` too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Unpack

from retentive.storage.contract import Entry, Memory, Selection, Snapshot, Usage, Version

_MOST = 1_000  # memories of one batch of a walk


class Overlay(Snapshot):
    """Snapshot that delegates all methods to `inner`."""

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

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return self._inner.texts(under)

    def as_of(self, before: str) -> Iterator[Version]:
        return self._inner.as_of(before)


def walk_shown(
    inner: Snapshot,
    shows: Callable[[Memory], bool],
    under: str,
    *,
    start: str = "",
    limit: int | None = None,
    texts: bool = False,
) -> Iterator[tuple[Memory, bytes | None]]:
    """A walk of `inner` that leaves out and does not count some memories. It reads batches, as few as it needs."""
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
