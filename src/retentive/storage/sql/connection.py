"""The interface of connections, so that one set of statements runs on every database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Connection(Protocol):
    """A connection to a database. It raises the errors of `retentive.errors`."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement and fetch all its rows."""

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement; it may be sent, and its error raised, only with the next `rows` or the commit."""

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        """As `run`, once for each of `values`."""
