"""Size of a memory store at the end of each day (UTC).

The first write of a day records the size of the store before this write. The store also had this size at the end of the
day of the previous write, and at the end of each day between the two writes. Later writes of the day only compare two
numbers. If the writes of a day bypassed the pipeline, the size of this day may be missing. The day is taken from the
clock of the process that writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.contract import Snapshot, Transaction, Usage

SIZE = "size"
"""Kind of the records with sizes. The key of a record is a day, such as `2026-11-26`."""
_FIRST = date(1970, 1, 1)


class StartOfDay(NamedTuple):
    """Number and total size of the memories before the first write of a day.

    `since` is the day of the newest version before this write. If there was no version, it is the day on which the
    store was created.
    """

    since: date
    memories: int
    size_bytes: int

    @classmethod
    def parse(cls, value: str) -> StartOfDay:
        """Parse the value of a record. Raises `ValueError` or `TypeError` if the value is invalid."""
        since, memories, size_bytes = json.loads(value)
        return cls(date.fromisoformat(since), int(memories), int(size_bytes))


def record_start(tx: Transaction, day: int, created_at: datetime) -> None:
    """Record the size of the store at the start of a day, unless the store already has a version from this day.

    `day` is the number of the day since 1970. `created_at` is the time when the store was created.
    """
    today = _FIRST + timedelta(days=day)
    with suppress(Damaged):  # a damaged version is reported by reads, and must not stop writes
        newest = next(tx.versions(limit=1), None)
        if newest is None and tx.revision:
            return  # all versions were removed from the history
        since = _day_of(created_at if newest is None else newest.created_at)
        if since < today:
            used = tx.usage()
            tx.put_record(SIZE, today.isoformat(), json.dumps([since.isoformat(), used.memories, used.size_bytes]))


def sizes_of_days(snapshot: Snapshot, days: Sequence[date], created_at: datetime) -> list[Usage | None]:
    """Return the number and total size of the memories at the end of each day in `days`.

    `days` are consecutive days, oldest first. The last day is today, and has the current size. The size of a day is
    None if it was not recorded. One record is read for each day with writes.
    """
    ends = [*_recorded(snapshot, days[0]), _current(snapshot, created_at)] if days else []
    oldest = next(snapshot.versions(limit=1, oldest_first=True), None)
    born = _day_of(created_at if oldest is None else min(created_at, oldest.created_at))
    found: list[Usage | None] = []
    for day in days:
        while ends[0][0] <= day:
            del ends[0]
        start = ends[0][1]
        is_known = start.since <= day or day == days[-1]
        found.append(Usage(start.memories, start.size_bytes) if is_known else Usage(0, 0) if day < born else None)
    return found


def _recorded(snapshot: Snapshot, after: date) -> Iterator[tuple[date, StartOfDay]]:
    """Yield the records of days later than `after`, each with its day. Invalid records are skipped."""
    for key, value in snapshot.records(SIZE, after=after.isoformat()):
        with suppress(ValueError, TypeError, RecursionError):
            yield date.fromisoformat(key), StartOfDay.parse(value)


def _current(snapshot: Snapshot, created_at: datetime) -> tuple[date, StartOfDay]:
    newest, used = next(snapshot.versions(limit=1), None), snapshot.usage()
    since = _day_of(created_at if newest is None else newest.created_at)
    return date.max, StartOfDay(since, used.memories, used.size_bytes)


def _day_of(at: datetime) -> date:
    return at.astimezone(UTC).date()
