"""Lines for people, aligned and in colours, by rich; imported only when standard output is a terminal.

Lines are never folded, so that ids can be copied. What models wrote is shown harmlessly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from retentive.cli.output import harmless
from retentive.search.query import Results, Span
from retentive.values.diff import NO_NEWLINE, DiffLine

_DIFF = {"header": "yellow", "hunk": "cyan", "removed": "red", "added": "green"}
_MARKED = {"removed": "black on red", "added": "black on green"}
_FOUND = "black on yellow"
"""Only colours, so that nothing is left of them under NO_COLOR."""


def aligned(rows: Sequence[Sequence[str]], styles: Sequence[str | None], *, right: Collection[int] = ()) -> str:
    """Rows with their columns below each other; `right` are the numbers of those that end below each other."""
    shown = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        line = Text()
        for number, (cell, style, width) in enumerate(zip(row, styles, widths, strict=True)):
            gap = " " * (width - cell_len(cell))
            last = number == len(row) - 1
            line.append(gap if number in right else "")
            line.append(cell, style)
            line.append("" if last else "  " if number in right else gap + "  ")
        lines.append(line)
    return _drawn(lines)


def diff(rows: Iterable[DiffLine]) -> str:
    """A unified diff, with the words that differ marked."""
    lines = []
    for row in rows:
        style, sign = _DIFF.get(row.kind), row.row[: len(row.row) - len(row.text)]
        line = Text(sign, style or "")
        _append(line, row.text, row.marks, style, _MARKED.get(row.kind))
        lines.append(line)
        if not row.newline:
            lines.append(Text(NO_NEWLINE))
    return _drawn(lines)


def hits(found: Results) -> str:
    """What a search found: a path and below it its lines, with what matches marked."""
    lines: list[Text] = []
    for hit in found.hits:
        path = Text()
        _append(path, hit.path, hit.path_spans, "cyan", _FOUND)
        lines.append(path)
        for snippet in hit.snippets:
            line = Text()
            line.append(f"{snippet.line:6}", "green")
            line.append("  ")
            _append(line, snippet.text, snippet.spans, None, _FOUND)
            lines.append(line)
        if hit.lines > len(hit.snippets):
            lines.append(Text(f"{hit.lines - len(hit.snippets)} more lines".rjust(6 + 2), "bright_black"))
    return _drawn(lines)


def _append(line: Text, text: str, marks: Sequence[Span], style: str | None, marked: str | None) -> None:
    """The text, with spans of it in another style; made harmless in parts, which makes it longer."""
    at = 0
    for start, end in marks:
        line.append(harmless(text[at:start]), style)
        line.append(harmless(text[start:end]), marked)
        at = end
    line.append(harmless(text[at:]), style)


def _drawn(lines: Iterable[Text]) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=True)
    return capture.get().removesuffix("\n")
