"""Results of tools, and the limit on their length. Also parses the arguments of tools that run no memory command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from mcp import types as t

from retentive.errors import Refused
from retentive.integrations.search_tool import bad_field
from retentive.values.commands import integer_of

Arguments: TypeAlias = Mapping[str, object]

MAX_REPLY_CHARS = 48_000
"""Maximum length of the text that a tool returns.

Claude Code writes results of more than 50,000 characters to a file and shows the model only their first 2 kB.
"""
_NUMBERED = re.compile(r" *([0-9]+)\t")
_STRING = "a string"


def result_of(text: str, *, is_error: bool = False, structured: Mapping[str, Any] | None = None) -> t.CallToolResult:
    """Return the result of a tool. `structured` has the same content as `text`, for clients that read JSON."""
    sendable = text.encode("utf-8", "backslashreplace").decode()  # an error may quote a lone surrogate of the call
    content: list[t.ContentBlock] = [t.TextContent(type="text", text=sendable)]
    structured = None if structured is None else dict(structured)
    return t.CallToolResult(content=content, structured_content=structured, is_error=is_error)


def text_field(given: Arguments, field: str, expected: str = _STRING) -> str | None:
    """Return the string argument `field`, or None if it is missing. Raises `Refused` if it is not a string."""
    value = given.get(field)
    if value is not None and not isinstance(value, str):
        raise bad_field(field, value, expected)
    return value


def required_text(given: Arguments, field: str, tool: str, expected: str = _STRING) -> str:
    """Return the string argument `field` of a tool. Raises `Refused` if it is missing or not a string."""
    value = text_field(given, field, expected)
    if value is None:
        raise Refused("missing_field", field=field, command=tool, expected=expected)
    return value


def number_field(given: Arguments, field: str, *, default: int, most: int) -> int:
    """Return an integer argument from 1 to `most`, or `default` if it is missing. Raises `Refused` if it is invalid."""
    value = given.get(field)
    if value is None:
        return default
    try:
        number = integer_of(value)
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise bad_field(field, value, f"an integer from 1 to {most}")
    return number


def within_limit(text: str, hint: str) -> str:
    """Return `text` if it has at most `MAX_REPLY_CHARS` characters. Otherwise return its first lines and `hint`.

    `hint` tells the model how to see the rest.
    """
    if len(text) <= MAX_REPLY_CHARS:
        return text
    shown, _, _ = text[: MAX_REPLY_CHARS - len(hint) - 1].rpartition("\n")
    return f"{shown or text[: MAX_REPLY_CHARS - len(hint) - 1]}\n{hint}"


def view_within_limit(text: str, view: str) -> str:
    """Cut the view of a memory or directory to `MAX_REPLY_CHARS`. `view` names the tool that shows the rest."""
    if len(text) <= MAX_REPLY_CHARS:
        return text
    head = text[: MAX_REPLY_CHARS - 200]
    lines = head.split("\n")[:-1] or [head]
    last = _NUMBERED.match(lines[-1])
    if last is None:
        rest = f"[Cut to fit. Use {view} on a directory below to see the rest.]"
    else:
        rest = f"[Cut to fit after line {last[1]}. Next: {view} with view_range [{int(last[1]) + 1}, -1].]"
    return "\n".join([*lines, rest])
