"""Independent specification of the fields, aliases and types of raw commands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

Fields: TypeAlias = dict[str, object]

NAMES = ("view", "create", "str_replace", "insert", "delete", "rename")
REQUIRED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
OPTIONAL = {"view": ("view_range",), "str_replace": ("new_str",)}
ALIASES = {("rename", "old_path"): "path", ("insert", "insert_text"): "new_str", ("create", "file_text"): "content"}


@dataclass(frozen=True)
class Expected:
    """Expected reply: exactly `text` or, where the wording is unspecified, a text with this start and these parts."""

    text: str | None
    is_error: bool = False
    start: str = "Error: "
    holds: tuple[str, ...] = ()
    names_one_of: tuple[str, ...] = ()

    def fits(self, text: str, *, is_error: bool) -> bool:
        if is_error != self.is_error:
            return False
        if self.text is not None:
            return text == self.text
        named = not self.names_one_of or any(f"`{name}`" in text for name in self.names_one_of)
        return text.startswith(self.start) and len(text) > len(self.start) and named and self._holds_all(text)

    def _holds_all(self, text: str) -> bool:
        return all(word in text for word in self.holds)


class InvalidCommand(Exception):
    """Command that gets an error reply."""

    def __init__(
        self, text: str | None, *, start: str = "Error: ", holds: tuple[str, ...] = (), one_of: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text)
        self.expected = Expected(text, is_error=True, start=start, holds=holds, names_one_of=one_of)


def read_shape(given: object) -> tuple[str, Fields]:
    """Return the name of the command and the values of its fields. Raises `InvalidCommand`."""
    if not isinstance(given, dict):
        raise InvalidCommand(None, holds=NAMES, one_of=("command",))
    name = given.get("command")
    if not isinstance(name, str) or name not in NAMES:
        raise InvalidCommand(None, holds=NAMES, one_of=("command",))
    values: Fields = {}
    wrong: list[str] = []
    for field in REQUIRED[name] + OPTIONAL.get(name, ()):
        value = given.get(field)
        if value is None:
            value = given.get(ALIASES.get((name, field), field))
        if value is None and field in REQUIRED[name]:
            wrong.append(field)
        elif value is not None:
            read = _READERS.get(field, _text)(value)
            values[field] = read
            wrong += [field] if read is None else []
    if wrong:
        raise InvalidCommand(None, one_of=tuple(wrong))
    return name, values


def _text(value: object) -> str | None:
    """Return the value if it is a valid text, otherwise None."""
    if not isinstance(value, str) or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        return None
    return value


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, float) and value % 1 == 0:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _range(value: object) -> tuple[int, int] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    first, last = map(_integer, value)
    return None if first is None or last is None else (first, last)


_READERS = {
    "path": _string,
    "old_path": _string,
    "new_path": _string,
    "insert_line": _integer,
    "view_range": _range,
}
