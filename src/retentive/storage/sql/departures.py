"""Cache of departures. A departure records that a memory left a path, because the memory was deleted or renamed.

Departures make it possible to read an earlier state of a directory without reading all memories or all versions. Each
memory that was in the directory either is still at the same path or has a departure in this cache. The cache belongs to
this process. Each time the cache is used, it first reads the versions that were written since the last use, and adds
their departures. An index in the database would do the same, but would make every write slower.

If the path of a version was redacted, the cache has no departure from this path, so earlier states do not show the
memory at this path.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from retentive.storage import forking
from retentive.storage.sql.connection import Connection
from retentive.values.records import time_in_id

_MOST = 200_000
"""Maximum number of departures in the cache. The store that was read least recently is forgotten first."""
_FEW = 20_000
"""If more versions than this must be read, the query first leaves out all memories that never left a path.

This saves two thirds of the time.
"""
_PER_MEMORY = 16
"""Limit on the number of versions to read, for each existing memory.

If an earlier state requires more versions than this, and more than `_FEW`, to be read, they are read only at the second
request for this state. At the first request, the caller reads all memories instead.
"""
_RANDOM_DIGITS = 18
"""Number of random digits at the end of an id. They follow the digits of the time."""
_DEPARTED = (
    "SELECT v.id, v.memory, w.path FROM versions v CROSS JOIN versions w WHERE v.store = ? AND w.store = v.store"
    " AND w.id = (SELECT max(x.id) FROM versions x WHERE x.store = v.store AND x.memory = v.memory AND x.id < v.id)"
    " AND w.path <> '' AND (v.operation = 'deleted' OR w.path <> v.path) AND v.id > ? AND v.id <= ?"
)
_MOVED = (
    " AND v.memory IN (SELECT y.memory FROM versions y WHERE y.store = ? GROUP BY y.memory"
    " HAVING min(y.path) <> max(y.path)"
    " OR sum(CASE WHEN y.operation = 'deleted' THEN 1 ELSE 0 END) > 0)"
)


class Departure(NamedTuple):
    """Record that a memory left `path`. The version `version_id` deleted or renamed the memory."""

    path: str
    version_id: str
    memory_id: str


@dataclass(slots=True)
class _Known:
    """Deletions and renames in one store, sorted by path. Their versions have ids with `low < id <= high`."""

    low: str
    high: str
    by_path: list[Departure] = field(default_factory=list)
    asked: bool = False
    """True if a state before `low` was requested, but too many versions would have had to be read."""


class Departures:
    """LRU cache of departures (deletions and renames of memories). Threads may share it."""

    def __init__(self) -> None:
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Empty the cache in a forked child. The lock is replaced, because a thread of the parent may hold it."""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def forget(self, store_id: str) -> None:
        """Remove a store from the cache. Call this after versions or memories of the store were removed."""
        with self._lock:
            self._known.pop(store_id, None)

    def below(
        self, connection: Connection, store: int, store_id: str, before: str, bounds: tuple[str, str]
    ) -> _Below | None:
        """Return the departures (deletions and renames of memories) from paths in the range `bounds`.

        Departures that were caused by versions earlier than `before` are left out. `store` is the number of the store
        in the tables. Returns None if the departures are not known. One reason is that too many versions would have to
        be read. In this case, the next call reads these versions. Another reason is that the cache is newer than the
        state that the connection sees.
        """
        newest = connection.rows("SELECT max(id) FROM versions WHERE store = ?", (store,))[0][0]
        with self._lock:
            known = None if newest is None else self._followed(connection, store, store_id, before, str(newest))
            if known is None:
                return None
            self._known[store_id] = known
            self._known.move_to_end(store_id)
            kept = sum(len(each.by_path) for each in self._known.values())
            while kept > _MOST:
                kept -= len(self._known.popitem(last=False)[1].by_path)
            return _Below(known.by_path, before, bounds)

    def _followed(self, connection: Connection, store: int, store_id: str, before: str, newest: str) -> _Known | None:
        known = self._known.get(store_id)
        if known is not None and newest < known.high:  # another thread saw a newer state, or this is a copied database
            return None
        if known is None or not _has(connection, store, known.high):
            known = self._known[store_id] = _Known(newest, newest)
        if before <= known.low:
            low = _earlier(connection, store, before)
            most = max(_FEW, _PER_MEMORY * _memories(connection, store))
            if not known.asked and _is_long(connection, store, low, known.low, most):
                known.asked = True
                return None
            known.by_path = sorted([*known.by_path, *_departed(connection, store, low, known.low)])
            known.low = low
        if newest > known.high:
            by_path = list(known.by_path)  # a new list, since other threads may be reading the old one
            for each in _departed(connection, store, known.high, newest):
                insort(by_path, each)
            known.by_path, known.high = by_path, newest
        return known


class _Below:
    """Departures from paths in the range `bounds`. Each was caused by the version `before` or a later version.

    In the state before the version `before`, the memories were still at these paths. `by_path` has all departures of
    the store, sorted by path.
    """

    def __init__(self, by_path: list[Departure], before: str, bounds: tuple[str, str]) -> None:
        self._by_path, self._before = by_path, before
        bound = before.rstrip("!~")
        self._at = time_in_id(bound) or time_in_id(bound + "0" * _RANDOM_DIGITS)
        self._end = bisect_left(by_path, (bounds[1],))

    def from_path(self, start: str) -> Iterator[Departure]:
        """Yield the departures from the path `start` and from paths that sort after it, in order of paths."""
        for number in range(bisect_left(self._by_path, (start,)), self._end):
            found = self._by_path[number]
            if found.version_id >= self._before and not self._is_younger(found.memory_id):
                yield found

    def _is_younger(self, memory_id: str) -> bool:
        """Return True if the memory is younger than the version `before`, according to the time in the memory's id."""
        born = None if self._at is None else time_in_id(memory_id)
        return born is not None and self._at is not None and born > self._at


DEPARTURES = Departures()


def _departed(connection: Connection, store: int, low: str, high: str) -> list[Departure]:
    """Return the deletions and renames that are recorded in the versions with `low < id <= high`."""
    is_long = _is_long(connection, store, low, high, _FEW)
    rows = connection.rows(_DEPARTED + _MOVED * is_long, (store, low, high, *[store] * is_long))
    found = cast("list[tuple[str, str, str]]", rows)
    return [Departure(path, version_id, memory_id) for version_id, memory_id, path in found]


def _has(connection: Connection, store: int, version_id: str) -> bool:
    return bool(connection.rows("SELECT 1 FROM versions WHERE store = ? AND id = ?", (store, version_id)))


def _earlier(connection: Connection, store: int, before: str) -> str:
    """Return the highest version id lower than `before`, or the empty string."""
    found = connection.rows("SELECT max(id) FROM versions WHERE store = ? AND id < ?", (store, before))
    return cast("str", found[0][0] or "")


def _memories(connection: Connection, store: int) -> int:
    return cast("int", connection.rows("SELECT count(*) FROM memories WHERE store = ?", (store,))[0][0])


def _is_long(connection: Connection, store: int, low: str, high: str, most: int) -> bool:
    """Return True if there are more than `most` versions with `low < id <= high`."""
    sql = f"SELECT 1 FROM versions WHERE store = ? AND id > ? AND id <= ? LIMIT 1 OFFSET {most:d}"
    return bool(connection.rows(sql, (store, low, high)))
