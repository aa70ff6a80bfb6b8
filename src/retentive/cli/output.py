"""Output of commands. `emit` prints a result as JSON, as plain lines in a pipe, or with colours on a terminal.

Output is UTF-8 in every locale, because memories are UTF-8. If the reader closes the pipe, the command ends without a
message.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeAlias

import click

from retentive.cli.exits import BROKEN_PIPE, FAILED, status_of
from retentive.cli.location import STORAGE_CODES, Location, pass_location
from retentive.cli.options import add_global_options, choose_format, chosen_format, write_options
from retentive.cli.parameters import ARGUMENT_TYPES
from retentive.errors import RetentiveError
from retentive.storage.contract import Actor
from retentive.values.replies import Reply

if TYPE_CHECKING:  # only terminals need them
    from retentive.cli.layouts import Aligned, Diff, Hits, Table
    from retentive.cli.progress import Bar

P = ParamSpec("P")
Piece: TypeAlias = "str | Table | Aligned | Diff | Hits"
"""Part of the output on a terminal: a string, or a value of the module `layouts`. Control characters are escaped."""

_BREAKS = re.compile(r"[\t\r\n]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PROGRESS_DELAY_S = 0.5  # a progress bar appears after this time, because a bar for quick work would only flicker
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
        add_global_options(self, without=() if json else ("--json", "--format"))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the options of the command, and a line with the names of the global options."""
        write_options(ctx, formatter)

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
    """Command with subcommands. If no subcommand is given, the one with the name `default` runs.

    If `default` is empty, the help of the command is printed instead.
    """

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invoke_without_command, self.no_args_is_help = bool(default), not default
        self.default = default
        add_global_options(self)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the given subcommand, or the default one."""
        done = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return done
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx) as inner:
            return command.invoke(inner)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands, the examples, the options, and a line with the names of the global options."""
        with formatter.section("Commands"):
            helps = {name: each.get_short_help_str(200) for name, each in self.commands.items()}
            if self.default:
                helps[self.default] += "  [default]"
            formatter.write_dl([*helps.items()])
        write_options(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of their definition."""
        return list(self.commands)


def group(name: str, *, default: str = "") -> Callable[[Callable[[], None]], Group]:
    """Return a decorator that turns a function into a group of subcommands.

    `default` names the subcommand that runs if no subcommand is given.
    """
    return click.group(name, cls=Group, default=default)


def as_json() -> bool:
    """Return whether the current command prints JSON (--json, or --format json or ndjson)."""
    return chosen_format() in {"json", "ndjson"}


def as_object() -> bool:
    """Return whether the current command prints a format for programs: JSON or CSV."""
    return chosen_format() in {"json", "ndjson", "csv"}


def as_table() -> bool:
    """Return whether the output is for people: on a terminal by default, or with --format table."""
    form = chosen_format()
    return form == "table" or (form is None and on_terminal())


def emit(
    value: object,
    *,
    rows: str | None = None,
    plain: str | Iterable[Sequence[str]] = "",
    shown: Sequence[Piece] | None = None,
    notes: Iterable[str] = (),
    error: str = "",
    status: int = 0,
    pages: bool = False,
) -> None:
    """Print a result, and exit if `status` is not 0.

    - In a format for programs, `value` is printed. For ndjson and csv, `rows` names the field of `value` that has the
      records.
    - In a pipe, `plain` is printed. A string is printed unchanged. Rows are printed one per line, with tabs between the
      cells.
    - On a terminal, `shown` is printed. If it is None, `plain` is printed in aligned columns. If `pages` is true, a
      pager shows output that is longer than the terminal.

    `notes` and `error` are printed to standard error. With --json they are not printed, because `value` contains the
    same facts.
    """
    if as_json() or (as_object() and not error):
        write_text(_formatted(value, rows))
    else:
        if as_table():
            text = _drawn(shown if shown is not None else [plain if isinstance(plain, str) else _aligned(plain)])
            (_write_pages if pages else write_text)(text)
        elif not as_object():
            write_text(plain if isinstance(plain, str) else "".join(f"{_row(cells)}\n" for cells in plain))
        if error:
            note(error, colour="red")
        for text in notes:
            note(text)
    if status:
        raise click.exceptions.Exit(status)


def _row(cells: Sequence[str]) -> str:
    """Join the cells of a row for a pipe. Some programs, and `cat`, pass all of it to a terminal."""
    return harmless("\t".join(_BREAKS.sub(" ", cell) for cell in cells))


def harmless(text: str) -> str:
    r"""Escape control characters as `\x1b`, so that the text of a model cannot control the terminal of the reader."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def _formatted(value: object, rows: str | None) -> str:
    form, text = chosen_format(), to_json(value)
    if form == "json":
        return f"{text}\n"
    from retentive.cli import formats  # noqa: PLC0415 - rarely needed

    return formats.ndjson(text, rows) if form == "ndjson" else formats.as_csv(text, rows)


def emit_row(cells: Sequence[str], *, widths: Sequence[int] = ()) -> None:
    """Print one row immediately, while the command continues to work.

    In a pipe, the cells are separated by tabs. On a terminal, they are padded to `widths`.
    """
    if as_table():
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        write_line(harmless("  ".join([*padded, *cells[len(padded) :]]).rstrip()))
    else:
        write_line(_row(cells))


def emit_reply(reply: Reply, *, notes: Sequence[str] = ()) -> None:
    """Print a reply. An error is printed to standard error; with --json, it is printed to standard output."""
    if reply.is_error:
        emit(reply, error=reply.text, notes=[*notes, *_location_notes(reply)])
    else:
        emit(reply, plain=f"{reply.text}\n")


def _location_notes(reply: Reply) -> list[str]:
    """Return a line with the location if the reply is a storage error whose text has no line for the location."""
    context = click.get_current_context(silent=True)
    location = None if context is None else context.find_object(Location)
    if location is None or reply.code not in STORAGE_CODES or "\nLocation: " in reply.text:
        return []
    return [f"Location: {location.shown}"]


def end(reply: Reply) -> NoReturn:
    """Print the reply and exit with its status."""
    emit_reply(reply)
    raise click.exceptions.Exit(status_of(reply.code) if reply.is_error else 0)


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
        case datetime():
            return timestamp(value)
        case Actor():
            return str(value)
        case _ if is_dataclass(value):
            return attributes(value, *(field.name for field in fields(value)))
        case Iterator():
            return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(default=_json_form)


def timestamp(at: datetime) -> str:
    """Return a UTC time in the format of Anthropic's hosted memory stores."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural: `1 memory`, `2 memories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def local_time(at: datetime) -> str:
    """Return a time for people: in the local time zone with its offset from UTC, exact to the minute."""
    return at.astimezone().isoformat(" ", "minutes")


def exact_time(at: datetime) -> str:
    """Return a time for programs: in the local time zone with its offset from UTC, exact to the microsecond."""
    return at.astimezone().isoformat(timespec="microseconds")


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return _is_terminal(sys.stdout)


def coloured(text: str, colour: str | None) -> str:
    """Return a text with terminal codes for a colour. Returns it unchanged if NO_COLOR is set."""
    return text if colour is None or os.environ.get("NO_COLOR") else click.style(text, fg=colour)


def note(text: str, *, colour: str | None = None) -> None:
    """Print a line to standard error. On a terminal, the line has the colour `colour`."""
    click.echo(coloured(harmless(text), colour if _is_terminal(sys.stderr) else None), err=True)


class Advance(Protocol):
    """Function that reports progress.

    `done` is the number of finished units. `total` is the number of all units, if this number is known. `part` is the
    name of the current part of the work.
    """

    def __call__(self, done: int, total: int | None = None, *, part: str = "") -> None:
        """Update the progress bar."""


@contextmanager
def progress(label: str, *, total: int | None = None) -> Iterator[Advance | None]:
    """Context manager that shows a progress bar while its block runs, and yields the function that updates it.

    The bar appears after `PROGRESS_DELAY_S`. If standard output is not a terminal, there is no bar and None is yielded.
    """
    if not on_terminal():
        yield None
        return
    shown: list[Bar] = []

    def show() -> None:
        from retentive.cli.progress import Bar  # noqa: PLC0415 - imports rich

        shown.append(Bar(label, total))

    def advance(done: int, total: int | None = None, *, part: str = "") -> None:
        for bar in shown:
            bar.advance(done, total, part)

    delay = threading.Timer(PROGRESS_DELAY_S, show)
    (delay.start if PROGRESS_DELAY_S else show)()
    try:
        yield advance
    finally:
        delay.cancel()
        if delay.ident is not None:
            delay.join()
        for bar in shown:
            bar.stop()


def _aligned(rows: Iterable[Sequence[str]]) -> Aligned:
    from retentive.cli.layouts import Aligned  # noqa: PLC0415 - only terminals need it

    return Aligned(rows)


def _drawn(pieces: Iterable[Piece]) -> str:
    drawn = []
    for piece in pieces:
        if isinstance(piece, str):
            drawn.append(harmless(piece))
        else:
            from retentive.cli import terminal  # noqa: PLC0415 - imports rich

            drawn.append(terminal.draw(piece))
    return "".join(f"{text.removesuffix(chr(10))}\n" for text in drawn if text)


def _write_pages(text: str) -> None:
    """Print a text. If it is longer than the terminal, show it in the pager ($PAGER or less)."""
    from shutil import get_terminal_size  # noqa: PLC0415 - slow to import

    lines = get_terminal_size((80, 0)).lines  # 0: unknown
    if not lines or text.count("\n") < lines or not _is_terminal(sys.stdin) or os.environ.get("TERM") == "dumb":
        write_text(text)
        return
    os.environ.setdefault("LESS", "FRX")  # the defaults of git: show colours, and do not clear the screen
    click.echo_via_pager(text, color=True)


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and stream.isatty()


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
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except OSError as error:
        _discard_output()
        click.echo(f"Error: the output could not be written: {error.strerror}", err=True)
        raise click.exceptions.Exit(FAILED) from None


def _discard_output() -> None:
    """Redirect standard output to the null device, so that Python can flush its buffer at the end without an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
