"""Interface of database connections for the shared statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Connection(Protocol):
    """Connection to a database. It raises the errors of `retentive.errors`."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement and fetch all its rows."""

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement. It may be sent, and its error raised, as late as the next `rows` or the commit."""

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        """Run a statement once for each item of `values`, like `run`."""
        for each in values:
            self.run(sql, each)
