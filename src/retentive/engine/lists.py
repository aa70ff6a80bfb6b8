"""Reads that several callers share: memories, paged listings, and events.

All pages of a listing show the same state of the store, even if the store changes between two pages. The cursor
contains the *pin*: the newest version when the first page was read. Later pages show the state at the pin, so each
memory that exists throughout the listing is on exactly one page.

Events are changes that add no version, such as redactions, settings and decisions on proposals. The ids of events and
versions can be sorted together by time if their prefixes are removed. A store keeps its newest `MAX_EVENTS` events.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from string import hexdigits
from typing import Any, Literal, TypeAlias

from retentive.engine.operation import Read
from retentive.errors import CursorExpired, Damaged, NotFound
from retentive.storage.contract import Actor, Memory, Snapshot, Transaction, Version, now_us, sortable_id, to_datetime
from retentive.values.listing import ListPage, directory_of, path_after
from retentive.values.paths import MemoryPath
from retentive.values.records import name_of, time_in_id
from retentive.values.text import decoded

HISTORY, PRUNED = "history", "pruned_until"  # kind and key of the record of the time from which all versions are kept
EVENT, HEAD = "store.event", "store.head"  # record kinds; they sort after `audit`, so audit entries stay together
MAX_EVENTS = 1_000
_MAX_IDS = 100
EventType: TypeAlias = Literal[
    "redacted", "erased", "settings", "store.updated", "store.archived", "proposed", "accepted", "refused"
]


def load(path: MemoryPath) -> Read[tuple[Memory, str]]:
    """Read the memory at a path, and its text. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Memory, str]:
        entry = None if path.is_root else snapshot.get(path.text)
        if entry is None or entry.memory is None:
            raise NotFound(f"there is no memory at {path.written}")
        return entry.memory, decoded(entry.data, path=entry.memory.path)

    return Read("load", work, path, lambda found: read_fact(found[0]))


def list_memories(under: MemoryPath, *, or_at: bool = False) -> Read[list[Memory]]:
    """List all memories below a directory, in byte order. With `or_at`, a memory at the path itself is listed too."""

    def work(snapshot: Snapshot) -> list[Memory]:
        found = [memory for memory, _ in snapshot.list(under.text)]
        memory = snapshot.get(under.text).memory if or_at and not (found or under.is_root) else None
        return found if memory is None else [memory]

    return Read("list", work, under)


def read_version(version_id: str) -> Read[tuple[Version, str | None]]:
    """Read a version and its text. The text is None for a deletion or a redacted version. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Version, str | None]:
        version, data = snapshot.version(version_id)
        return version, None if data is None else decoded(data)

    return Read("show", work, facts=lambda found: version_fact(found[0]))


def read_fact(memory: Memory | None) -> Mapping[str, object]:
    """Return a field for the audit entry of a read: the ids of `memory` and of its version. Empty for None."""
    return {} if memory is None else {"read": [memory.id, memory.version_id]}


def version_fact(version: Version) -> Mapping[str, object]:
    """Return a field for the audit entry of a read: the ids of `version` and of its memory."""
    return {"read": [version.memory_id, version.id]}


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


def list_page(
    path: MemoryPath, depth: int = 0, cursor: ListingCursor | None = None, limit: int = 100, texts: bool = False
) -> Read[ListPage[Listed, ListingCursor]]:
    """List the memories below a directory, in byte order. With `depth` 1, list one level, including directories.

    The operation raises `CursorExpired`.
    """
    is_level, wanted = depth == 1, limit + 1  # one more entry shows that there is a next page

    def text_of(snapshot: Snapshot, version: Version) -> bytes | None:
        try:
            return snapshot.version(version.id)[1] if texts else None
        except NotFound:
            raise _expired() from None

    def work(snapshot: Snapshot) -> ListPage[Listed, ListingCursor]:
        if cursor is None:  # the pin is the newest version; if an event is newer, its id in the form of a version
            newest, event = next(snapshot.versions(limit=1), None), newest_event(snapshot)
            pin = max("" if newest is None else newest.id, f"memver_{event.partition('_')[2]}" if event else "")
            batch = snapshot.list(path.text, limit=wanted, one_level=is_level, texts=texts)
        else:
            pin, start = cursor.pin, path_after(cursor.last)
            _check_kept(snapshot, pin)
            versions = snapshot.list_at(f"{pin}~", path.text, start=start, limit=wanted, one_level=is_level)
            batch = ((memory_then(version), text_of(snapshot, version)) for version in versions)
        found: list[Listed] = []
        cursors: list[ListingCursor] = []
        for memory, data in batch:
            directory = directory_of(path.text, memory.path) if is_level else None
            text = None if data is None else decoded(data, path=memory.path)
            found.append(ListedMemory(memory, text) if directory is None else ListedDirectory(directory))
            cursors.append(ListingCursor(pin, directory or memory.path))
        return ListPage.of(found, limit, cursors)

    def facts(page: ListPage[Listed, ListingCursor]) -> Mapping[str, object]:
        memories = [each.memory for each in page.items if isinstance(each, ListedMemory) and each.text is not None]
        reads = [[memory.id, memory.version_id] for memory in memories]
        return {"listed": True} | ({"reads": reads} if reads else {})

    return Read("list", work, path, facts)


def memory_then(version: Version) -> Memory:
    """Return a memory as a version recorded it."""
    born = time_in_id(version.memory_id)
    return Memory.of(version, version.created_at if born is None else to_datetime(born))


def _check_kept(snapshot: Snapshot, pin: str) -> None:
    """Raise `CursorExpired` if versions of the state right after version `pin` may have been removed since."""
    at, pruned = time_in_id(pin), snapshot.get_record(HISTORY, PRUNED)
    if at is None:
        return
    after = f"evt_{pin.partition('_')[2]}"
    if (pruned is not None and int(pruned) > at) or has_lost_events(snapshot, after):
        raise _expired()
    for event in events_of(snapshot, after=after):
        is_partial = event.count > len(event.ids)
        if event.type in {"erased", "redacted"} and (
            is_partial or any((time_in_id(each) or 0) <= at for each in event.ids)
        ):
            raise _expired()


def _expired() -> CursorExpired:
    return CursorExpired("versions that the listing needs were removed; list again from the start")


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """Change that adds no version. `ids` lists the affected versions, memories or proposals.

    For the type `settings`, `ids` lists the names of the changed settings. `ids` has at most 100 items.
    `count` also counts the items that were left out.
    """

    id: str
    type: str
    at: datetime
    actor: Actor | None
    ids: tuple[str, ...]
    count: int


def record_event(tx: Transaction, kind: EventType, actor: Actor | None, ids: Sequence[str] = ()) -> None:
    """Record an event. Remove the oldest event if there are more than `MAX_EVENTS`."""
    newest = newest_event(tx)
    number = 1 + (parsed(tx.get_record(EVENT, newest) or "")["number"] if newest else 0)
    # The id is later than all events and versions so far, also if the clock was set back since then.
    latest = max(newest.partition("_")[2], *(version.id.partition("_")[2] for version in tx.versions(limit=1)), "")
    event_id = sortable_id("evt_", now_us(time.time))
    if event_id.partition("_")[2] <= latest and all(digit in hexdigits for digit in latest):
        event_id = f"evt_{int(latest, 16) + 1:032x}"
    value = {"type": kind, "number": number, "by": name_of(actor), "count": len(ids)}
    tx.put_record(EVENT, event_id, json.dumps(value | {"ids": list(ids[:_MAX_IDS])}, separators=(",", ":")))
    tx.put_record(HEAD, "newest", event_id)
    for old, text in list(tx.records(EVENT, limit=2)):
        if parsed(text)["number"] <= number - MAX_EVENTS:
            tx.put_record(EVENT, old, None)


def newest_event(snapshot: Snapshot) -> str:
    """Return the id of the newest event; empty if there is none."""
    return snapshot.get_record(HEAD, "newest") or ""


def events_of(snapshot: Snapshot, *, after: str, limit: int | None = None) -> list[StoreEvent]:
    """Return the events with ids greater than `after`, oldest first. Raises `Damaged`."""
    found = []
    for event_id, text in snapshot.records(EVENT, after=after, limit=limit):
        given = parsed(text)
        by = None if given["by"] is None else Actor.parse(given["by"])
        at = to_datetime(time_in_id(event_id) or 0)
        found.append(StoreEvent(event_id, given["type"], at, by, tuple(given["ids"]), given["count"]))
    return found


def has_lost_events(snapshot: Snapshot, after: str) -> bool:
    """Return whether events with ids greater than `after` may have been removed."""
    oldest = next(iter(snapshot.records(EVENT, limit=1)), None)
    return oldest is not None and oldest[0] > after and int(parsed(oldest[1])["number"]) > 1


def parsed(text: str) -> Mapping[str, Any]:
    """Parse the record of an event. Raises `Damaged`."""
    try:
        found: Mapping[str, Any] = json.loads(text)
        if isinstance(found["number"], int) and isinstance(found["ids"], list) and {"type", "by", "count"} <= {*found}:
            return found
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise Damaged("the record of an event cannot be read")
