"""The tools of a memory, described for models: names, texts and JSON schemas of the six commands and of the search.

SDKs, function calling and MCP use these definitions. The schemas allow combinations of fields that are invalid. A call
with such a combination gets an error reply, which says what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MEMORY, SEARCH = "memory", "memory_search"
SEARCH_LIMIT, MAX_SEARCH_LIMIT = 10, 20
"""Default and maximum number of memories in a search reply. 20 of them fill about one page of `view`."""

PROTOCOL: Final = """\
IMPORTANT: ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING ANYTHING ELSE.
MEMORY PROTOCOL:
1. Use the `view` command of your `memory` tool to check for earlier progress.
2. ... (work on the task) ...
     - As you make progress, record status / progress / thoughts etc in your memory.
ASSUME INTERRUPTION: Your context window might be reset at any moment, so you risk losing any progress that is not \
recorded in your memory directory."""
"""Memory protocol, which the API adds to the system prompt for Claude's built-in memory tool."""


@dataclass(frozen=True, slots=True)
class CommandSchema:
    """Description of a command: a title, a line for the tool with all commands, and sentences for a tool of its own.

    `fields` maps the names of its fields to their JSON schemas.
    """

    title: str
    line: str
    description: str
    fields: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]


def text_field(description: str) -> dict[str, Any]:
    """Return the schema of a field that is a string."""
    return {"type": "string", "description": description}


PATH: Final = text_field("The file or directory. Starts with /memories.")
_FILE: Final = text_field("The file. Starts with /memories.")
COMMANDS: Final[Mapping[str, CommandSchema]] = {
    "view": CommandSchema(
        "View memory",
        "list a directory, or show a file with line numbers, which are not part of the file",
        "Lists a directory of memory files, or shows a file with line numbers, which are not part of the file. View"
        " /memories before you start a task.",
        {
            "path": PATH,
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "First and last line to show of a file, -1 for the end.",
            },
        },
        ("path",),
    ),
    "create": CommandSchema(
        "Create memory",
        "create a new file",
        "Creates a memory file. Record what will matter in later conversations, one topic per file.",
        {"path": _FILE, "file_text": text_field("The full text of the file.")},
        ("path", "file_text"),
    ),
    "str_replace": CommandSchema(
        "Edit memory",
        "replace old_str, which must occur exactly once; without new_str, remove it",
        "Replaces a text in a memory file. The text must occur exactly once; without new_str it is removed.",
        {"path": _FILE, "old_str": text_field("The text to replace."), "new_str": text_field("The replacement.")},
        ("path", "old_str"),
    ),
    "insert": CommandSchema(
        "Insert into memory",
        "insert lines after line insert_line; 0 is the top",
        "Inserts lines into a memory file.",
        {
            "path": _FILE,
            "insert_line": {"type": "integer", "description": "The line after which to insert; 0 is the top."},
            "insert_text": text_field("The lines to insert."),
        },
        ("path", "insert_line", "insert_text"),
    ),
    "delete": CommandSchema(
        "Delete memory",
        "delete a file, or a directory with everything in it",
        "Deletes a memory file, or a directory with everything in it.",
        {"path": PATH},
        ("path",),
    ),
    "rename": CommandSchema(
        "Rename memory",
        "move a file or a directory",
        "Moves a memory file or directory. The new path must be free.",
        {"old_path": PATH, "new_path": text_field("The new path.")},
        ("old_path", "new_path"),
    ),
}

MEMORY_DESCRIPTION: Final = """\
Text files below /memories that persist after this conversation. View /memories before you start, and record what
will matter later. Commands and their fields:
""" + "\n".join(f"- {name} ({', '.join(each.fields)}): {each.line}" for name, each in COMMANDS.items())


def _flat_schema() -> dict[str, Any]:
    """Return the schema of all commands. It is flat, because some APIs reject `oneOf` at the top level."""
    command = {"type": "string", "enum": list(COMMANDS), "description": "The command to run."}
    path = text_field("The file or directory, for all commands but rename. Starts with /memories.")
    fields: dict[str, Any] = {"command": command, "path": path}
    for name, each in COMMANDS.items():
        for field, schema in each.fields.items():
            described = {**schema, "description": f"For {name}. {schema['description']}"}
            fields.setdefault(field, described)
    return {"type": "object", "properties": fields, "required": ["command"]}


MEMORY_SCHEMA: Final = _flat_schema()
SEARCH_DESCRIPTION: Final = """\
Finds text files below /memories that answer a question, best first, with their best lines; view a file to read more. \
Ask in your own words: any word counts, rare ones most, in any word form; dates and identifiers are recognised. \
Operators: "exact phrase", +required, -excluded, path:part/of/path, by:actor, since:2026-05-01, before:2d, and \
is:proposed for your changes that await review. Matching is by words, not by meaning: if nothing fits, try others."""
SEARCH_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": text_field('Question or words to look for: when are refunds paid? refund "30 days" -draft'),
        "path": text_field("Search only this directory or file. Starts with /memories."),
        "limit": {
            "type": "integer",
            "description": f"Maximum number of files, 1 to {MAX_SEARCH_LIMIT}; the default is {SEARCH_LIMIT}.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
