"""Commands of the memory tool, and the parser for the input of tool calls.

A `Command` object is always valid: its paths are parsed, its numbers are integers and its texts can be stored. For each
command, a table lists its fields and the alternative field names that are accepted (docs/commands.md, "Accepted
input").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from retentive.errors import Phrase, Refused
from retentive.values.paths import ROOT, MemoryPath, visible


@dataclass(frozen=True, slots=True)
class View:
    """Show a directory or a memory. For a memory, `view_range` is the first and the last line to show."""

    name: ClassVar[str] = "view"
    path: MemoryPath
    view_range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Create a memory."""

    name: ClassVar[str] = "create"
    path: MemoryPath
    file_text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StrReplace:
    """Replace the only occurrence of `old_str`."""

    name: ClassVar[str] = "str_replace"
    path: MemoryPath
    old_str: str = field(repr=False)
    new_str: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert lines after line `insert_line`."""

    name: ClassVar[str] = "insert"
    path: MemoryPath
    insert_line: int
    insert_text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a memory, or a directory with everything below it."""

    name: ClassVar[str] = "delete"
    path: MemoryPath


@dataclass(frozen=True, slots=True)
class Rename:
    """Move a memory, or a directory with everything below it."""

    name: ClassVar[str] = "rename"
    old_path: MemoryPath
    new_path: MemoryPath


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete all memories. Only applications can send this command, not models."""

    name: ClassVar[str] = "clear"


@dataclass(frozen=True, slots=True)
class Write:
    """Create a memory or replace its text. Only applications send this command."""

    name: ClassVar[str] = "write"
    path: MemoryPath
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Append:
    """Add lines at the end of a memory, or create the memory. Only applications send this command."""

    name: ClassVar[str] = "append"
    path: MemoryPath
    text: str = field(repr=False)


Command: TypeAlias = View | Create | StrReplace | Insert | Delete | Rename | Write | Append
WriteCommand: TypeAlias = Create | StrReplace | Insert | Delete | Rename | Write | Append | Clear

_MAX_BITS = 13_000  # about 3,900 digits; Python refuses to print an integer of more than 4,300
_MAX_SHOWN_CHARS = 3_001  # a reply shows fewer; redaction needs the rest to recognise a sensitive value at the cut
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def paths_of(command: Command | Clear) -> tuple[MemoryPath, ...]:
    """Return the paths that a command names: two for a rename, `/memories` for `Clear`, otherwise one.

    If it is unknown whether the command took effect, the reply asks the model to view the last of these paths.
    """
    match command:
        case Rename():
            return (command.old_path, command.new_path)
        case Clear():
            return (MemoryPath.known(ROOT),)
    return (command.path,)


def within(command: Command, mount: str) -> Command:
    """Return a command on paths of a tree as a command in the memory store that is mounted at `mount`.

    The paths must be at or below `mount`. Replies show them as they were written.
    """
    if isinstance(command, Rename):
        return Rename(command.old_path.within(mount), command.new_path.within(mount))
    return replace(command, path=command.path.within(mount))


def command_name(raw: object) -> str | None:
    """Return the name of the command in the raw input of a tool call, or None if the command is unknown."""
    name = raw.get("command") if isinstance(raw, Mapping) else None
    return name if isinstance(name, str) and name in _COMMANDS else None


def parse(raw: object) -> Command:
    """Parse the raw input of a tool call.

    Raises `Refused` for invalid input. The error names the invalid field and the expected value.
    """
    if not isinstance(raw, Mapping):
        raise Refused("not_an_object", commands=_NAMES, value=_describe(raw))
    name = raw.get("command")
    if not isinstance(name, str) or name not in _COMMANDS:
        raise Refused("bad_command", commands=_NAMES, value=_describe(name))
    build, specs = _COMMANDS[name]
    values = [_value(name, spec, raw) for spec in specs]
    for position, spec in enumerate(specs):  # paths come last: the fields are checked before any path
        if spec.expected == _PATH:
            values[position] = MemoryPath.parse(str(values[position]))
    command = build(*values)
    if isinstance(command, Create):
        check_file_path(command.path)
    return command


def check_file_path(path: MemoryPath) -> None:
    """Raise `Refused` if the path of a new memory ends with `/`."""
    if path.written.endswith("/") and not path.is_root:
        raise Refused("invalid_path", path=visible(path.written), reason=Phrase("reason_slash", {}))


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    name: str
    read: Callable[[object], object]  # raises TypeError, ValueError or RecursionError for a wrong value
    expected: str
    alias: str | None = None
    default: object = ...  # a field without a default is required


def _value(command: str, spec: _Field, raw: Mapping[str, object]) -> object:
    value = raw.get(spec.name)
    if value is None and spec.alias is not None:
        value = raw.get(spec.alias)
    if value is None and spec.default is not ...:
        return spec.default
    if value is None:
        raise Refused("missing_field", field=spec.name, command=command, expected=spec.expected)
    try:
        parsed = spec.read(value)
    except (TypeError, ValueError, RecursionError):
        raise Refused("bad_field", field=spec.name, value=_describe(value), expected=spec.expected) from None
    if spec.expected == _STRING:
        check_text(spec.name, str(parsed))
    return parsed


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def check_text(field: str, text: str) -> None:
    """Raise `Refused` for a text with NUL characters or lone surrogates, which cannot be stored."""
    try:
        text.encode()
        position = text.find("\0")
    except UnicodeEncodeError as error:
        position = error.start
    if position != -1:
        code_point = f"U+{ord(text[position]):04X}"
        raise Refused("bad_text", field=field, code_point=code_point, position=position)


def integer_of(value: object) -> int:
    """Return an integer that a model sent: a number without a fraction, or a string of digits. Raises TypeError."""
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, float) and value.is_integer():  # some models send every number as a float
        return int(value)
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise TypeError


def _range(value: object) -> tuple[int, int]:
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise TypeError
    return integer_of(value[0]), integer_of(value[1])


def _describe(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"'{visible(value[:_MAX_SHOWN_CHARS])}'"
        case int():
            return str(value) if value.bit_length() <= _MAX_BITS else "a number too large"
        case float():
            return repr(value)
        case Mapping():
            return "an object"
        case list() | tuple():
            if len(value) <= 4 and all(isinstance(item, bool | int | float | str) for item in value):
                return f"[{', '.join(_describe(item) for item in value)}]"
            return f"a list of {len(value)} items"
        case bytes():
            return "bytes"
    return "something else"


_PATH = "a string, /memories or a path below it"
_STRING = "a string"
_RANGE = "two integers, [first_line, last_line], with -1 for the last line of the file"
_PATH_FIELD = _Field("path", _string, _PATH)
_COMMANDS: Mapping[str, tuple[Callable[..., Command], tuple[_Field, ...]]] = {
    "view": (View, (_PATH_FIELD, _Field("view_range", _range, _RANGE, default=None))),
    "create": (Create, (_PATH_FIELD, _Field("file_text", _string, _STRING, alias="content"))),
    "str_replace": (
        StrReplace,
        (_PATH_FIELD, _Field("old_str", _string, _STRING), _Field("new_str", _string, _STRING, default="")),
    ),
    "insert": (
        Insert,
        (
            _PATH_FIELD,
            _Field("insert_line", integer_of, "an integer"),
            _Field("insert_text", _string, _STRING, alias="new_str"),
        ),
    ),
    "delete": (Delete, (_PATH_FIELD,)),
    "rename": (
        Rename,
        (_Field("old_path", _string, _PATH, alias="path"), _Field("new_path", _string, _PATH)),
    ),
}
_NAMES = ", ".join(_COMMANDS)
