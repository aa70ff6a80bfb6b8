"""Values that describe output for a terminal: tables, aligned columns, diffs and search results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retentive.search.results import Results
    from retentive.values.diff import DiffLine


@dataclass(frozen=True, slots=True)
class Table:
    """Table with column names. `empty` is printed if there are no rows.

    If `folds` is true, long cells continue on the next line. Otherwise they are not folded, so that ids can be copied.
    On a narrow terminal, the columns in `shortens` are shortened, in the order of `shortens`, until the table fits.
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

    `header` has the names of the columns, or is empty if no names are shown. `styles` has a colour for each column.
    `right` has the indexes of the right-aligned columns. `shortens` has the indexes of the columns that are shortened
    on a narrow terminal. They are shortened in the order of `shortens` until the rows fit.
    """

    rows: Iterable[Sequence[str]]
    styles: Sequence[str | None] = ()
    right: Collection[int] = ()
    empty: str = ""
    header: Sequence[str] = ()
    shortens: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Diff:
    """Unified diff. The changed words of a line are marked."""

    lines: Iterable[DiffLine]


@dataclass(frozen=True, slots=True)
class Hits:
    """Search results: paths and their matching lines. The matches in a line are marked."""

    found: Results
