"""Interface of database connections for the shared statements."""

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
        """Run a statement.

        The statement may be sent only with the next `rows` call or the commit, which then raises its errors.
        """

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        """Run a statement once for each item of `values`. As with `run`, errors may be raised later."""
        for each in values:
            self.run(sql, each)
