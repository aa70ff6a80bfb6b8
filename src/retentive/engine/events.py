"""Events of a memory store: changes that add no version, such as redactions, settings and decisions on proposals.

The ids of events and versions can be sorted together by time if their prefixes are removed. A store keeps its newest
`MAX_EVENTS` events.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from string import hexdigits
from typing import Any, Literal, TypeAlias

from retentive.errors import Damaged
from retentive.storage.contract import Actor, Snapshot, Transaction, now_us, sortable_id, to_datetime
from retentive.values.records import time_in_id

EVENT, HEAD = "store.event", "store.head"  # record kinds; they sort after `audit`, so audit entries stay together
MAX_EVENTS = 1_000
_MAX_IDS = 100
EventType: TypeAlias = Literal[
    "redacted", "erased", "settings", "store.updated", "store.archived", "proposed", "accepted", "refused"
]


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


@dataclass(frozen=True, slots=True)
class EventHead:
    """Number of events ever recorded in the store, and the id of the newest event."""

    count: int = 0
    newest: str = ""


def record_event(tx: Transaction, kind: EventType, actor: Actor | None, ids: Sequence[str] = ()) -> None:
    """Record an event. Remove the oldest event if there are more than `MAX_EVENTS`."""
    head = head_of(tx)
    number, event_id = head.count + 1, _later_id(tx, head)
    value = {"type": kind, "number": number, "by": None if actor is None else str(actor), "count": len(ids)}
    tx.put_record(EVENT, event_id, json.dumps(value | {"ids": list(ids[:_MAX_IDS])}, separators=(",", ":")))
    tx.put_record(HEAD, "newest", json.dumps({"count": number, "newest": event_id}))
    for old, text in list(tx.records(EVENT, limit=2)):
        if parsed(text)["number"] <= number - MAX_EVENTS:
            tx.put_record(EVENT, old, None)


def _later_id(tx: Transaction, head: EventHead) -> str:
    """Return an event id later than all events and versions so far, also if the clock was set back since then."""
    latest = max((version.id.partition("_")[2] for version in tx.versions(limit=1)), default="")
    latest, usual = max(latest, head.newest.partition("_")[2]), sortable_id("evt_", now_us(time.time))
    is_behind = usual.partition("_")[2] <= latest and all(digit in hexdigits for digit in latest)
    return f"evt_{int(latest, 16) + 1:032x}" if is_behind else usual


def head_of(snapshot: Snapshot) -> EventHead:
    """Return the number of events and the id of the newest event. Raises `Damaged`."""
    text = snapshot.get_record(HEAD, "newest")
    return EventHead() if text is None else parsed_head(text)


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
    found = _fields(text, "type", "number", "by", "ids", "count")
    if not (isinstance(found["number"], int) and isinstance(found["ids"], list)):
        raise Damaged("the record of an event cannot be read")
    return found


def parsed_head(text: str) -> EventHead:
    """Parse the record of the newest event. Raises `Damaged`."""
    found = _fields(text, "count", "newest")
    if not isinstance(found["count"], int):
        raise Damaged("the record of the newest event cannot be read")
    return EventHead(found["count"], str(found["newest"]))


def _fields(text: str, *names: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text)
        return {name: given[name] for name in names}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damaged("the record of an event cannot be read") from None
