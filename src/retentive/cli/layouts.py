"""Layouts of output for people: tables, aligned columns, diffs and search hits, as values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from retentive.search.query import Results
from retentive.values.diff import DiffLine

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names, on a terminal. `empty` is printed if there are no rows.

    `folds`: cells are folded to the width of the terminal. Other tables are not, so that ids can be copied.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[str]]
    empty: str = ""
    title: str = ""
    folds: bool = False


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows in aligned columns without names, never folded, so that ids can be copied.

    `styles` has a colour for each column, `right` the indexes of right-aligned columns.
    """

    rows: Iterable[Sequence[str]]
    styles: Sequence[str | None] = ()
    right: Collection[int] = ()
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff with the changed words marked."""

    lines: Iterable[DiffLine]


@dataclass(frozen=True, slots=True)
class Hits:
    """Search results: a path and its matching lines, with the matches marked."""

    found: Results


def harmless(text: str) -> str:
    r"""`text` with control characters shown as `\x1b`: text by a model must not steer the terminal of its reader."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
