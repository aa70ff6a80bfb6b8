"""Function tools for any model and client, and the memory tool defined as a function tool.

Claude does not need this definition, because it has a built-in memory tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from retentive.integrations.messages import TOOL
from retentive.values.replies import Reply


@dataclass(frozen=True, slots=True, repr=False)
class FunctionTool:
    """Function tool: a definition for requests, and methods that run calls. Thread-safe."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[object], Reply]
    strict: bool = False

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    @property
    def definition(self) -> dict[str, Any]:
        """Definition that most clients accept: `name`, `description`, `parameters` and, if set, `strict`."""
        fields = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {**fields, "strict": True} if self.strict else fields

    def reply(self, arguments: Mapping[str, Any] | str) -> Reply:
        """Run a call and return the reply, which has a flag `is_error`.

        Invalid input gets an error reply, never an exception.
        """
        return self.run(request_of(arguments))

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Run a call and return only the text, for clients without an error flag. Error texts start with "Error"."""
        return self.reply(arguments).text


def request_of(arguments: Mapping[str, Any] | str) -> object:
    """Return the input of a call. Input given as JSON text is parsed; text that is not JSON is returned unchanged."""
    if not isinstance(arguments, str):
        return arguments
    try:
        request: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return request


NAME: Final = TOOL["name"]

DESCRIPTION: Final = """\
Text files below /memories that persist after this conversation. View /memories before you start, and record what
will matter later. Commands and their fields:
- view (path, view_range): list a directory, or show a file with line numbers, which are not part of the file
- create (path, file_text): create a new file
- str_replace (path, old_str, new_str): replace old_str, which must occur exactly once; without new_str, remove it
- insert (path, insert_line, insert_text): insert lines after line insert_line; 0 is the top
- delete (path): delete a file, or a directory with everything in it
- rename (old_path, new_path): move a file or a directory"""


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            "description": "The command to run.",
        },
        "path": _text("The file or directory, for all commands but rename. Starts with /memories."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "For view of a file: first and last line to show, -1 for the end.",
        },
        "file_text": _text("For create: the full text of the file."),
        "old_str": _text("For str_replace: the text to replace."),
        "new_str": _text("For str_replace: the replacement."),
        "insert_line": {"type": "integer", "description": "For insert: the line after which to insert."},
        "insert_text": _text("For insert: the lines to insert."),
        "old_path": _text("For rename: the file or directory to move."),
        "new_path": _text("For rename: the new path."),
    },
    "required": ["command"],
}
"""JSON schema of the input of all commands. It is flat, because some APIs reject `oneOf` at the top level.

The schema allows combinations of fields that are invalid. A call with such a combination gets an error reply.
"""
