"""Paged lists of memories. All pages show the same state of the store, even if the store changes between two pages.

The cursor contains the *pin*: the newest version when the first page was read. Later pages show the state at the pin.
Memories that have not changed since then are read from the current state, by path range. Changed memories are read from
their versions. So each memory that exists throughout the listing is on exactly one page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias

from retentive.engine.events import events_of, has_lost_events, head_of
from retentive.engine.operation import ReadOperation
from retentive.errors import CursorExpired, NotFound
from retentive.storage.contract import Memory, Snapshot, Version, to_datetime
from retentive.storage.paging import PAGE_VERSIONS
from retentive.values.one_level import directory_of, one_level, path_after
from retentive.values.pages import ListPage
from retentive.values.paths import MemoryPath
from retentive.values.records import time_in_id
from retentive.values.settings import Settings
from retentive.values.text import decoded

HISTORY, PRUNED = "history", "pruned_until"  # kind and key of the record of the time from which all versions are kept
_FEW = 50  # up to this number of memories, their earlier versions are looked up one at a time
_Found: TypeAlias = tuple[Memory, bytes | None]


@dataclass(frozen=True, slots=True)
class ListingCursor:
    """Position in a listing. `last` is the last path shown; the path of a directory ends with `/`.

    `pin` is the id of the newest version or event when the first page was read.
    """

    pin: str
    last: str


@dataclass(frozen=True, slots=True)
class ListedMemory:
    """A memory in a listing, with its text if texts were requested."""

    memory: Memory
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """A directory in a listing of one level. The path ends with `/`."""

    path: str


Listed: TypeAlias = ListedMemory | ListedDirectory


@dataclass(frozen=True, slots=True)
class ListMemories(ReadOperation[ListPage[Listed, ListingCursor]]):
    """List the memories below a directory, in byte order. With `depth` 1, list one level, including directories."""

    name = "list"
    for_paths = True
    path: MemoryPath
    depth: int = 0
    cursor: ListingCursor | None = None
    limit: int = 100
    texts: bool = False

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the field `listed` for the audit entry."""
        return {"listed": True}

    def apply(self, snapshot: Snapshot, settings: Settings) -> ListPage[Listed, ListingCursor]:
        """Read a page. Raises `CursorExpired`."""
        state = _State(snapshot, self.path.text, texts=self.texts)
        pin = _newest(snapshot) if self.cursor is None else self.cursor.pin
        if self.cursor is not None:
            state.go_back(pin, hides=bool(settings.trust or settings.quarantine))
        found, last = self._page(state)
        return ListPage.of(found, self.limit, [ListingCursor(pin, each) for each in last])

    def _page(self, state: _State) -> tuple[list[Listed], list[str]]:
        """Return up to `limit` + 1 entries and their paths. The additional entry shows that there is a next page."""
        start, wanted = "" if self.cursor is None else path_after(self.cursor.last), self.limit + 1
        if self.depth == 1:
            batch = islice(state.one_level(start, wanted), wanted)
        else:
            batch = islice(state.memories(start, wanted), wanted)
        found: list[Listed] = []
        paths: list[str] = []
        for memory, data in batch:
            directory = directory_of(self.path.text, memory.path) if self.depth == 1 else None
            if directory is None:
                found.append(ListedMemory(memory, None if data is None else decoded(data, path=memory.path)))
            else:
                found.append(ListedDirectory(directory))
            paths.append(directory or memory.path)
        return found, paths


class _State:
    """Memories below a directory, in the current or in an earlier state of the store."""

    def __init__(self, snapshot: Snapshot, under: str, *, texts: bool) -> None:
        self._snapshot = snapshot
        self._under = under
        self._texts = texts
        self._changed: set[str] = set()
        self._past: list[Memory] = []

    def go_back(self, pin: str, *, hides: bool) -> None:
        """Switch to the state right after version `pin`. Raises `CursorExpired` if versions of this state were removed.

        `hides` is true if the snapshot leaves out memories that are hidden from the actor.
        """
        _check_kept(self._snapshot, pin)
        first = _first_changes(self._snapshot, pin)
        self._changed = set(first)
        existed = {memory_id for memory_id, version in first.items() if version.operation != "created"}
        found = _versions_at(self._snapshot, pin, existed, hides=hides)
        below = self._under + "/"
        self._past = [self._memory(version) for version in found if version.path.startswith(below)]
        self._past.sort(key=_path)

    def memories(self, start: str, wanted: int) -> Iterator[_Found]:
        """Yield the memories from the path `start` on, in byte order. Each read gets `wanted` memories."""
        past = ((memory, self._text(memory)) for memory in self._past if memory.path >= start)
        return merge(self._unchanged(start, wanted), past, key=lambda found: found[0].path)

    def one_level(self, start: str, wanted: int) -> Iterator[_Found]:
        """From the path `start` on, yield the memories of one level, and the first memory of each directory in it."""
        if not self._changed and not self._texts:
            level = self._snapshot.one_level(self._under, start=start, limit=wanted)
            return ((memory, None) for memory in level)
        data: dict[str, bytes | None] = {}

        def walk(at: str, size: int) -> Iterator[Memory]:
            for memory, text in self.memories(at, size):
                data[memory.path] = text
                yield memory

        level = one_level(walk, self._under, start=start, limit=wanted)
        return ((memory, data[memory.path]) for memory in level)

    def _unchanged(self, start: str, at_once: int) -> Iterator[_Found]:
        while True:
            batch = list(self._snapshot.walk(self._under, start=start, limit=at_once, texts=self._texts))
            yield from (found for found in batch if found[0].id not in self._changed)
            if len(batch) < at_once:
                return
            start = path_after(batch[-1][0].path)

    def _memory(self, version: Version) -> Memory:
        return Memory.of(version, self._born(version))

    def _born(self, version: Version) -> datetime:
        present = self._snapshot.find(version.memory_id)
        if present is not None:
            return present.created_at
        at = time_in_id(version.memory_id)
        return version.created_at if at is None else to_datetime(at)

    def _text(self, memory: Memory) -> bytes | None:
        if not self._texts:
            return None
        try:
            return self._snapshot.text(memory.version_id)
        except NotFound:
            raise _expired() from None


def _newest(snapshot: Snapshot) -> str:
    """Return the id of the newest version. If an event is newer, return its id in the form of a version id."""
    newest, event = next(snapshot.versions(limit=1), None), head_of(snapshot).newest
    return max("" if newest is None else newest.id, f"memver_{event.partition('_')[2]}" if event else "")


def _path(memory: Memory) -> str:
    return memory.path


def _check_kept(snapshot: Snapshot, pin: str) -> None:
    """Raise `CursorExpired` if versions of the state right after version `pin` may have been pruned or erased."""
    at, pruned = time_in_id(pin), snapshot.get_record(HISTORY, PRUNED)
    if at is None:
        return
    after = f"evt_{pin.partition('_')[2]}"
    if (pruned is not None and int(pruned) > at) or has_lost_events(snapshot, after):
        raise _expired()
    erased = (each for event in events_of(snapshot, after=after) if event.type == "erased" for each in event.ids)
    if any((time_in_id(memory_id) or 0) <= at for memory_id in erased):
        raise _expired()


def _first_changes(snapshot: Snapshot, pin: str) -> dict[str, Version]:
    """Return the first version that each changed memory has after version `pin`. The keys are memory ids."""
    found: dict[str, Version] = {}
    read = partial(snapshot.versions, oldest_first=True, limit=PAGE_VERSIONS)
    after = pin
    while page := list(read(after=after)):
        for version in page:
            found.setdefault(version.memory_id, version)
        after = page[-1].id
    return found


def _versions_at(snapshot: Snapshot, pin: str, memory_ids: set[str], *, hides: bool) -> list[Version]:
    """Return the version that each memory of `memory_ids` had right after version `pin`.

    `hides` is true if the snapshot leaves out memories that are hidden from the actor. If it is false, a missing
    version raises `CursorExpired`. A redacted version always raises this error.
    """
    before = pin + "~"
    if hides or len(memory_ids) > _FEW:
        found = [version for version in snapshot.as_of(before) if version.memory_id in memory_ids]
        missing = set() if hides else memory_ids - {version.memory_id for version in found}
    else:
        newest = [next(snapshot.versions(memory_id=each, before=before, limit=1), None) for each in memory_ids]
        found = [version for version in newest if version is not None and version.operation != "deleted"]
        missing = {"missing"} if None in newest else set()
    if missing or any(version.redacted_at is not None for version in found):
        raise _expired()
    return found


def _expired() -> CursorExpired:
    return CursorExpired("versions that the listing needs were removed; list again from the start")
