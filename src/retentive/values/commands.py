"""The six commands, and the parser that makes them of whatever a model sent.

A `Command` cannot be wrong: its path is parsed, its numbers are numbers, its texts can be kept. The leniency is
particular (docs/commands.md, "What is accepted"), so the parser is a small table of our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from retentive.errors import Phrase, Refused
from retentive.values.paths import ROOT, MemoryPath, visible


@dataclass(frozen=True, slots=True)
class View:
    """Show a memory (whole, or the lines of `view_range`) or a directory."""

    name: ClassVar[str] = "view"
    path: MemoryPath
    view_range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Make a memory."""

    name: ClassVar[str] = "create"
    path: MemoryPath
    file_text: str


@dataclass(frozen=True, slots=True)
class StrReplace:
    """Replace the only occurrence of `old_str`."""

    name: ClassVar[str] = "str_replace"
    path: MemoryPath
    old_str: str
    new_str: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Put lines in after line `insert_line`."""

    name: ClassVar[str] = "insert"
    path: MemoryPath
    insert_line: int
    insert_text: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a memory, or a directory with all below it."""

    name: ClassVar[str] = "delete"
    path: MemoryPath


@dataclass(frozen=True, slots=True)
class Rename:
    """Move a memory, or a directory with all below it."""

    name: ClassVar[str] = "rename"
    old_path: MemoryPath
    new_path: MemoryPath


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete all memories. No tool call parses to it; applications ask for it."""

    name: ClassVar[str] = "clear"


Command: TypeAlias = View | Create | StrReplace | Insert | Delete | Rename
WriteCommand: TypeAlias = Create | StrReplace | Insert | Delete | Rename | Clear

_MAX_BITS = 13_000  # some 3,900 digits; Python refuses to print an integer of more than 4,300
_MOST_SHOWN = 3_001  # characters: of what a reply shows, and looks at before
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def paths_of(command: Command | Clear) -> tuple[MemoryPath, ...]:
    """The paths a command names; the last is the one to view when its outcome is unknown."""
    match command:
        case Rename():
            return (command.old_path, command.new_path)
        case Clear():
            return (MemoryPath.known(ROOT),)
    return (command.path,)


def name_given(given: object) -> str | None:
    """The command that the input of a tool call names; None for an unknown one."""
    name = given.get("command") if isinstance(given, Mapping) else None
    return name if isinstance(name, str) and name in _COMMANDS else None


def parse(given: object) -> Command:
    """The command `given` asks for. Raises `Refused`, which says which field was wrong and what would be right."""
    if not isinstance(given, Mapping):
        raise Refused("not_an_object", commands=_NAMES, value=_shown(given))
    name = given.get("command")
    if not isinstance(name, str) or name not in _COMMANDS:
        raise Refused("bad_command", commands=_NAMES, value=_shown(name))
    build, specs = _COMMANDS[name]
    values = {spec.name: _field(name, spec, given) for spec in specs}
    for spec in specs:  # paths last: the shape of the whole command is checked before any path
        if spec.read is _string:
            values[spec.name] = MemoryPath.parse(str(values[spec.name]))
    command = build(**values)
    if isinstance(command, Create):
        check_file_path(command.path)
    return command


def check_file_path(path: MemoryPath) -> None:
    """Raise `Refused` for the path of a new memory written as directories are, with a `/` at the end."""
    if path.ends_with_slash and not path.is_root:
        raise Refused("invalid_path", path=path.written, reason=Phrase("reason_slash", {}))


@dataclass(frozen=True, slots=True)
class _Spec:
    name: str
    read: Callable[[object], object]
    expected: str
    alias: str | None = None
    required: bool = True
    default: object = None


class _Unfit(Exception):
    """A value that is not what its field takes."""


def _field(command: str, spec: _Spec, given: Mapping[str, object]) -> object:
    value = given.get(spec.name)
    if value is None and spec.alias is not None:
        value = given.get(spec.alias)
    if value is None:
        if spec.required:
            raise Refused("missing_field", field=spec.name, command=command, expected=spec.expected)
        return spec.default
    try:
        read = spec.read(value)
    except _Unfit:
        raise Refused("bad_field", field=spec.name, value=_shown(value), expected=spec.expected) from None
    if spec.read is _text:
        check_text(spec.name, str(read))
    return read


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise _Unfit
    return value


def _text(value: object) -> str:
    return _string(value)


def check_text(field: str, text: str) -> None:
    """Raise `Refused` for a text that cannot be kept: with NUL characters or lone surrogates."""
    try:
        text.encode()
        position = text.find("\0")
    except UnicodeEncodeError as error:
        position = error.start
    if position != -1:
        code_point = f"U+{ord(text[position]):04X}"
        raise Refused("bad_text", field=field, code_point=code_point, position=position)


def _integer(value: object) -> int:
    if isinstance(value, bool):
        raise _Unfit
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise _Unfit


def _range(value: object) -> tuple[int, int]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise _Unfit from None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _Unfit
    return _integer(value[0]), _integer(value[1])


def _shown(value: object) -> str:
    """A value of a wrong type in a few words: scalars as they are, the rest by kind."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"'{visible(value[:_MOST_SHOWN])}'"
        case int():
            return str(value) if value.bit_length() <= _MAX_BITS else "a number too large"
        case float():
            return repr(value)
        case Mapping():
            return "an object"
        case list() | tuple():
            return _shown_list(value)
    return "something else"


def _shown_list(value: list[object] | tuple[object, ...]) -> str:
    if len(value) <= 4 and all(isinstance(item, bool | int | float | str) for item in value):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return f"a list of {len(value)} items"


_PATH = "a string, /memories or a path below it"
_STRING = "a string"
_RANGE = "two integers, [first_line, last_line], with -1 for the last line of the file"
_OVERALL = _Spec("path", _string, _PATH)
_COMMANDS: Mapping[str, tuple[Callable[..., Command], tuple[_Spec, ...]]] = {
    "view": (View, (_OVERALL, _Spec("view_range", _range, _RANGE, required=False))),
    "create": (Create, (_OVERALL, _Spec("file_text", _text, _STRING, alias="content"))),
    "str_replace": (
        StrReplace,
        (
            _OVERALL,
            _Spec("old_str", _text, _STRING),
            _Spec("new_str", _text, _STRING, required=False, default=""),
        ),
    ),
    "insert": (
        Insert,
        (
            _OVERALL,
            _Spec("insert_line", _integer, "an integer"),
            _Spec("insert_text", _text, _STRING, alias="new_str"),
        ),
    ),
    "delete": (Delete, (_OVERALL,)),
    "rename": (
        Rename,
        (_Spec("old_path", _string, _PATH, alias="path"), _Spec("new_path", _string, _PATH)),
    ),
}
_NAMES = ", ".join(_COMMANDS)
