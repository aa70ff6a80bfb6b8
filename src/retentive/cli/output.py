"""Command output: `emit` prints a result as JSON, as plain lines in a pipe, or aligned and coloured on a terminal.

Output is UTF-8 in every locale, because memories are UTF-8. A closed pipe ends the command without a message.
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
"""A part of the output on a terminal. In a string, control characters are escaped."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PROGRESS_DELAY_S = 0.5  # a bar for quick work would only flicker


class Command(click.Command):
    """A subcommand that turns a `RetentiveError` into a message and an exit status. Other exceptions are raised.

    `json` is the help text of the option --json, which `emit` reads. If it is empty, the command prints no JSON.
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
        """Write the examples, the options of the command itself, and a line that names the global options."""
        write_options(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RetentiveError as error:
            reply = failure(error)
            emit(reply, error=reply.text, status=status_of(reply.code))


def command(
    name: str | None = None, *, group: click.Group | None = None, json: str = ""
) -> Callable[[Callable[Concatenate[Location, P], None]], click.Command]:
    """Make a function a subcommand. Its first argument is the `Location`. `json` is the same as in `Command`."""
    return lambda function: (group or click).command(name, cls=Command, json=json)(pass_location(function))


class Group(click.Group):
    """A command with subcommands. If none is given, it runs the subcommand `default`, or else prints its help."""

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invoke_without_command, self.no_args_is_help = bool(default), not default
        self.default = default
        add_global_options(self)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        done = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return done
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx) as inner:
            return command.invoke(inner)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands, then the examples and options as for a command."""
        with formatter.section("Commands"):
            helps = {name: each.get_short_help_str(200) for name, each in self.commands.items()}
            if self.default:
                helps[self.default] += "  [default]"
            formatter.write_dl([*helps.items()])
        write_options(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order of their definition."""
        return list(self.commands)


def group(name: str, *, default: str = "") -> Callable[[Callable[[], None]], Group]:
    """Make a function a group of subcommands. `default` names the subcommand that runs if none is given."""
    return click.group(name, cls=Group, default=default)


def as_json() -> bool:
    """True if the current command was asked for JSON."""
    return chosen_format() in {"json", "ndjson"}


def as_object() -> bool:
    """True if the current command was asked for a format for programs."""
    return chosen_format() in {"json", "ndjson", "csv"}


def as_table() -> bool:
    """True if people read the output: on a terminal, unless another format was asked for."""
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
    """Print a result in one of three forms, and exit if `status` is not 0.

    In a format for programs, `value` is printed; `rows` names the field with its records, for ndjson and csv. In a
    pipe, `plain` is printed: a string unchanged, or a line for each row with tabs between the cells. On a terminal,
    `shown` is printed, or `plain` in aligned columns if `shown` is None; with `pages`, in a pager if it is longer than
    the terminal. `notes` and `error` are printed to standard error, except with --json, because `value` contains them.
    """
    if as_json() or (as_object() and not error):
        write_text(_formatted(value, rows))
    else:
        if as_table():
            text = _drawn(shown if shown is not None else [plain if isinstance(plain, str) else _aligned(plain)])
            (_write_pages if pages else write_text)(text)
        elif not as_object():
            write_text(plain if isinstance(plain, str) else "".join("\t".join(row) + "\n" for row in plain))
        if error:
            note(error, colour="red")
        for text in notes:
            note(text)
    if status:
        raise click.exceptions.Exit(status)


def harmless(text: str) -> str:
    r"""Escape control characters, such as `\x1b`, because a model's text must not control the reader's terminal."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def _formatted(value: object, rows: str | None) -> str:
    form, text = chosen_format(), to_json(value)
    if form == "json":
        return f"{text}\n"
    from retentive.cli import formats  # noqa: PLC0415 - rarely needed

    return formats.ndjson(text, rows) if form == "ndjson" else formats.as_csv(text, rows)


def emit_row(cells: Sequence[str], *, widths: Sequence[int] = ()) -> None:
    """Print one row at once, while the work continues: with tabs between cells in a pipe, in columns on a terminal."""
    if as_table():
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        write_line(harmless("  ".join([*padded, *cells[len(padded) :]]).rstrip()))
    else:
        write_line("\t".join(cells))


def emit_reply(reply: Reply, *, notes: Sequence[str] = ()) -> None:
    """Print a reply. An error goes to standard error, but with --json to standard output."""
    if reply.is_error:
        emit(reply, error=reply.text, notes=[*notes, *_location_notes(reply)])
    else:
        emit(reply, plain=f"{reply.text}\n")


def _location_notes(reply: Reply) -> list[str]:
    """A line with the location, for storage errors whose text does not contain it."""
    context = click.get_current_context(silent=True)
    location = None if context is None else context.find_object(Location)
    if location is None or reply.code not in STORAGE_CODES or "\nLocation: " in reply.text:
        return []
    return [f"Location: {location.shown}"]


def end(reply: Reply) -> NoReturn:
    """Print the reply and exit with its status."""
    emit_reply(reply)
    raise click.exceptions.Exit(status_of(reply.code) if reply.is_error else 0)


def failure(error: RetentiveError) -> Reply:
    """The reply for a raised error, with the lines that `naming` added."""
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    return Reply(text if text.startswith("Error:") else f"Error: {text}", is_error=True, code=error.code)


def attributes(value: object, *names: str) -> dict[str, object]:
    """The JSON form of these attributes of a value."""
    return {name: getattr(value, name) for name in names}


def to_json(value: object) -> str:
    """Convert `value` to JSON on one line of ASCII, which is safe in every locale and for every way to split lines."""
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
    """A UTC time in the format of the hosted memory stores."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def counted(number: int, noun: str) -> str:
    """A number and its noun: `1 memory`, `2 memories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def local_time(at: datetime) -> str:
    """A time for people: in their time zone, with its offset from UTC, exact to the minute."""
    return at.astimezone().isoformat(" ", "minutes")


def exact_time(at: datetime) -> str:
    """A time for pipes: in the local time zone, with its offset from UTC, exact to the microsecond."""
    return at.astimezone().isoformat(timespec="microseconds")


def on_terminal() -> bool:
    """True if standard output is a terminal."""
    return _is_terminal(sys.stdout)


def coloured(text: str, colour: str | None) -> str:
    """`text` in a colour, unless NO_COLOR is set. Only for terminals."""
    return text if colour is None or os.environ.get("NO_COLOR") else click.style(text, fg=colour)


def note(text: str, *, colour: str | None = None) -> None:
    """Print a line to standard error; in `colour` on a terminal."""
    click.echo(coloured(harmless(text), colour) if _is_terminal(sys.stderr) else text, err=True)


class Advance(Protocol):
    """Function that reports progress: the units done, their total if it is known, and the name of the current part."""

    def __call__(self, done: int, total: int | None = None, *, part: str = "") -> None:
        """Update the bar."""


@contextmanager
def progress(label: str, *, total: int | None = None) -> Iterator[Advance | None]:
    """A progress bar on a terminal, shown once the work has taken `PROGRESS_DELAY_S`. None if there is no terminal."""
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
    """Print a text in the pager ($PAGER, or less) if it is longer than the terminal."""
    from shutil import get_terminal_size  # noqa: PLC0415 - slow to import

    lines = get_terminal_size((80, 0)).lines  # 0: unknown
    if not lines or text.count("\n") < lines or not _is_terminal(sys.stdin) or os.environ.get("TERM") == "dumb":
        write_text(text)
        return
    os.environ.setdefault("LESS", "FRX")  # as in git: show colours, and do not clear the screen
    click.echo_via_pager(text, color=True)


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and stream.isatty()


def write_line(text: str) -> None:
    """Print a line."""
    write_text(text + "\n")


def write_text(text: str) -> None:
    """Print exactly this text. Lone surrogates are escaped."""
    write(text.encode("utf-8", "backslashreplace"))


def write(data: bytes) -> None:
    """Print exactly these bytes, at once."""
    if sys.stdout is None:  # the caller closed standard output, and wants no output
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
    """Discard buffered output, which Python would otherwise fail to write when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
