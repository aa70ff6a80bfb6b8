"""Interface of database connections that the shared SQL statements use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Connection(Protocol):
    """Connection to a database. Its methods raise the errors of `retentive.errors`."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement that returns no rows.

        The statement may be queued, and sent later together with the commit or with the next call of `rows`. The later
        call then raises the errors of the statement.
        """

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        """Run a statement once for each item of `values`. As with `run`, a later call may raise the errors."""
        for each in values:
            self.run(sql, each)
