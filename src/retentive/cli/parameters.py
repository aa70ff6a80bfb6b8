"""Arguments and options shared by commands: actors, times, versions, ranges of lines, texts from pipes and files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from retentive.engine.trust.levels import LEVELS
from retentive.errors import InvalidInput
from retentive.history.revisions import TIMES, Revision, parse, parse_time

F = TypeVar("F", bound=Callable[..., Any])

FORMS = TIMES
_RANGE = re.compile(r"(-?[0-9]{1,18})(?:(:)(-?[0-9]{1,18})?)?", re.ASCII)


def _time(_ctx: click.Context, _param: click.Parameter, given: str | None) -> datetime | None:
    try:
        return None if given is None else parse_time(given, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _moment(_ctx: click.Context, _param: click.Parameter, given: str | None) -> Revision | None:
    return None if given is None else revision(given)


def revision(text: str) -> Revision:
    """Parse the name of a revision. Raises `BadParameter`."""
    try:
        return parse(text, datetime.now(UTC))
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from None


def time_option(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds an option for a time."""
    return click.option(name, metavar="TIME", callback=_time, help=text)


def revision_option(
    name: str, *, text: str, required: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds an option for a revision."""
    return click.option(name, metavar="REVISION", callback=_moment, required=required, help=text)


def revisions_and_path(words: Sequence[str], *, at_most: int) -> tuple[list[Revision], str | None]:
    """Sort words into revisions and a path, which begins with `/`. `A..B` are two revisions. Raises `UsageError`."""
    paths = [word for word in words if word.startswith("/")]
    names = [name for word in words if word not in paths for name in word.split("..", 1)]
    if len(paths) > 1 or len(names) > at_most:
        revisions = "one revision" if at_most == 1 else f"{at_most} revisions"
        raise click.UsageError(f"Specify at most {revisions} and one path.")
    return [revision(name or "HEAD") for name in names], next(iter(paths), None)


def user_by_default(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    """The actor or the pattern of actors; a name without a kind and wildcards is the name of a user."""
    return given if given is None or {":", "*", "?"} & set(given) else f"user:{given}"


def line_range(_ctx: click.Context, _param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """Convert `A:B`, `A:` (to the end) or `A` (one line) to the `view_range` of the tool."""
    if given is None:
        return None
    form = _RANGE.fullmatch(given)
    if form is None:
        raise click.BadParameter(f"{given!r} is not a line range such as 10:20, 10: or 10.")
    first, colon, last = form.groups()
    if colon is None:
        return int(first), int(first)
    return int(first), int(last or -1)


def text_or_stdin(given: str | None) -> str:
    """The argument, or all of standard input if it is missing. Raises `UsageError` if standard input is a terminal."""
    if given is not None:
        return given
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("Missing argument 'TEXT'. Pass it, or pipe the text to standard input.")
    return decoded(sys.stdin.buffer.read())


def text_of_file(name: str) -> str:
    """The text of a file; `-` means standard input. Raises `UsageError` if the file cannot be read."""
    if name == "-":
        return text_or_stdin(None)
    try:
        with open(name, "rb") as file:
            return decoded(file.read())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"cannot read {name!r}: {why}") from None


def decoded(data: bytes) -> str:
    """Decode UTF-8. Raises `InvalidInput` for text that a memory cannot store."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the text is not UTF-8 (byte {error.start + 1} of {len(data)})") from None
    if "\0" in text:
        raise InvalidInput(f"the text contains a NUL character (at position {text.index(chr(0))})")
    return text


def source_option(command: F) -> F:
    """Add `--source`."""
    text = "Only with a source that matches, such as 'web:*'."
    return click.option("--source", metavar="PATTERN", help=text)(command)


def trust_option(command: F) -> F:
    """Add `--trust`."""
    text = "Only at this level of trust, by the present settings."
    return click.option("--trust", type=click.Choice(LEVELS), help=text)(command)
