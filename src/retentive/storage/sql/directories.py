"""SQLite queries for current and earlier contents of a directory. They read only memories that are shown.

To list the entries directly in a directory, a recursive query jumps from one entry to the next and skips the contents
of subdirectories. To read an earlier state, two lists are merged. The first list has the memories that are still at the
same path; they are found in the table of memories. The second list has the memories that have left their path since
then; they are found in the cache of departures (`departures.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import cast

from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.departures import DEPARTURES, Departure
from retentive.values.one_level import directory_of, path_after
from retentive.values.records import time_in_id

_INNER = "instr(substr(f.path, ?), '/')"
_NEXT = (  # lowest path after the memory at `f.path`, or after the whole subdirectory of `f.path` (`0` follows `/`)
    f"CASE {_INNER} WHEN 0 THEN f.path || char(1) ELSE substr(f.path, 1, ? + {_INNER} - 2) || '0' END"
)
_LATEST = 1 << 62
_NEWEST = "(SELECT max(w.id) FROM versions w WHERE w.store = {0} AND w.memory = {1} AND w.id < ?)"
_STAYED = (  # the newest version before the bound shows that the memory was already at its current path
    f"v.store = m.store AND v.id = {_NEWEST.format('m.store', 'm.id')} AND v.path = m.path AND v.operation <> 'deleted'"
)


def one_level(
    connection: Connection, store: int, columns: str, bounds: tuple[str, str], *, start: str, limit: int | None
) -> list[Row]:
    """Return `columns` of each memory directly in a directory, and of the first memory of each subdirectory.

    The rows are in order of paths, from the path `start` on. `bounds` enclose all paths below the directory.
    """
    return _seek(connection, store, columns, bounds, start=start, limit=limit)


def _seek(
    connection: Connection,
    store: int,
    columns: str,
    bounds: tuple[str, str],
    *,
    start: str,
    limit: int | None,
    only: tuple[str, tuple[Value, ...]] = ("", ()),
) -> list[Row]:
    """Return the same as `one_level`, but only for memories that meet the SQL condition in `only`.

    `only` has the condition and the values of its placeholders.
    """
    (low, high), (condition, values) = bounds, only
    name = len(low) + 1  # position of the first character after the directory
    first = f"SELECT m.path FROM memories m WHERE m.store = ? AND m.path >= {{}} AND m.path < ?{condition}"
    first += " ORDER BY m.path LIMIT 1"
    return connection.rows(
        f"WITH RECURSIVE f(path) AS (SELECT ({first.format('?')}) UNION ALL SELECT ({first.format(_NEXT)})"
        " FROM f WHERE f.path IS NOT NULL LIMIT ?)"
        f" SELECT {columns} FROM f CROSS JOIN memories m WHERE m.store = ? AND m.path = f.path ORDER BY m.path",
        (
            *(store, max(low, start), high, *values),
            *(store, name, name, name, high, *values),
            *(-1 if limit is None else limit, store),
        ),
    )


class EarlierDirectory:
    """Earlier state of a directory: its contents just before the version with the id `before`.

    `columns` are the columns to read from the table of versions. They must include the path and the operation. `bounds`
    enclose all paths below the directory.
    """

    def __init__(self, connection: Connection, store: int, columns: str, bounds: tuple[str, str], before: str) -> None:
        self._connection, self._store, self._bounds, self._before = connection, store, bounds, before
        self._columns = ", ".join(f"v.{name}" for name in columns.split(", "))
        self._path, self._operation = (columns.split(", ").index(name) for name in ("path", "operation"))
        born = time_in_id(before.rstrip("!~"))
        self._born = _LATEST if born is None else born

    def rows(self, store_id: str, *, start: str, limit: int | None, is_level: bool) -> Iterator[Row] | None:
        """Return the versions of at most `limit` memories, in order of paths, from the path `start` on.

        With `is_level`, each subdirectory is represented by its first memory. Returns None if it is not known which
        memories have left the directory since then. The caller must then read all memories.
        """
        departed = self._departed(store_id, start, is_level=is_level)
        if departed is None:
            return None
        stayed = self._stayed_in_level(start, limit) if is_level else self._stayed(start, limit)
        return islice(self._each_once(stayed, departed, is_level=is_level), limit)

    def _stayed(self, start: str, limit: int | None) -> Iterable[Row]:
        low, high = self._bounds
        return self._connection.rows(
            f"SELECT {self._columns} FROM memories m CROSS JOIN versions v WHERE m.store = ? AND m.path >= ?"
            f" AND m.path < ? AND m.created_at <= ? AND {_STAYED} ORDER BY m.path"
            + ("" if limit is None else f" LIMIT {limit:d}"),
            (self._store, max(low, start), high, self._born, self._before),
        )

    def _stayed_in_level(self, start: str, limit: int | None) -> Iterable[Row]:
        condition = f" AND m.created_at <= ? AND EXISTS (SELECT 1 FROM versions v WHERE {_STAYED})"
        only = condition, (self._born, self._before)
        paths = _seek(self._connection, self._store, "m.id, m.path", self._bounds, start=start, limit=limit, only=only)
        return filter(None, (self._version(str(memory), str(path)) for memory, path in paths))

    def _departed(self, store_id: str, start: str, *, is_level: bool) -> Iterator[Row] | None:
        low, high = self._bounds
        found = DEPARTURES.below(self._connection, self._store, store_id, self._before, (low, high))
        if found is None:
            return None
        return self._found(found.from_path, max(low, start), is_level=is_level)

    def _found(self, from_path: Callable[[str], Iterator[Departure]], start: str, *, is_level: bool) -> Iterator[Row]:
        """Yield the versions of memories that have left their path.

        With `is_level`, yield one version for each memory in the directory and one for each subdirectory.
        """
        at: str | None = start
        while at is not None:
            start, at = at, None
            for each in from_path(start):
                row = self._version(each.memory_id, each.path)
                if row is not None:
                    yield row
                    if is_level:
                        at = self._after(each.path)
                        break

    def _version(self, memory_id: str, path: str) -> Row | None:
        """Return the version of a memory in the earlier state, or None if the memory was not at `path` then."""
        found = self._connection.rows(
            f"SELECT {self._columns} FROM versions v WHERE v.store = ? AND v.memory = ? AND v.id < ?"
            " ORDER BY v.id DESC LIMIT 1",
            (self._store, memory_id, self._before),
        )
        is_there = bool(found) and found[0][self._path] == path and found[0][self._operation] != "deleted"
        return found[0] if is_there else None

    def _after(self, path: str) -> str:
        return path_after(directory_of(self._bounds[0][:-1], path) or path)

    def _each_once(self, stayed: Iterable[Row], departed: Iterator[Row], *, is_level: bool) -> Iterator[Row]:
        """Merge the rows by path, without duplicates. A memory that left its path and came back is in both inputs."""
        least = ""
        for row in merge(stayed, departed, key=lambda row: cast("str", row[self._path])):
            path = str(row[self._path])
            if path >= least:
                yield row
                least = self._after(path) if is_level else path + "\0"
