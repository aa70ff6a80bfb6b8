"""Parts of the output: tables, diffs and search results. Each has lines for a pipe, and a form for people.

Texts come from models, so control characters are escaped wherever a terminal could interpret them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, TypeAlias
from unicodedata import combining, east_asian_width

import click

from retentive.search.results import Results, Span, age
from retentive.values.diff import NO_NEWLINE, DiffLine, as_text
from retentive.values.listing import human_size

_BREAKS = re.compile(r"[\t\r\n]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOURS = {"size": "green", "memories": "green", "actor": "green", "change": "yellow", "kinds": "yellow"}
_COLOURS |= {"changed": "blue", "created": "blue", "time": "blue"}
_CELLS = {"problem": "red", "note": "yellow", "repaired": "green", "ok": "green"}
_DIFF = {"header": "yellow", "hunk": "cyan", "removed": "red", "added": "green"}
_LEAST = 12  # minimum width of a shortened cell, in columns
Column: TypeAlias = str | Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with named columns. A column is the name of a field of the rows, or a function of a row.

    If `columns` has only names, the rows are sequences of cells. In a pipe, each row is a line of exact values,
    separated by tabs. A person gets aligned columns, sizes with units and local times. `empty` is printed if there are
    no rows. On a narrow terminal, the columns in `shortens` are shortened in their middle, in this order, until the
    rows fit; with `folds`, the last column continues on the next lines.
    """

    rows: Iterable[Any]
    columns: Mapping[str, Column] | Sequence[str]
    empty: str = ""
    title: str = ""
    shortens: Sequence[str] = ()
    folds: bool = False
    header: bool = True

    def lines(self) -> str:
        """Return the rows for a pipe. A title becomes the first cell of each row."""
        head = [self.title] if self.title else []
        return "".join(f"{line([*head, *map(exact, cells)])}\n" for cells in self._cells())

    def drawn(self) -> str:
        """Return the rows for a person, below the names of their columns."""
        names = list(self.columns)
        values = [[*row, *([""] * (len(names) - len(row)))] for row in self._cells()]
        if not values:
            return self.empty
        rows = [[harmless(friendly(value, name)) for value, name in zip(row, names, strict=True)] for row in values]
        rows = [names, *rows] if self.header else rows
        order = [names.index(name) for name in self.shortens]
        if self.folds and is_terminal():
            cut = fitted([row[:-1] for row in rows], order, shutil.get_terminal_size().columns - _LEAST - 2)
            rows = [[*cells, row[-1]] for cells, row in zip(cut, rows, strict=True)]
        else:
            rows = fitted(rows, order)
        widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
        right = [isinstance(value, int) and not isinstance(value, bool) for value in values[0]]
        lines = [self.title.upper()] if self.title else []
        for number, row in enumerate(rows):
            cells = self._folded(row, widths)
            is_header = self.header and number == 0
            for part in cells:
                padded = []
                for cell, width, name, is_right in zip(part, widths, names, right, strict=True):
                    colour = "yellow" if is_header else _CELLS.get(cell) or _COLOURS.get(name)
                    gap, text = " " * (width - cell_width(cell)), coloured(cell, colour)
                    padded.append(gap + text if is_right else text + gap)
                lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    def _cells(self) -> Iterator[list[object]]:
        for row in self.rows:
            if not isinstance(self.columns, Mapping):
                yield list(row)
                continue
            yield [
                column(row) if callable(column) else row[column] if isinstance(row, Mapping) else getattr(row, column)
                for column in self.columns.values()
            ]

    def _folded(self, row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
        """Yield a row as one or more lines: the last cell is wrapped to the rest of the terminal."""
        room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * len(widths)
        parts = textwrap.wrap(row[-1], room) if self.folds and is_terminal() and room >= 2 * _LEAST else []
        yield [*row[:-1], *(parts[:1] or row[-1:])]
        for part in parts[1:]:
            yield [*([""] * (len(row) - 1)), part]


@dataclass(frozen=True, slots=True)
class Diff:
    """Unified diff. For a person, the changed words of a line are marked."""

    rows: Sequence[DiffLine]

    def lines(self) -> str:
        """Return the diff as text."""
        return as_text(self.rows)

    def drawn(self) -> str:
        """Return the diff with colours."""
        lines = []
        for row in self.rows:
            colour, sign = _DIFF.get(row.kind), row.row[: len(row.row) - len(row.text)]
            lines.append(coloured(sign, colour) + marked(row.text, row.marks, colour, colour))
            lines += [] if row.newline else [NO_NEWLINE]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Hits:
    """Search results. In a pipe: path, line number and line, separated by tabs."""

    found: Results

    def lines(self) -> str:
        """Return a line for each matching line of a memory, and one for a memory of which only the path matches."""
        rows = []
        for hit in self.found.hits:
            rows += [(hit.path, str(each.line), each.text) for each in hit.snippets] or [(hit.path, "", "")]
        return "".join(f"{line(row)}\n" for row in rows)

    def drawn(self) -> str:
        """Return each path with its matching lines below it. Matches are marked."""
        lines, now = [], datetime.now(UTC)
        for hit in self.found.hits:
            about = [f"{hit.score:.2f}"] if hit.score else []
            about += [age(hit.updated_at, now), *([str(hit.actor)] if hit.actor else [])]
            lines.append(f"{marked(hit.path, hit.path_spans, 'cyan')}  {coloured(', '.join(about), 'bright_black')}")
            above: tuple[str, ...] = ()
            for snippet in hit.snippets:
                if snippet.headings and snippet.headings != above:
                    lines.append(coloured(" " * 8 + harmless(" > ".join(snippet.headings)), "bright_black"))
                above = snippet.headings
                lines.append(f"{coloured(f'{snippet.line:6}', 'green')}  {marked(snippet.text, snippet.spans)}")
            if hit.lines > len(hit.snippets):
                lines.append(coloured(f"{hit.lines - len(hit.snippets)} more lines".rjust(8), "bright_black"))
        return "\n".join(lines)


Piece: TypeAlias = str | Table | Diff | Hits


def exact(value: object) -> str:
    """Return the cell of a value for a program."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone().isoformat(timespec="microseconds")
        case list() | tuple():
            return ",".join(map(str, value))
    return str(value)


def friendly(value: object, column: str = "") -> str:
    """Return the cell of a value for a person: sizes with units, and times exact to the minute."""
    match value:
        case bool():
            return exact(value)
        case int():
            return human_size(value) if column == "size" else f"{value:,}"
        case datetime():
            return local_time(value)
    return exact(value)


def local_time(at: datetime) -> str:
    """Return a time for people: in the local time zone with its offset from UTC, exact to the minute."""
    return at.astimezone().isoformat(" ", "minutes")


def line(cells: Iterable[str]) -> str:
    """Join the cells of a row for a pipe. Some programs, and `cat`, pass all of it to a terminal."""
    return harmless("\t".join(_BREAKS.sub(" ", cell) for cell in cells))


def harmless(text: str) -> str:
    r"""Escape control characters as `\x1b`, so that the text of a model cannot control the terminal of the reader."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def coloured(text: str, colour: str | None, background: str | None = None, *, stream: Any = None) -> str:
    """Return a text with terminal codes. Returns it unchanged in a pipe, and if NO_COLOR is set."""
    stream = stream or sys.stdout
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not (text and (colour or background)) or is_plain or stream is None or not stream.isatty():
        return text
    return click.style(text, fg=colour, bg=background)


def marked(text: str, marks: Sequence[Span], colour: str | None = None, background: str | None = "yellow") -> str:
    """Return a text with marked spans. The parts are escaped one by one, because escaping moves the positions."""
    parts, at = [], 0
    for start, end in marks:
        parts += [coloured(harmless(text[at:start]), colour), coloured(harmless(text[start:end]), "black", background)]
        at = end
    return "".join([*parts, coloured(harmless(text[at:]), colour)])


def cell_width(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    return 0 if combining(character) else 2 if east_asian_width(character) in {"W", "F"} else 1


def fitted(rows: list[list[str]], order: Sequence[int], room: int = 0) -> list[list[str]]:
    """Shorten columns until the rows fit `room`, or the terminal. `order` has the indexes of the columns to shorten.

    If standard output is not a terminal, the rows are returned unchanged.
    """
    if not order or not is_terminal():
        return rows
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - (room or shutil.get_terminal_size().columns)
    for number in order:
        least = _LEAST if room or number != order[-1] else 2 * _LEAST  # the last column in `order` matters most
        if excess > 0 and widths[number] > least:
            width = max(least, widths[number] - excess)
            excess -= widths[number] - width
            rows = [[*row[:number], _shortened(row[number], width), *row[number + 1 :]] for row in rows]
    return rows


def _shortened(cell: str, width: int) -> str:
    """Replace the middle of a cell with an ellipsis. Of a rename, `old -> new`, each path is shortened."""
    if cell_width(cell) <= width:
        return cell
    old, arrow, new = cell.partition(" -> ")
    if arrow and width >= _LEAST:
        room = width - len(arrow)
        left = min(cell_width(old), max(room // 2, room - cell_width(new)))
        return f"{_shortened(old, left)}{arrow}{_shortened(new, room - left)}"
    end = _beginning(cell[::-1], (width - 1) // 2)[::-1]
    return f"{_beginning(cell, width - 1 - cell_width(end))}…{end}"


def _beginning(text: str, width: int) -> str:
    widths = accumulate(map(_width, text))
    return "".join(character for character, at in zip(text, widths, strict=True) if at <= width)
