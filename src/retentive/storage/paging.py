"""Iteration over stores, memories and versions. Long lists are read page by page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from typing import TypeVar

from retentive.errors import Damaged
from retentive.storage.capabilities import is_destroyed
from retentive.storage.contract import Backend, Memory, Snapshot, StoreInfo, Version
from retentive.values.paths import ROOT
from retentive.values.records import SYSTEM_STORE

T = TypeVar("T")
PAGE_VERSIONS = 500
FIRST_PAGES = (20, 100)  # smaller, because most readers of a long history want its newest versions
PAGE_STORES = 200
FEW_MEMORIES = 20  # up to this number, memories are looked up one at a time


def all_stores(backend: Backend) -> Iterator[StoreInfo]:
    """Yield all memory stores, oldest first."""
    after: str | None = None
    while page := backend.list_stores(after=after, limit=PAGE_STORES):
        yield from page
        after = page[-1].id


def stores_of_users(backend: Backend) -> Iterator[StoreInfo]:
    """Yield the memory stores to copy, oldest first.

    Left out are the store with the records of the location, and those whose key was destroyed, since nobody can read
    them.
    """
    return (info for info in all_stores(backend) if info.id != SYSTEM_STORE and not is_destroyed(info))


def memories_by_id(snapshot: Snapshot, memory_ids: Collection[str]) -> dict[str, Memory]:
    """Return the existing memories with these ids, by id.

    A few memories are looked up one at a time. For many ids, all memories of the store are read in one pass, which is
    faster.
    """
    if len(memory_ids) > FEW_MEMORIES:
        return {memory.id: memory for memory, _ in snapshot.list(ROOT) if memory.id in memory_ids}
    looked_up = (snapshot.find(memory_id) for memory_id in memory_ids)
    return {memory.id: memory for memory in looked_up if memory is not None}


def readable_texts(snapshot: Snapshot, under: str = ROOT, start: str = "") -> Iterator[tuple[Memory, bytes | None]]:
    """Yield memories and their bytes as `Snapshot.list` does. A damaged text is yielded as None."""
    last = ""
    try:
        for memory, data in snapshot.list(under, start=start, texts=True):
            yield memory, data
            last = memory.path
    except Damaged as error:
        if error.is_outdated:
            raise
    else:
        return
    for memory, _ in snapshot.list(under, start=start):
        if memory.path > last:
            text = None
            with suppress(Damaged):
                text = snapshot.get(memory.path).data
            yield memory, text


def all_versions(
    snapshot: Snapshot, *, memory_id: str | None = None, before: str | None = None, first: int | None = None
) -> Iterator[Version]:
    """Yield all versions of a store, or of one memory, newest first. `first` is the number that the caller expects."""
    for size in chain(FIRST_PAGES if first is None else (min(max(first, 1), PAGE_VERSIONS),), repeat(PAGE_VERSIONS)):
        page = list(snapshot.versions(memory_id=memory_id, before=before, limit=size))
        yield from page
        if not page or (before is not None and page[-1].id >= before):  # out of order (damaged): it would never end
            return
        before = page[-1].id


def batched(items: Iterable[T], size: Callable[[T], int], *, most: int, most_bytes: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `most` items, and of `most_bytes` unless one item alone is larger."""
    batch, left = list[T](), most_bytes
    for item in items:
        if batch and (len(batch) == most or size(item) > left):
            yield batch
            batch, left = [], most_bytes
        batch.append(item)
        left -= size(item)
    if batch:
        yield batch
