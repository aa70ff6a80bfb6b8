"""Layouts of output for people: tables, aligned columns, diffs and search hits, as values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retentive.search.results import Results
    from retentive.values.diff import DiffLine


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below column names, for a terminal. `empty` is printed if there are no rows.

    If `folds` is true, cells are folded to the width of the terminal. Otherwise they are not, so that ids can be
    copied. On a narrow terminal, the columns in `shortens` are shortened in this order until the table fits.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[str]]
    empty: str = ""
    title: str = ""
    folds: bool = False
    shortens: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows in aligned columns. Cells are never folded, so that ids can be copied.

    `header` has the names of the columns, if they are shown. `styles` has a colour for each column, and `right` has the
    indexes of right-aligned columns. On a narrow terminal, the columns with the indexes in `shortens` are shortened in
    this order until the rows fit.
    """

    rows: Iterable[Sequence[str]]
    styles: Sequence[str | None] = ()
    right: Collection[int] = ()
    empty: str = ""
    header: Sequence[str] = ()
    shortens: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff in which the changed words are marked."""

    lines: Iterable[DiffLine]


@dataclass(frozen=True, slots=True)
class Hits:
    """Search results: paths and their matching lines, in which the matches are marked."""

    found: Results
