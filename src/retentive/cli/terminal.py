"""Output for terminals: tables, aligned columns, diffs and search results, drawn with the package rich.

This module is imported only when standard output is a terminal. Control characters in texts are escaped, because models
write these texts.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from retentive.cli.layouts import Aligned, Diff, Hits, Table
from retentive.cli.output import harmless
from retentive.search.results import Results, Span, age
from retentive.values.diff import NO_NEWLINE, DiffLine

# All styles are colours. With NO_COLOR, the output is therefore plain text.
_COLUMN_STYLES = {"size": "green", "memories": "green", "changed": "blue", "created": "blue"}
_CELL_STYLES = {"problem": "red", "note": "yellow", "repaired": "green", "ok": "green"}
_RIGHT = {"size", "memories"}
_DIFF = {"header": "yellow", "hunk": "cyan", "removed": "red", "added": "green"}
_MARKED = {"removed": "black on red", "added": "black on green"}
_FOUND = "black on yellow"
_LEAST = 12  # minimum width of a shortened cell, in columns
_UNFOLDED = 10_000  # width of the console in columns, so large that rich does not fold a row


def draw(piece: Table | Aligned | Diff | Hits) -> str:
    """Return a piece of output as text with terminal codes, without a newline at the end."""
    match piece:
        case Table():
            return _table(piece)
        case Aligned():
            return _aligned(piece)
        case Diff(rows):
            return _drawn(_diff_lines(rows))
        case Hits(found):
            return _drawn(_hit_lines(found))


def _table(piece: Table) -> str:
    table = RichTable(box=None, pad_edge=False, header_style="yellow")
    for name in piece.columns:
        justify: JustifyMethod = "right" if name in _RIGHT else "left"
        table.add_column(name, style=_COLUMN_STYLES.get(name), justify=justify, overflow="fold")
    rows = fitted([list(piece.columns), *map(list, piece.rows)], [piece.columns.index(each) for each in piece.shortens])
    for row in rows[1:]:
        table.add_row(*[_cell(cell, name) for cell, name in zip(row, piece.columns, strict=True)])
    if not table.rows:
        return piece.empty
    return _drawn([*([Text(piece.title)] if piece.title else []), table], width=None if piece.folds else _UNFOLDED)


def _cell(cell: str, column: str) -> Text:
    """Convert a cell to `Text`. In a plain string, rich would interpret `[red]` as markup."""
    return Text(harmless(cell), _CELL_STYLES.get(cell, "") if column == "severity" else "")


def _aligned(piece: Aligned) -> str:
    shown = [[harmless(cell) for cell in row] for row in piece.rows]
    if not shown:
        return piece.empty
    if piece.header:
        shown.insert(0, list(piece.header))
    shown = fitted(shown, piece.shortens)
    styles = [*piece.styles, *[None] * (len(shown[0]) - len(piece.styles))]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    lines: list[Text] = []
    for row in shown:
        is_header, cells = bool(piece.header) and not lines, []
        for number, (cell, style, width) in enumerate(zip(row, styles, widths, strict=True)):
            parts = [Text(cell, "yellow" if is_header else style or ""), Text(" " * (width - cell_len(cell)))]
            cells.append(Text.assemble(*(reversed(parts) if number in piece.right else parts)))
        line = Text("  ").join(cells)
        line.rstrip()
        lines.append(line)
    return _drawn(lines)


def fitted(rows: list[list[str]], order: Sequence[int]) -> list[list[str]]:
    """Shorten columns until the rows fit the terminal. `order` has the indexes of the columns that may be shortened.

    If standard output is not a terminal, the rows are returned unchanged.
    """
    if not order or sys.stdout is None or not sys.stdout.isatty():
        return rows
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
    for number in order:
        least = _LEAST if number != order[-1] else 2 * _LEAST  # the last column in `order` is the most important
        if excess > 0 and widths[number] > least:
            width = max(least, widths[number] - excess)
            excess -= widths[number] - width
            rows = [[*row[:number], _shortened(row[number], width), *row[number + 1 :]] for row in rows]
    return rows


def _shortened(cell: str, width: int) -> str:
    """Replace the middle of a cell with an ellipsis, so that the cell is at most `width` columns wide.

    If the cell is a rename, `old -> new`, each of the two paths is shortened.
    """
    if cell_len(cell) <= width:
        return cell
    old, arrow, new = cell.partition(" -> ")
    if arrow and width >= _LEAST:
        room = width - len(arrow)
        left = min(cell_len(old), max(room // 2, room - cell_len(new)))
        return f"{_shortened(old, left)}{arrow}{_shortened(new, room - left)}"
    end = _beginning(cell[::-1], (width - 1) // 2)[::-1]
    return f"{_beginning(cell, width - 1 - cell_len(end))}…{end}"


def _beginning(text: str, width: int) -> str:
    widths = accumulate(map(cell_len, text))
    return "".join(character for character, at in zip(text, widths, strict=True) if at <= width)


def _diff_lines(rows: Iterable[DiffLine]) -> Iterable[Text]:
    for row in rows:
        style, sign = _DIFF.get(row.kind), row.row[: len(row.row) - len(row.text)]
        line = Text(sign, style or "")
        _append(line, row.text, row.marks, style, _MARKED.get(row.kind))
        yield line
        if not row.newline:
            yield Text(NO_NEWLINE)


def _hit_lines(found: Results) -> Iterable[Text]:
    now = datetime.now(UTC)
    for hit in found.hits:
        path = Text()
        _append(path, hit.path, hit.path_spans, "cyan", _FOUND)
        by = f", {hit.actor}" if hit.actor else ""
        score = f"{hit.score:.2f}, " if hit.score else ""
        path.append(harmless(f"  {score}{age(hit.updated_at, now)}{by}"), "bright_black")
        yield path
        above: tuple[str, ...] = ()
        for snippet in hit.snippets:
            if snippet.headings and snippet.headings != above:
                yield Text(harmless(" " * 8 + " > ".join(snippet.headings)), "bright_black")
            above = snippet.headings
            line = Text()
            line.append(f"{snippet.line:6}", "green")
            line.append("  ")
            _append(line, snippet.text, snippet.spans, None, _FOUND)
            yield line
        if hit.lines > len(hit.snippets):
            yield Text(f"{hit.lines - len(hit.snippets)} more lines".rjust(6 + 2), "bright_black")


def _append(line: Text, text: str, marks: Sequence[Span], style: str | None, marked: str | None) -> None:
    """Append `text` to `line`, with another style for the spans in `marks`.

    The parts are escaped separately, because escaping changes the positions of characters.
    """
    at = 0
    for start, end in marks:
        line.append(harmless(text[at:start]), style)
        line.append(harmless(text[start:end]), marked)
        at = end
    line.append(harmless(text[at:]), style)


def _drawn(items: Iterable[RenderableType], *, width: int | None = _UNFOLDED) -> str:
    console = Console(highlight=False, width=width)
    with console.capture() as capture:
        for item in items:
            console.print(item, soft_wrap=isinstance(item, Text))
    return capture.get().removesuffix("\n")
