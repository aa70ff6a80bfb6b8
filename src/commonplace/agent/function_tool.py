"""The memory as an ordinary function tool, for models other than Claude and clients other than the SDK.

tool = function_tool(store)
client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
reply = tool.reply(call.function.arguments)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from commonplace.agent.memory import Memory
from commonplace.agent.prompts import memory_protocol
from commonplace.backends.base import Actor, as_actor
from commonplace.doors.messages import TOOL
from commonplace.replies import Reply

_ABOUT = """\
Files that last beyond this conversation, in the directory /memories. Commands and what they take:
- view: path, and view_range [first, last] for some lines of a file. Lists a directory, shows a file with line numbers.
- create: path, file_text. Makes a new file; the directories above it come into being.
- str_replace: path, old_str, new_str. Replaces the only occurrence of old_str.
- insert: path, insert_line (0 = at the top), insert_text. Puts lines in after that line.
- delete: path. Deletes a file, or a directory with all below it.
- rename: old_path, new_path. Moves a file or a directory."""
_PATH = "/memories or a path below it, such as /memories/notes.md"
_FIELDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "path": ({"type": "string"}, f"All commands but rename: {_PATH}"),
    "view_range": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "view: the first and the last line to show, counted from 1; -1 as the last is the end of the file",
    ),
    "file_text": ({"type": "string"}, "create: the whole text of the new file"),
    "old_str": ({"type": "string"}, "str_replace: the text to replace, exactly as it stands in the file"),
    "new_str": ({"type": "string"}, "str_replace: what takes its place; without it the text is removed"),
    "insert_line": ({"type": "integer"}, "insert: the line after which the text goes in, 0 for the top"),
    "insert_text": ({"type": "string"}, "insert: the text to put in"),
    "old_path": ({"type": "string"}, f"rename: {_PATH}"),
    "new_path": ({"type": "string"}, f"rename: where it is to be, {_PATH}"),
}
COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """The six commands as one function: its definition for a request, and what runs its calls. Threads may share it."""

    memory: Memory
    actor: Actor | None
    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool

    @property
    def definition(self) -> dict[str, Any]:
        """`name`, `description`, `parameters` and, for a strict one, `strict`: the form most clients take."""
        given = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {**given, "strict": True} if self.strict else given

    def reply(self, arguments: Mapping[str, Any] | str) -> Reply:
        """The reply to a call, with `is_error`. Never raises for what a model sent, be it JSON or not."""
        return self.memory.execute(_given(arguments), actor=self.actor)

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """The text of `reply`, for clients that have no place for an error mark; errors say that they are."""
        return self.reply(arguments).text


def function_tool(
    memory: Memory,
    *,
    actor: Actor | str | None = None,
    name: str = TOOL["name"],
    protocol: bool = True,
    strict: bool = False,
) -> FunctionTool:
    """The memory as a function tool.

    With `protocol` the description tells the model to look at its memory first and to keep notes, as the API tells
    Claude. `strict` is for OpenAI's strict mode: every field is required, and null where a command does not take it.
    `actor` is recorded with changes.
    """
    about = f"{_ABOUT}\n\n{memory_protocol()}" if protocol else _ABOUT
    return FunctionTool(memory, as_actor(actor), name, about, _parameters(strict=strict), strict)


def _parameters(*, strict: bool) -> dict[str, Any]:
    command = {"type": "string", "enum": list(COMMANDS), "description": "What to do."}
    fields = {name: _field(schema, about, strict=strict) for name, (schema, about) in _FIELDS.items()}
    return {
        "type": "object",
        "properties": {"command": command, **fields},
        "required": ["command", *fields] if strict else ["command"],
        "additionalProperties": False,
    }


def _field(schema: dict[str, Any], about: str, *, strict: bool) -> dict[str, Any]:
    kind: object = [schema["type"], "null"] if strict else schema["type"]
    return {**schema, "type": kind, "description": f"{about}." if not about.endswith(".") else about}


def _given(arguments: Mapping[str, Any] | str) -> object:
    """The input of the command; text that is no JSON goes on as it is, and gets a reply that says so."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
