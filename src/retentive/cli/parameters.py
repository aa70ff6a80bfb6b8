"""Arguments and options shared by commands, and their completion in a shell."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, BinaryIO, TypeAlias, TypeVar

import click
from click.types import FuncParamType

from retentive.cli.location import Location
from retentive.engine.lists import list_memories
from retentive.engine.visibility import LEVELS
from retentive.errors import InvalidInput, RetentiveError
from retentive.history.revisions import Revision, parse, parse_time
from retentive.opening import Retentive
from retentive.store import MemoryStore, core_of
from retentive.values.mounting import mounts_in
from retentive.values.paths import ROOT

T = TypeVar("T")
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
_LIKE_A_REVISION = re.compile(r"(?i:HEAD)|memver_|r?[0-9]+$|r[0-9]", re.ASCII)
_MEMORY_ID = re.compile(r"mem_[0-9A-Za-z]+", re.ASCII)
_AGO = re.compile(r"([0-9]{1,9})[ .](second|minute|hour|day|week)s?(?:[ .]ago)?", re.ASCII)  # as Git accepts
_RANGE = re.compile(r"(-?[0-9]{1,18})(?:(:)(-?[0-9]{1,18})?)?", re.ASCII)


def flag(*words: str, **more: Any) -> Decorator:
    """Return a decorator that adds an option without a value. The last of the words is its help."""
    *names, text = words
    return click.option(*names, is_flag=True, help=text, **more)


def option(*words: str, **more: Any) -> Decorator:
    """Return a decorator that adds an option with a value. The last words are the name of the value, and its help."""
    *names, metavar, text = words
    return click.option(*names, metavar=metavar, help=text, **more)


def revision(text: str) -> Revision:
    """Parse the name of a revision, such as `r1234`, `HEAD~2` or `2h`. Raises `BadParameter` for an invalid name."""
    return _parsed(text, parse)


def _parsed(text: str, parse: Callable[[str, datetime], T]) -> T:
    ago = _AGO.fullmatch(text)
    try:
        return parse(text if ago is None else f"{ago[1]}{ago[2][0]}", datetime.now(UTC))
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from None


def _option(metavar: str, parse: Callable[[str, datetime], Any], name: str, text: str) -> Decorator:
    def convert(_ctx: click.Context, _param: click.Parameter, given: str | None) -> Any:
        return None if given is None else _parsed(given, parse)

    return click.option(name, metavar=metavar, callback=convert, help=text)


time_option = partial(_option, "TIME", parse_time)
"""Return a decorator that adds an option with this name and help to a command. The value of the option is a time."""
revision_option = partial(_option, "REVISION", parse)
"""Return a decorator that adds an option with this name and help to a command. Its value is a revision."""


def revisions_and_path(words: Sequence[str], *, at_most: int) -> tuple[list[Revision], str | None]:
    """Return the revisions and the path among the words of a command line. `A..B` gives two revisions.

    A word that starts with a slash or a dot is a path. Any other word is a path too, unless it is the name of a
    revision or looks like one: a memory that is called `r1` is `./r1`. Raises `UsageError` for more than `at_most`
    revisions or more than one path, and `BadParameter` for a word that only looks like a revision.
    """
    paths = [word for word in words if _is_path(word)]
    revisions = [revision(name or "HEAD") for word in words if word not in paths for name in word.split("..", 1)]
    if len(paths) > 1 or len(revisions) > at_most:
        many = "one revision and " if at_most == 1 else f"{at_most} revisions and "
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


MOUNTS = ("RETENTIVE_MOUNTS", "CLAUDE_PLUGIN_OPTION_MOUNTS")
"""Environment variables with mounts. The second one has those of the Claude Code plugin, for the hooks."""


def _mounted(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> None:
    """Store the mounts in the `Location` of the command."""
    try:
        mounts = mounts_in(given)
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, option) from None
    ctx.obj = replace(ctx.obj if isinstance(ctx.obj, Location) else Location(), mounts=mounts)


mount_option = option(
    "--mount",
    "POINT=KEY[:ro]",
    "Show the memory store KEY at POINT, such as team=team:ro, where :ro is read-only. URL#KEY is one elsewhere."
    " May be repeated.  [env var: RETENTIVE_MOUNTS, separated by spaces]",
    multiple=True,
    envvar=MOUNTS,
    expose_value=False,
    callback=_mounted,
)
"""Decorator that adds the option --mount to a command. Its value is in the `Location` of the command."""


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


def absolute(path: str) -> str:
    """Return the absolute path. `notes.md` and `./notes.md` become /memories/notes.md, and `.` becomes /memories.

    The id of a memory, `mem_...`, stays as it is; a memory with such a name is `./mem_...`.
    """
    if path.startswith("/") or not path or is_memory_id(path):
        return path
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return ROOT if path in {"", "."} else f"{ROOT}/{path}"


def named(store: MemoryStore, path: str) -> str:
    """Return the path of the memory that `path` names by its path or its id. Raises `NotFound` for an unknown id."""
    return store.by_id.get(path)[0].path if is_memory_id(path) else path


MEMORY_PATH = FuncParamType(absolute)


def is_memory_id(path: str) -> bool:
    """Return whether a word of the command line is the id of a memory, such as `mem_0123`."""
    return _MEMORY_ID.fullmatch(path) is not None


def _complete(ctx: click.Context, start: str, choices: Callable[[Location, Retentive], Iterable[str]]) -> list[str]:
    """Return the values that begin with `start`. Completion creates, changes and reports nothing."""
    location = ctx.find_object(Location) or Location()
    with suppress(RetentiveError), location.opened() as opened:
        return [each for each in choices(location, opened) if each.startswith(start)]
    return []


def complete_stores(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of memory stores for a shell."""
    return _complete(ctx, incomplete, lambda _, opened: [info.key or info.id for info in opened.stores()])


def complete_paths(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return memories and directories for a shell, without those in deeper directories."""
    typed = incomplete[: incomplete.rfind("/") + 1]
    directory = absolute(typed or ".").rstrip("/")

    def names(location: Location, opened: Retentive) -> Iterable[str]:
        core = core_of(location.chosen(opened))
        below = [each.path[len(directory) + 1 :] for each in core.peek(list_memories(core.parsed(directory)))]
        return sorted({typed + "".join(path.partition("/")[:2]) for path in below})

    return _complete(ctx, incomplete, names)


def path_argument(name: str, **attributes: Any) -> Decorator:
    """Return a decorator that adds an argument whose value is the path of a memory or directory, or several."""
    return click.argument(name, type=MEMORY_PATH, shell_complete=complete_paths, **attributes)


def path_option(*names: str, **attributes: Any) -> Decorator:
    """Return a decorator that adds an option whose value is the path of a memory or directory."""
    return click.option(*names, type=MEMORY_PATH, shell_complete=complete_paths, **attributes)


def text_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator that adds the argument TEXT and the option --file to a command. It gets the text as `text`.

    Without both, or for `-`, the text is read from standard input. Raises `UsageError` if both are given, or if the
    text would be read from a terminal that nobody asked for.
    """

    @click.argument("text", required=False)
    @option("--file", "FILE", "Read the text from this file; - is standard input.", type=click.File("rb"))
    @wraps(command)
    def with_text(*args: Any, text: str | None, file: BinaryIO | None, **given: Any) -> None:
        if text is not None and file is not None:
            raise click.UsageError("A text was passed twice, as an argument and as a file.")
        if file is None and text in {None, "-"}:
            if sys.stdin is None or (sys.stdin.isatty() and text is None):
                raise click.UsageError("Missing argument 'TEXT'. Pass it, or pipe the text to standard input.")
            file = sys.stdin.buffer
        command(*args, text=text if file is None else decoded(file.read()), **given)

    return with_text


def file_to_write(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
    """Return the name of a file that a command writes. Raises `BadParameter` for `-`, which would become its name."""
    if given == "-":
        raise click.BadParameter("this command cannot write to standard output; name a file (./- for one called -)")
    return given


def decoded(data: bytes) -> str:
    """Decode UTF-8. Raises `InvalidInput` for bytes that are not UTF-8, and for a text with a NUL character."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the text is not UTF-8 (byte {error.start + 1} of {len(data)})") from None
    if "\0" in text:
        raise InvalidInput(f"the text contains a NUL character (at position {text.index(chr(0))})")
    return text


source_option = option("--source", "PATTERN", "Only with a source that matches, such as 'web:*'.")
trust_option = click.option(
    "--trust", type=click.Choice(LEVELS), help="Only at this level of trust under the current settings."
)


def mode_options(**helps: str) -> Decorator:
    """Return a decorator that adds the options --merge, --force and --partial, of which the last one counts."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for mode, text in reversed(helps.items()):
            function = click.option(
                f"--{mode}", "mode", flag_value=mode, default="refuse", show_default=False, help=text
            )(function)
        return function

    return decorate
