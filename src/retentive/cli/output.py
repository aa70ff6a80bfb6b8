"""Output of commands: results as JSON, CSV, lines or tables; errors; progress; and the classes of all commands.

Output is UTF-8 in every locale, because memories are UTF-8. If the reader closes the pipe, the command ends without a
message.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from io import StringIO
from typing import Any, Concatenate, ParamSpec, Protocol

import click

from retentive.cli.exits import BROKEN_PIPE, FAILED, status_of
from retentive.cli.location import Location, pass_location
from retentive.cli.options import add_global_options, choose_format, chosen_format
from retentive.cli.parameters import ARGUMENT_TYPES
from retentive.cli.pieces import Column, Diff, Hits, Piece, Table, coloured, harmless, is_terminal, local_time
from retentive.errors import RetentiveError
from retentive.storage.contract import Actor
from retentive.values.replies import Reply

__all__ = ["Column", "Diff", "Hits", "Piece", "Table", "harmless", "local_time"]
P = ParamSpec("P")
PROGRESS_DELAY_S = 0.5  # progress of quick work would only flicker
_KEYS = re.compile(
    r"\{\s*\"(?:current|keys)\"\s*:.*\}|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}=(?![\w=])|(?<!\w)rtv_[0-9A-Za-z_-]{20,}"
    r"|(?<=password=)[^\s&;'\"]+|(?<=pwd=)[^\s&;'\"]+"
)


class Command(click.Command):
    """Subcommand that prints the message of a `RetentiveError` and exits with its status. Other exceptions are raised.

    `json` is the help text of the option --json. If it is empty, the command has no option --json.
    """

    def __init__(self, *args: Any, json: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if json:
            option = click.Option(["--json"], is_flag=True, expose_value=False, callback=choose_format, help=json)
            self.params.append(option)
        for param in self.params:
            if isinstance(param, click.Argument) and param.name in ARGUMENT_TYPES:
                param.type = ARGUMENT_TYPES[param.name]
        add_global_options(self, without=() if json else ("--json", "--csv", "--format"))

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help. Click would cut it."""
        return super().get_short_help_str(max(limit, 200))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If it raises a `RetentiveError`, print the error and exit with its status."""
        try:
            return super().invoke(ctx)
        except RetentiveError as error:
            reply = failure(error)
            emit(reply, error=reply.text, status=status_of(reply.code))


def command(
    name: str | None = None, *, group: click.Group | None = None, json: str = ""
) -> Callable[[Callable[Concatenate[Location, P], None]], click.Command]:
    """Return a decorator that turns a function into a subcommand.

    The function gets the `Location` as its first argument. `json` has the same meaning as in `Command`.
    """
    return lambda function: (group or click).command(name, cls=Command, json=json)(pass_location(function))


class Group(click.Group):
    """Command with subcommands. Without one of them, the subcommand `default` runs, or the help is shown."""

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invoke_without_command, self.no_args_is_help = bool(default), not default
        self.default = default
        self.epilog = f"Without a command, runs `{default}`." if default else None
        add_global_options(self)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the given subcommand, or the default one."""
        done = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return done
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx) as inner:
            return command.invoke(inner)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of their definition."""
        return list(self.commands)


def group(name: str, *, default: str = "") -> Callable[[Callable[[], None]], Group]:
    """Return a decorator that turns a function into a group. `default` runs if no subcommand is given."""
    return click.group(name, cls=Group, default=default)


def as_object() -> bool:
    """Return whether the current command prints a format for programs: JSON or CSV."""
    return chosen_format() in {"json", "ndjson", "csv"}


def as_table() -> bool:
    """Return whether the output is for people: on a terminal by default, or with --format table."""
    form = chosen_format()
    return form == "table" or (form is None and is_terminal())


def emit(
    value: object,
    *pieces: Piece,
    rows: str | None = None,
    notes: Iterable[str] = (),
    error: str = "",
    status: int = 0,
    pages: bool = False,
) -> None:
    """Print a result, and exit if `status` is not 0.

    In a format for programs, `value` is printed; for ndjson and csv, `rows` names the field of `value` that has the
    records. Otherwise the pieces are printed, and `notes` and `error` go to standard error: with --json they are left
    out, because `value` contains the same facts. With `pages`, a pager shows what is longer than the terminal.
    """
    form = chosen_format()
    if form in {"json", "ndjson"} or (form == "csv" and not error):
        write_text(_formatted(to_json(value), form, rows))
    else:
        if form != "csv":
            text = "".join(map(_drawn if as_table() else _lines, pieces))
            (_write_pages if pages and as_table() else write_text)(text)
        if error:
            note(error, colour="red")
        for text in notes:
            note(text)
    if status:
        raise click.exceptions.Exit(status)


def _lines(piece: Piece) -> str:
    text = piece if isinstance(piece, str) else piece.lines()
    return text if "\n" in text or not text else f"{text}\n"  # the text of a memory is printed as it is


def _drawn(piece: Piece) -> str:
    text = harmless(piece) if isinstance(piece, str) else piece.drawn()
    return text and f"{text.removesuffix(chr(10))}\n"


def _formatted(text: str, form: str | None, rows: str | None) -> str:
    """Return a result, which is JSON, as one line (json), as one line for each record (ndjson), or as CSV."""
    if form == "json":
        return f"{text}\n"
    value = json.loads(text)
    if rows is not None and isinstance(value, dict) and rows in value:
        value = value[rows]
    records = value if isinstance(value, list) else [value]
    if form == "ndjson":
        return "".join(f"{json.dumps(each)}\n" for each in records)
    records = [each if isinstance(each, Mapping) else {"value": each} for each in records]
    names = list(dict.fromkeys(name for each in records for name in each))
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for each in [dict(zip(names, names, strict=True)), *records] if names else ():
        cells = [each.get(name) for name in names]
        writer.writerow(["" if cell is None else cell if isinstance(cell, str) else json.dumps(cell) for cell in cells])
    return file.getvalue()


def without_keys(text: str) -> str:
    """Mask what was passed in the wrong place: encryption keys, API keys of a server, and passwords of a database."""
    return _KEYS.sub("…", text)


def failure(error: RetentiveError) -> Reply:
    """Return the error reply for an exception. It includes the lines that `location.naming` added to the exception."""
    text = without_keys("\n".join([str(error), *getattr(error, "__notes__", [])]))
    return Reply(text if text.startswith("Error:") else f"Error: {text}", is_error=True, code=error.code)


def attributes(value: object, *names: str) -> dict[str, object]:
    """Return a dictionary with the attributes of `value` that have the given names."""
    return {name: getattr(value, name) for name in names}


def to_json(value: object) -> str:
    """Convert a value to one line of JSON in ASCII. Every program can decode such output and split it into lines."""
    return _ENCODER.encode(value)


def _json_form(value: object) -> object:
    match value:
        case datetime():  # as Anthropic's hosted memory stores
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case Actor():
            return str(value)
        case _ if is_dataclass(value):
            return attributes(value, *(field.name for field in fields(value)))
        case Iterator():
            return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(default=_json_form)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural: `1 memory`, `2 memories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeo" else f"{number:,} {noun}s"


def note(text: str, *, colour: str | None = None) -> None:
    """Print a line to standard error. On a terminal, the line has the colour `colour`."""
    click.echo(coloured(harmless(text), colour, stream=sys.stderr), err=True)


class Advance(Protocol):
    """Function that reports progress.

    `done` is the number of finished units. `total` is the number of all units, if this number is known. `part` is the
    name of the current part of the work.
    """

    def __call__(self, done: int, total: int | None = None, *, part: str = "") -> None:
        """Show the progress."""


@contextmanager
def progress(label: str, *, total: int | None = None) -> Iterator[Advance | None]:
    """Context manager that yields a function which shows progress on the last line of a terminal, at most 10 times a
    second and after `PROGRESS_DELAY_S`. If standard output is not a terminal, None is yielded.
    """
    if not is_terminal():
        yield None
        return
    last, known, is_shown = time.monotonic() + PROGRESS_DELAY_S - 0.1, total, False

    def advance(done: int, total: int | None = None, *, part: str = "") -> None:
        nonlocal last, is_shown
        now, of = time.monotonic(), known if total is None else total
        if now - last >= (0.1 if PROGRESS_DELAY_S else 0.0):
            last, is_shown = now, True
            count = f"{done:,}" if of is None else f"{done:,} of {of:,}"
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
