"""MCP tools: their definitions, and the functions that run them on a memory store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from retentive.engine.repeats import is_api_id
from retentive.integrations import function_tool, search_tool
from retentive.mcp import documents, past
from retentive.mcp.answers import Arguments, ToolAnswer, answered, view_within_limit
from retentive.store import MemoryStore


@dataclass(frozen=True, slots=True)
class McpCall:
    """Call of a tool. `call_id` is an id or None. A client that sends the same call again sends the same id.

    `url_of` returns the URL of a memory. Its arguments are the path and the id of the memory.
    """

    store: MemoryStore
    arguments: Arguments
    url_of: documents.UrlOf
    call_id: str | None = None
    run: str | None = None
    """Run in which `call_id` is unique, or None if only ids of the Claude API are."""


RunMcpTool: TypeAlias = Callable[[McpCall], ToolAnswer]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Definition of an MCP tool. `properties` maps the names of its arguments to their JSON schemas.

    `read_only`, `destructive` and `idempotent` become annotations of the tool.
    """

    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    run: RunMcpTool = field(repr=False)
    required: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    always_loaded: bool = False
    """True if Claude Code should always show the tool to the model, even when it searches for tools on demand."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments.

        `run` checks the arguments itself. If an argument is invalid, the reply describes the expected value.
        """
        return {"type": "object", "properties": dict(self.properties), "required": list(self.required)}

    def writes(self, arguments: Arguments) -> bool:
        """Return whether a call with these arguments may change the memory store."""
        is_view = self.name == ONE_TOOL and arguments.get("command") == "view"
        return not (self.read_only or is_view)


ONE_TOOL = function_tool.NAME
EXPECTED_COUNT = "expected_count"
_COUNT = {
    "type": "integer",
    "description": "For a directory with many files: how many of them you expect to delete.",
}


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_PATH = _text("The file or directory. Starts with /memories.")
_FILE = _text("The file. Starts with /memories.")


def deletes(name: str, arguments: Arguments) -> bool:
    """Return whether a call deletes memories."""
    return name == "memory_delete" or (name == ONE_TOOL and arguments.get("command") == "delete")


def _command(command: str, call: McpCall) -> ToolAnswer:
    """Run the memory command `command`. If the arguments of the call contain a `command`, it is ignored."""
    given = {name: value for name, value in call.arguments.items() if name != EXPECTED_COUNT}
    return ToolAnswer.of(call.store.execute({**given, "command": command}, tool_use_id=call.call_id, run=call.run))


def _view(call: McpCall) -> ToolAnswer:
    answer = _command("view", call)
    return replace(answer, text=view_within_limit(answer.text, "memory_view"))


def _any_command(call: McpCall) -> ToolAnswer:
    command = {name: value for name, value in call.arguments.items() if name != EXPECTED_COUNT}
    answer = ToolAnswer.of(call.store.execute(command, tool_use_id=call.call_id, run=call.run))
    return replace(answer, text=view_within_limit(answer.text, "view"))


def _search(call: McpCall) -> ToolAnswer:
    return ToolAnswer.of(search_tool.search_reply(call.store, call.arguments))


def _history(call: McpCall) -> ToolAnswer:
    return past.history(call.store, call.arguments)


def _diff(call: McpCall) -> ToolAnswer:
    return past.difference(call.store, call.arguments)


def _undo(call: McpCall) -> ToolAnswer:
    return past.undo(call.store, call.arguments, call.call_id if call.run or is_api_id(call.call_id) else None)


def _documents(call: McpCall) -> ToolAnswer:
    return documents.search(call.store, call.arguments, call.url_of)


def _fetch(call: McpCall) -> ToolAnswer:
    return documents.fetch(call.store, call.arguments, call.url_of)


TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "memory_view",
        "View memory",
        "Lists a directory of memory files, or shows a file with line numbers, which are not part of the file. View"
        " /memories before you start a task.",
        {
            "path": _PATH,
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "First and last line to show of a file, -1 for the end.",
            },
        },
        _view,
        ("path",),
        read_only=True,
        idempotent=True,
        always_loaded=True,
    ),
    ToolSpec(
        search_tool.NAME,
        "Search memory",
        search_tool.DESCRIPTION,
        search_tool.INPUT_SCHEMA["properties"],
        _search,
        ("query",),
        read_only=True,
        idempotent=True,
        always_loaded=True,
    ),
    ToolSpec(
        "memory_history",
        "List memory changes",
        "Lists changes of memory files, newest first: number, time, path, author and version id.",
        {
            "path": _text("Only changes of this file or directory. Starts with /memories."),
            "limit": {"type": "integer", "description": f"Maximum number of changes, 1 to {past.MAX_LIMIT}."},
            "before": _text("Id of a version: only earlier changes."),
        },
        _history,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "memory_diff",
        "Compare memory versions",
        "Shows what a change did to memory files, or the difference of two versions, as a unified diff. Without"
        " arguments, shows the newest change.",
        {
            "change": _text("A change such as r12 or HEAD, or the id of a version."),
            "path": _text("Only this file or directory. Starts with /memories."),
            "since": _text("Id of the older version, with `until`."),
            "until": _text("Id of the newer version, with `since`."),
        },
        _diff,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "memory_create",
        "Create memory",
        "Creates a memory file. Record what will matter in later conversations, one topic per file.",
        {"path": _FILE, "file_text": _text("The full text of the file.")},
        partial(_command, "create"),
        ("path", "file_text"),
        idempotent=True,
    ),
    ToolSpec(
        "memory_str_replace",
        "Edit memory",
        "Replaces a text in a memory file. The text must occur exactly once; without new_str it is removed.",
        {"path": _FILE, "old_str": _text("The text to replace."), "new_str": _text("The replacement.")},
        partial(_command, "str_replace"),
        ("path", "old_str"),
        destructive=True,
    ),
    ToolSpec(
        "memory_insert",
        "Insert into memory",
        "Inserts lines into a memory file.",
        {
            "path": _FILE,
            "insert_line": {"type": "integer", "description": "The line after which to insert; 0 is the top."},
            "insert_text": _text("The lines to insert."),
        },
        partial(_command, "insert"),
        ("path", "insert_line", "insert_text"),
    ),
    ToolSpec(
        "memory_rename",
        "Rename memory",
        "Moves a memory file or directory. The new path must be free.",
        {"old_path": _PATH, "new_path": _text("The new path.")},
        partial(_command, "rename"),
        ("old_path", "new_path"),
        destructive=True,
        idempotent=True,
    ),
    ToolSpec(
        "memory_delete",
        "Delete memory",
        "Deletes a memory file, or a directory with everything in it.",
        {"path": _PATH, EXPECTED_COUNT: _COUNT},
        partial(_command, "delete"),
        ("path",),
        destructive=True,
        idempotent=True,
    ),
    ToolSpec(
        "memory_undo",
        "Undo memory change",
        "Undoes one of your own changes, by default the newest, and keeps later changes of other lines. Changes by"
        " others cannot be undone. An undo is itself a change, which can be undone.",
        {
            "change": _text("A change such as r12, or the id of one of its versions."),
            "path": _text("Without `change`: the newest change of this file or directory."),
        },
        _undo,
        destructive=True,
    ),
    ToolSpec(
        "search",
        "Search documents",
        "Finds memory files that answer a question. Returns ids for `fetch`.",
        {"query": search_tool.INPUT_SCHEMA["properties"]["query"]},
        _documents,
        ("query",),
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        "fetch",
        "Fetch document",
        "Returns the text of a memory file that `search` found.",
        {"id": _text("Id of the memory, such as mem_...")},
        _fetch,
        ("id",),
        read_only=True,
        idempotent=True,
    ),
)

ONE_TOOL_ONLY = (
    ToolSpec(
        ONE_TOOL,
        "Memory",
        function_tool.DESCRIPTION,
        {**function_tool.INPUT_SCHEMA["properties"], EXPECTED_COUNT: _COUNT},
        _any_command,
        ("command",),
        destructive=True,
        always_loaded=True,
    ),
)

AUDITED = {"memory_search": "search", "search": "search", "fetch": "read", "memory_history": "log"} | {
    "memory_diff": "diff",
    "memory_undo": "undo",
}
"""Names of operations in the audit log, by the names of the tools that are not memory commands."""


def run(tool: ToolSpec, call: McpCall) -> ToolAnswer:
    """Run a tool and return its result. Errors of the input or of storage become results too."""
    return answered(call.store, AUDITED.get(tool.name, "command"), lambda: tool.run(call))
