"""Arguments and options shared by commands: actors, times, versions, ranges of lines, texts from pipes and files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from retentive.engine.trust import LEVELS
from retentive.errors import InvalidInput
from retentive.values.paths import ROOT

F = TypeVar("F", bound=Callable[..., Any])

_VERSION = "memver_"
_LIKE_A_REVISION = re.compile(rf"(?i:HEAD)|{_VERSION}|r?[0-9]+$|r[0-9]", re.ASCII)
_RANGE = re.compile(r"(-?[0-9]{1,18})(?:(:)(-?[0-9]{1,18})?)?", re.ASCII)


def _time(_ctx: click.Context, _param: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    from retentive.history.revisions import parse_time  # noqa: PLC0415 - slow to import

    try:
        return parse_time(given, datetime.now(UTC))
    except InvalidInput as error:
        raise click.BadParameter(f"{error}.") from None


def _moment(_ctx: click.Context, _param: click.Parameter, given: str | None) -> Revision | None:
    return None if given is None else revision(given)


def revision(text: str) -> Revision:
    """Parse the name of a revision, such as `r1234`, `HEAD~2` or `2h`. Raises `BadParameter` for an invalid name."""
    from retentive.history.revisions import parse  # noqa: PLC0415 - slow to import

    try:
        return parse(text, datetime.now(UTC))
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from None


def time_option(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds an option to a command. The value of the option is a time."""
    return click.option(name, metavar="TIME", callback=_time, help=text)


def revision_option(
    name: str, *, text: str, required: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds an option to a command. The value of the option is a revision."""
    return click.option(name, metavar="REVISION", callback=_moment, required=required, help=text)


def revisions_and_path(words: Sequence[str], *, at_most: int) -> tuple[list[Revision], str | None]:
    """Return the revisions and the path among the words of a command line. `A..B` gives two revisions.

    A word that starts with a slash or a dot is a path. Any other word is a path too, unless it is the name of a
    revision or looks like one: a memory that is called `r1` is `./r1`. Raises `UsageError` for more than `at_most`
    revisions or more than one path, and `BadParameter` for a word that only looks like a revision.
    """
    paths = [word for word in words if _is_path(word)]
    revisions = [revision(name or "HEAD") for word in words if word not in paths for name in word.split("..", 1)]
    if revisions and not at_most:
        raise click.UsageError(
            f"{words[0]} is the name of a change, which `show` and `diff` take. Write ./{words[0]} for the memory."
        )
    if len(paths) > 1 or len(revisions) > at_most:
        many = {0: "", 1: "one revision and "}.get(at_most, f"{at_most} revisions and ")
        raise click.UsageError(f"Specify at most {many}one path.")
    return revisions, absolute(paths[0]) if paths else None


def _is_path(word: str) -> bool:
    if word.startswith(("/", ".")):
        return True
    if _LIKE_A_REVISION.match(word) and not {"/", "."} & set(word):
        return False
    try:
        return not [revision(name or "HEAD") for name in word.split("..", 1)]
    except click.BadParameter:
        return True


def user_by_default(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    """Convert the value of an option to an actor or a pattern of actors. A plain name, `ann`, becomes `user:ann`."""
    return given if given is None or {":", "*", "?"} & set(given) else f"user:{given}"


def line_range(_ctx: click.Context, _param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """Convert a range of lines to the parameter `view_range` of the memory tool.

    The range is `A:B`, or `A:` for all lines from A, or `A` for one line. Raises `BadParameter` for other values.
    """
    if given is None:
        return None
    form = _RANGE.fullmatch(given)
    if form is None:
        raise click.BadParameter(f"{given!r} is not a line range such as 10:20, 10: or 10.")
    first, colon, last = form.groups()
    if colon is None:
        return int(first), int(first)
    return int(first), int(last or -1)


if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from retentive.history.revisions import Revision

    TextType: TypeAlias = click.ParamType[str]
else:
    TextType = click.ParamType  # not generic in older versions of click


def absolute(path: str) -> str:
    """Return the absolute path. `notes.md` and `./notes.md` become /memories/notes.md, and `.` becomes /memories."""
    if path.startswith("/") or not path:
        return path
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return ROOT if path in {"", "."} else f"{ROOT}/{path}"


class MemoryPathType(TextType):
    """The path of a memory or directory. A path without a leading slash is below /memories."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the absolute path."""
        return absolute(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the memories and directories whose path starts with `incomplete`."""
        from retentive.cli.completers import paths  # noqa: PLC0415 - only for completion

        return paths(ctx, incomplete, absolute)


class VersionType(TextType):
    """The id of a version."""

    name = "version"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the newest versions whose id starts with `incomplete`."""
        from retentive.cli.completers import versions  # noqa: PLC0415 - only for completion

        return versions(ctx, incomplete)


class StoreType(TextType):
    """The key or id of a memory store."""

    name = "store"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the memory stores whose key or id starts with `incomplete`."""
        from retentive.cli.completers import stores  # noqa: PLC0415 - only for completion

        return stores(ctx, incomplete)


class RevisionOrPathType(TextType):
    """The name of a revision, or the path of a memory. `revisions_and_path` decides which of the two it is."""

    name = "revision or path"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return versions if `incomplete` starts like a version id, otherwise paths."""
        is_id = incomplete.startswith(_VERSION[:3])
        return (VERSION_ID if is_id else MEMORY_PATH).shell_complete(ctx, param, incomplete)


MEMORY_PATH, VERSION_ID, STORE = MemoryPathType(), VersionType(), StoreType()
ARGUMENT_TYPES: Mapping[str, TextType] = {
    "path": MEMORY_PATH,
    "paths": MEMORY_PATH,
    "old_path": MEMORY_PATH,
    "new_path": MEMORY_PATH,
    "what": RevisionOrPathType(),
    "version_id": VERSION_ID,
    "version_ids": VERSION_ID,
}
"""Type of an argument by its name. It is the same in all commands."""


def text_options(command: F) -> F:
    """Decorator that adds the argument TEXT and the option --file to a command. Pass their values to `given_text`."""
    option = click.option("--file", metavar="FILE", help="Read the text from this file; - is standard input.")
    return click.argument("text", required=False)(option(command))


def given_text(text: str | None, file: str | None) -> str:
    """Return `text`, or the text of the file with the name `file`.

    If both are None, or if one of them is `-`, the text is read from standard input. Raises `UsageError` if both are
    given, if the file cannot be read, or if both are None and standard input is a terminal.
    """
    if text is not None and file is not None:
        raise click.UsageError("A text was passed twice, as an argument and as a file.")
    if file is not None:
        return text_of_file(file)
    return _standard_input(is_asked=text == "-") if text in {None, "-"} else str(text)


def _standard_input(*, is_asked: bool) -> str:
    if sys.stdin is None or (sys.stdin.isatty() and not is_asked):
        raise click.UsageError("Missing argument 'TEXT'. Pass it, or pipe the text to standard input.")
    return decoded(sys.stdin.buffer.read())


def file_to_write(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
    """Return the name of a file that a command writes. Raises `BadParameter` for `-`, which would become its name."""
    if given == "-":
        raise click.BadParameter("this command cannot write to standard output; name a file (./- for one called -)")
    return given


def text_of_file(name: str) -> str:
    """Return the text of a file. `-` means standard input. Raises `UsageError` if the file cannot be read."""
    if name == "-":
        return _standard_input(is_asked=True)
    try:
        with open(name, "rb") as file:
            return decoded(file.read())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"cannot read {name!r}: {why}") from None


def decoded(data: bytes) -> str:
    """Decode UTF-8. Raises `InvalidInput` for bytes that are not UTF-8, and for a text with a NUL character."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the text is not UTF-8 (byte {error.start + 1} of {len(data)})") from None
    if "\0" in text:
        raise InvalidInput(f"the text contains a NUL character (at position {text.index(chr(0))})")
    return text


def source_option(command: F) -> F:
    """Decorator that adds the option `--source` to a command."""
    text = "Only with a source that matches, such as 'web:*'."
    return click.option("--source", metavar="PATTERN", help=text)(command)


def trust_option(command: F) -> F:
    """Decorator that adds the option `--trust` to a command."""
    text = "Only at this level of trust under the current settings."
    return click.option("--trust", type=click.Choice(LEVELS), help=text)(command)
