"""Output of commands: results as JSON, CSV, lines or tables; errors; progress; and questions.

Output is UTF-8 in every locale, because memories are UTF-8. If the reader closes the pipe, the command ends without a
message. Texts come from models, so control characters are escaped wherever a terminal could interpret them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from io import StringIO
from typing import Any, TypeAlias
from unicodedata import combining, east_asian_width

import click

from retentive.cli.exits import BROKEN_PIPE, FAILED
from retentive.search.results import Span
from retentive.storage.contract import Actor
from retentive.values.diff import NO_NEWLINE, DiffLine, as_text
from retentive.values.listing import counted, human_size

PROGRESS_DELAY_S = 0.5  # progress of quick work would only flicker
FORMAT = "retentive.cli.format"  # key of the chosen format in `meta` of the click context
_PERMANENT = "Nothing was removed. Removal is permanent; without a terminal to confirm it, pass --yes."
_BREAKS = re.compile(r"[\t\r\n]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOURS = dict.fromkeys(("size", "memories", "actor"), "green") | dict.fromkeys(("change", "kinds"), "yellow")
_COLOURS |= dict.fromkeys(("changed", "created", "time"), "blue")
_CELLS = {"problem": "red", "note": "yellow", "repaired": "green", "ok": "green"}
_DIFF = {"header": "yellow", "hunk": "cyan", "removed": "red", "added": "green"}
_LEAST = 12  # minimum width of a shortened cell, in columns
Column: TypeAlias = str | Callable[[Any], object]
__all__ = ["counted"]


class Drawn(str):
    """Text that is printed as it is: a table, a diff or search results, with escaped contents and with colours."""

    __slots__ = ()


def chosen_format() -> str | None:
    """Return the format that the user chose for the current command.

    Return None if the user chose no format. The command then prints plain lines in a pipe, and tables on a terminal.
    """
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(FORMAT)


def as_object() -> bool:
    """Return whether the current command prints a format for programs: JSON or CSV."""
    return chosen_format() in {"json", "csv"}


def as_table() -> bool:
    """Return whether the output is for people: on a terminal by default, or with --format table."""
    form = chosen_format()
    return form == "table" or (form is None and is_terminal())


def emit(
    value: object,
    *texts: str,
    rows: str | None = None,
    notes: Iterable[str] = (),
    error: str = "",
    status: int = 0,
    pages: bool = False,
) -> None:
    """Print a result, and exit if `status` is not 0.

    In a format for programs, `value` is printed; for CSV, `rows` names the field of `value` that has the records.
    Otherwise the texts are printed, and `notes` and `error` go to standard error: with --json they are left out,
    because `value` contains the same facts. With `pages`, a pager shows what is longer than the terminal.
    """
    form = chosen_format()
    if form == "json":
        write_line(to_json(value))
    else:
        if form == "csv":
            write_text("" if error else _csv(value, rows))
        elif as_table():
            text = "".join(
                each if isinstance(each, Drawn) or not each else f"{harmless(each).removesuffix(chr(10))}\n"
                for each in texts
            )
            (_write_pages if pages else write_text)(text)
        else:  # the text of a memory is printed as it is
            write_text("".join(each if "\n" in each or not each else f"{each}\n" for each in texts))
        for text in [*([coloured(harmless(error), "red", stream=sys.stderr)] if error else []), *map(harmless, notes)]:
            click.echo(text, err=True)
    if status:
        raise click.exceptions.Exit(status)


def _csv(value: object, rows: str | None) -> str:
    """Return a result as CSV: a header, and a line for each record. Cells that are not strings are JSON."""
    value = _plain(value)
    value = value[rows] if rows is not None and isinstance(value, dict) and rows in value else value
    listed = value if isinstance(value, list) else [value]
    records = [each if isinstance(each, dict) else {"value": each} for each in listed]
    names = list(dict.fromkeys(name for each in records for name in each))
    writer = csv.writer(file := StringIO(), lineterminator="\n")
    for each in [dict(zip(names, names, strict=True)), *records] if names else ():
        cells = [each.get(name) for name in names]
        writer.writerow(["" if cell is None else cell if isinstance(cell, str) else json.dumps(cell) for cell in cells])
    return file.getvalue()


def to_json(value: object) -> str:
    """Convert a value to one line of JSON in ASCII. Every program can decode such output and split it into lines."""
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case str() | int() | None:
            return value
        case datetime():  # as Anthropic's hosted memory stores
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
        case Actor():
            return str(value)
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return _plain(value._asdict())
        case _ if is_dataclass(value):
            return _plain(attributes(value))
        case list() | tuple() | Iterator():
            return list(map(_plain, value))
    return value


def attributes(value: Any, *names: str) -> dict[str, Any]:
    """Return a dictionary with the attributes of `value` that have the given names. The default is all its fields."""
    return {name: getattr(value, name) for name in names or [each.name for each in fields(value)]}


def note(text: str) -> None:
    """Print a line to standard error."""
    click.echo(harmless(text), err=True)


def confirm(question: str, *, yes: bool, done: str = "removed", otherwise: str = _PERMANENT) -> None:
    """Ask the user a question, unless the option --yes was given. Returns only if the user agrees.

    `done` says what is not done otherwise. Without a terminal, raises `UsageError` with the text `otherwise`.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(otherwise)
    if not click.confirm(harmless(question), err=True):
        note(f"Nothing was {done}.")
        raise click.exceptions.Exit(FAILED)


# -- tables, diffs and search results ------------------------------------------------------------------------------


def table(
    rows: Iterable[Any],
    columns: Mapping[str, Column] | Sequence[str],
    empty: str = "",
    *,
    title: str = "",
    shortens: Sequence[str] = (),
    folds: bool = False,
    header: bool = True,
) -> Drawn:
    """Return rows as a table for a person, or as lines for a pipe.

    A column is the name of a field of the rows, or a function of a row. If `columns` has only names, the rows are
    mappings with these names, or sequences of cells. In a pipe, each row is a line of exact values, separated by tabs,
    and a title becomes the first cell of each row. A person gets aligned columns, sizes with units and local times.
    `empty` is printed if there are no rows. On a narrow terminal, the columns in `shortens` are shortened in their
    middle, in this order, until the rows fit; with `folds`, the last column continues on the next lines.
    """
    values = [_cells(row, columns) for row in rows]
    if not as_table():
        head = [title] if title else []
        return Drawn("".join(f"{line([*head, *map(exact, cells)])}\n" for cells in values))
    if not values:
        return Drawn(f"{empty}\n" if empty else "")
    names = list(columns)
    texts = [[harmless(friendly(*pair)) for pair in zip(cells, names, strict=True)] for cells in values]
    texts = [names, *texts] if header else texts
    widths = [max(map(cell_width, column)) for column in zip(*texts, strict=True)]
    if is_terminal():
        excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        least = {len(names) - 1: 2 * _LEAST} if folds else {}
        for number in [*least, *map(names.index, shortens)]:
            cut = max(0, min(excess, widths[number] - least.get(number, _LEAST)))
            widths[number], excess = widths[number] - cut, excess - cut
    right = [isinstance(value, int) and not isinstance(value, bool) for value in values[0]]
    lines = [title.upper()] if title else []
    for row_number, row in enumerate(texts):
        parts = (textwrap.wrap(row[-1], widths[-1]) if folds else []) or [row[-1]]
        for number, part in enumerate(parts):
            drawn = []
            for cell, width, name, is_right in zip(
                [*(row[:-1] if number == 0 else [""] * (len(row) - 1)), part], widths, names, right, strict=True
            ):
                shown = _shortened(cell, width)
                gap = " " * (width - cell_width(shown))
                colour = "yellow" if header and row_number == 0 else _CELLS.get(cell) or _COLOURS.get(name)
                drawn.append(gap + coloured(shown, colour) if is_right else coloured(shown, colour) + gap)
            lines.append("  ".join(drawn).rstrip())
    return Drawn("".join(f"{each}\n" for each in lines))


def _cells(row: Any, columns: Mapping[str, Column] | Sequence[str]) -> list[object]:
    if not isinstance(columns, Mapping) and isinstance(row, Mapping):
        return [row[name] for name in columns]
    if not isinstance(columns, Mapping):
        return [*row, *([""] * (len(columns) - len(row)))] if as_table() else list(row)
    return [
        column(row) if callable(column) else row[column] if isinstance(row, Mapping) else getattr(row, column)
        for column in columns.values()
    ]


def diff(rows: Sequence[DiffLine]) -> Drawn:
    """Return a unified diff. For a person, the changed words of a line are marked."""
    if not as_table():
        return Drawn(as_text(rows))
    lines = []
    for row in rows:
        colour, sign = _DIFF.get(row.kind), row.row[: len(row.row) - len(row.text)]
        lines.append(coloured(sign, colour) + marked(row.text, row.marks, colour, colour))
        lines += [] if row.newline else [NO_NEWLINE]
    return Drawn("".join(f"{each}\n" for each in lines))


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
    if isinstance(value, int) and not isinstance(value, bool):
        return human_size(value) if column == "size" else f"{value:,}"
    return local_time(value) if isinstance(value, datetime) else exact(value)


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
    if text.isascii():  # half a second less for a table of 10,000 rows
        return len(text)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in {"W", "F"} else 1 for each in text)


def _shortened(cell: str, width: int) -> str:
    """Replace the middle of a cell with an ellipsis if it is wider than `width` columns."""
    shown, kept = cell, min(len(cell), width)
    while cell_width(shown) > width and kept:
        kept -= 1
        shown = f"{cell[: kept - kept // 2]}…{cell[len(cell) - kept // 2 :]}"
    return shown


# -- writing -------------------------------------------------------------------------------------------------------


@contextmanager
def progress(label: str) -> Iterator[Callable[..., None] | None]:
    """Context manager that yields a function which shows progress on the last line of a terminal, at most 10 times a
    second and after `PROGRESS_DELAY_S`. If standard output is not a terminal, None is yielded.

    Arguments of the function are the number of finished units, the number of all units if it is known, and `part`, the
    name of the current part of the work.
    """
    if not is_terminal():
        yield None
        return
    due, is_shown = time.monotonic() + PROGRESS_DELAY_S, False

    def advance(done: int, total: int | None = None, *, part: str = "") -> None:
        nonlocal due, is_shown
        if time.monotonic() >= due:
            due, is_shown = time.monotonic() + min(0.1, PROGRESS_DELAY_S), True
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            text = harmless(f"{label} {part}: {count}" if part else f"{label}: {count}")
            click.echo(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", nl=False, err=True)

    try:
        yield advance
    finally:
        if is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _write_pages(text: str) -> None:
    """Print a text. If it is longer than the terminal, show it in the pager ($PAGER or less)."""
    lines = shutil.get_terminal_size((80, 0)).lines  # 0: unknown
    is_asked = sys.stdin is not None and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"
    if not lines or text.count("\n") < lines or not is_asked:
        write_text(text)
        return
    os.environ.setdefault("LESS", "FRX")  # the defaults of git: show colours, and do not clear the screen
    click.echo_via_pager(text, color=True)


def write_line(text: str) -> None:
    """Print a line."""
    write_text(text + "\n")


def write_text(text: str) -> None:
    """Print a text, without adding a newline. Lone surrogates are escaped."""
    write(text.encode("utf-8", "backslashreplace"))


def write(data: bytes) -> None:
    """Write bytes to standard output and flush it. If the reader closed the pipe, exit without a message."""
    if sys.stdout is None:  # the process was started with standard output closed
        return
    try:
        rest = memoryview(data)
        while rest:  # with PYTHONUNBUFFERED, a write may accept only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)  # where Python can flush its buffer at the end without an error
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        click.echo(f"Error: the output could not be written: {error.strerror}", err=True)
        raise click.exceptions.Exit(FAILED) from None
