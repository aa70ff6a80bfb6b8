"""The memory tool for models that do not know it: an ordinary function tool with name, description and schema.

Claude knows the tool by its type and needs none of this.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from retentive.integrations.messages import TOOL
from retentive.storage.contract import Actor
from retentive.values.replies import Reply


class Executes(Protocol):
    """What a door needs of a memory: a `MemoryStore`, or several of them as one tree."""

    def execute(self, command: object, *, actor: Actor | str | None = None) -> Reply:
        """The reply to a command, given as the raw input of a tool call."""


NAME: Final = TOOL["name"]

DESCRIPTION: Final = """\
Text files below /memories that outlast this conversation. Look at /memories before you start, and write down what
will matter later. Commands and their fields:
- view (path, view_range): what lies in a directory, or the lines of a file, numbered; the numbers are not in the file
- create (path, file_text): a new file
- str_replace (path, old_str, new_str): old_str must occur exactly once; without new_str it is taken out
- insert (path, insert_line, insert_text): new lines after line insert_line, 0 is the top
- delete (path): a file, or a directory with all below it
- rename (old_path, new_path): moves a file or a directory"""


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            "description": "What to do.",
        },
        "path": _text("The file or directory, for all commands but rename. Starts with /memories."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "For view of a file: first and last line to show, -1 for the end.",
        },
        "file_text": _text("For create: the whole text."),
        "old_str": _text("For str_replace: the text to replace."),
        "new_str": _text("For str_replace: the text to put there."),
        "insert_line": {"type": "integer", "description": "For insert: the line after which to insert."},
        "insert_text": _text("For insert: the lines to put in."),
        "old_path": _text("For rename: what to move."),
        "new_path": _text("For rename: where to."),
    },
    "required": ["command"],
}
"""One flat object: some APIs refuse alternatives at the top of a schema. What does not fit together is answered."""
