"""Paged lists of memories. All pages show the same state of the store, even if the store changes between two pages.

The cursor contains the *pin*: the newest version when the first page was read. Later pages show the state at the pin,
so each memory that exists throughout the listing is on exactly one page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from retentive.engine.events import events_of, has_lost_events, newest_event
from retentive.engine.operation import ReadOperation
from retentive.errors import CursorExpired, NotFound
from retentive.storage.contract import Memory, Snapshot, Version, to_datetime
from retentive.values.listing import ListPage, directory_of, path_after
from retentive.values.paths import MemoryPath
from retentive.values.records import time_in_id
from retentive.values.settings import Settings
from retentive.values.text import decoded

HISTORY, PRUNED = "history", "pruned_until"  # kind and key of the record of the time from which all versions are kept


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
        return {"listed": True}

    def apply(self, snapshot: Snapshot, settings: Settings) -> ListPage[Listed, ListingCursor]:
        """Read a page, with one more entry, which shows that there is a next page. Raises `CursorExpired`."""
        under, limit, is_level = self.path.text, self.limit + 1, self.depth == 1
        if self.cursor is None:
            pin = _newest(snapshot)
            batch = snapshot.list(under, limit=limit, one_level=is_level, texts=self.texts)
        else:
            pin = self.cursor.pin
            _check_kept(snapshot, pin)
            start = path_after(self.cursor.last)
            versions = snapshot.list_at(f"{pin}~", under, start=start, limit=limit, one_level=is_level)
            batch = ((memory_then(version), self._text(snapshot, version)) for version in versions)
        found: list[Listed] = []
        cursors: list[ListingCursor] = []
        for memory, data in batch:
            directory = directory_of(under, memory.path) if is_level else None
            text = None if data is None else decoded(data, path=memory.path)
            found.append(ListedMemory(memory, text) if directory is None else ListedDirectory(directory))
            cursors.append(ListingCursor(pin, directory or memory.path))
        return ListPage.of(found, self.limit, cursors)

    def _text(self, snapshot: Snapshot, version: Version) -> bytes | None:
        try:
            return snapshot.version(version.id)[1] if self.texts else None
        except NotFound:
            raise _expired() from None


def memory_then(version: Version) -> Memory:
    """Return a memory as a version recorded it."""
    born = time_in_id(version.memory_id)
    return Memory.of(version, version.created_at if born is None else to_datetime(born))


def _newest(snapshot: Snapshot) -> str:
    """Return the id of the newest version. If an event is newer, return its id in the form of a version id."""
    newest, event = next(snapshot.versions(limit=1), None), newest_event(snapshot)
    return max("" if newest is None else newest.id, f"memver_{event.partition('_')[2]}" if event else "")


def _check_kept(snapshot: Snapshot, pin: str) -> None:
    """Raise `CursorExpired` if versions of the state right after version `pin` may have been removed since."""
    at, pruned = time_in_id(pin), snapshot.get_record(HISTORY, PRUNED)
    if at is None:
        return
    after = f"evt_{pin.partition('_')[2]}"
    if (pruned is not None and int(pruned) > at) or has_lost_events(snapshot, after):
        raise _expired()
    removals = [event for event in events_of(snapshot, after=after) if event.type in {"erased", "redacted"}]
    is_partial = any(event.count > len(event.ids) for event in removals)
    if is_partial or any((time_in_id(each) or 0) <= at for event in removals for each in event.ids):
        raise _expired()


def _expired() -> CursorExpired:
    return CursorExpired("versions that the listing needs were removed; list again from the start")
