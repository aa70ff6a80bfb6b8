"""What a command prints, and how it ends: replies, JSON, and bytes, the same way everywhere.

Output is UTF-8 whatever the locale says, as memories are. A reader that goes away ends the command quietly.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any, NoReturn, Protocol, TypeVar

import click

from retentive.cli.exits import BROKEN_PIPE, FAILED, status_of
from retentive.errors import RetentiveError
from retentive.values.replies import Reply

F = TypeVar("F", bound=Callable[..., object])

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Command(click.Command):
    """A subcommand; what retentive raises on purpose ends it with a sentence and a status, and bugs rise."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """The same also where it runs by itself, without the group."""
        return ["-h", "--help"]

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except RetentiveError as error:
            end(failure(error), as_json=bool(ctx.params.get("as_json")))


def json_option(command: F) -> F:
    """Adds `--json` to a command whose output is a reply."""
    text = 'Print one JSON object: {"text", "is_error", "code"}.'
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def failure(error: RetentiveError) -> Reply:
    """An error that was raised, as the reply it would be."""
    text = str(error)
    return Reply(text if text.startswith("Error:") else f"Error: {text}", is_error=True, code=error.code)


def end(reply: Reply, *, as_json: bool) -> NoReturn:
    """Print the reply and end with its status."""
    say(reply, as_json=as_json)
    raise click.exceptions.Exit(status_of(reply.code) if reply.is_error else 0)


def say(reply: Reply, *, as_json: bool) -> None:
    """Print the reply: an error to stderr; as JSON all to stdout."""
    if as_json:
        write_line(to_json(as_object(reply)))
    elif reply.is_error:
        text = harmless(reply.text) if _is_terminal(sys.stderr) else reply.text
        click.echo(text, err=True)
    else:
        write_line(harmless(reply.text) if on_terminal() else reply.text)


def as_object(reply: Reply) -> dict[str, object]:
    """The reply as it stands in JSON."""
    return {"text": reply.text, "is_error": reply.is_error, "code": reply.code}


def to_json(value: object) -> str:
    """`value` on one line of ASCII, which no locale and no way of splitting lines can damage."""
    return json.dumps(value)


def timestamp(at: datetime) -> str:
    """A UTC time as the hosted memory stores write it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def on_terminal() -> bool:
    """Whether a person is reading."""
    return _is_terminal(sys.stdout)


def harmless(text: str) -> str:
    r"""`text` with control characters as `\x1b`: what a model wrote must not steer the terminal of who reads it."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def write_line(text: str) -> None:
    """Print a line."""
    write((text + "\n").encode("utf-8", "backslashreplace"))


def write(data: bytes) -> None:
    """Print exactly these bytes, at once."""
    if sys.stdout is None:  # closed by the caller, who wants no output
        return
    try:
        rest = memoryview(data)
        while rest:  # under PYTHONUNBUFFERED a write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _give_up_output()
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except OSError as error:
        _give_up_output()
        click.echo(f"Error: the output could not be written: {error.strerror}", err=True)
        raise click.exceptions.Exit(FAILED) from None


class Advance(Protocol):
    """Tells how far work is: what was done, of how much if that is known, and in which part, where work has parts."""

    def __call__(self, done: int, total: int | None = None, *, part: str = "") -> None:
        """Show it."""


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Advance | None]:
    """A bar on a terminal; None elsewhere, where nobody watches."""
    if not on_terminal():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - not free to import
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task, whole = bar.add_task(what, total=total), total

        def advance(done: int, total: int | None = None, *, part: str = "") -> None:
            said = f"{what} {escape(harmless(part))}: {done}" if part else what
            bar.update(task, description=said, completed=done, total=whole if total is None else total)

        yield advance


def _give_up_output() -> None:
    """What is still buffered goes nowhere, or Python would complain when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and stream.isatty()
