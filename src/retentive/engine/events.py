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


def record_event(tx: Transaction, kind: EventType, actor: Actor | None, ids: Sequence[str] = ()) -> None:
    """Record an event. Remove the oldest event if there are more than `MAX_EVENTS`."""
    newest = newest_event(tx)
    number = 1 + (parsed(tx.get_record(EVENT, newest) or "")["number"] if newest else 0)
    # The id is later than all events and versions so far, also if the clock was set back since then.
    latest = max(newest.partition("_")[2], *(version.id.partition("_")[2] for version in tx.versions(limit=1)), "")
    event_id = sortable_id("evt_", now_us(time.time))
    if event_id.partition("_")[2] <= latest and all(digit in hexdigits for digit in latest):
        event_id = f"evt_{int(latest, 16) + 1:032x}"
    value = {"type": kind, "number": number, "by": None if actor is None else str(actor), "count": len(ids)}
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
