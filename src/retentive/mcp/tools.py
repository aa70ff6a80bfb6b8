"""MCP tools: their definitions, and the functions that run them on a memory store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from mcp import types as t

from retentive.engine.rendering import STORAGE_REPLIES, error_reply
from retentive.engine.repeats import is_api_id
from retentive.errors import NotFound, Refused, RetentiveError
from retentive.integrations.schemas import (
    COMMANDS,
    MEMORY,
    MEMORY_DESCRIPTION,
    MEMORY_SCHEMA,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_SCHEMA,
    CommandSchema,
    text_field,
)
from retentive.integrations.search_tool import search_reply
from retentive.mcp import answers, past
from retentive.mcp.answers import (
    MAX_REPLY_CHARS,
    Arguments,
    number_field,
    required_text,
    result_of,
    view_within_limit,
)
from retentive.mounts import StoreOrMounts, shown_path, stores_of
from retentive.search.recall import LEAST_TOKENS
from retentive.store import core_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Memory
from retentive.values.replies import Reply

MAX_DOCUMENTS, MAX_RECALL_TOKENS = 10, 10_000
UrlOf: TypeAlias = Callable[[str, str], str]
"""Function that returns the URL of a memory. Its arguments are the path and the id of the memory."""


@dataclass(frozen=True, slots=True)
class McpCall:
    """Call of a tool. `call_id` is an id or None. A client that sends the same call again sends the same id.

    `url_of` returns the URL of a memory. Its arguments are the path and the id of the memory.
    """

    store: StoreOrMounts
    arguments: Arguments
    url_of: UrlOf
    call_id: str | None = None
    run: str | None = None
    """Run in which `call_id` is unique, or None if only ids of the Claude API are."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Definition of an MCP tool. `properties` maps the names of its arguments to their JSON schemas.

    `read_only`, `destructive` and `idempotent` become annotations of the tool.
    """

    name: str
    title: str
    description: str
    properties: Mapping[str, Any]
    run: Callable[[McpCall], t.CallToolResult | Reply] = field(repr=False)
    required: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    always_loaded: bool = False
    """True if Claude Code should always show the tool to the model, even when it searches for tools on demand."""
    audited: str = "command"
    """Name of the operation in the audit log."""

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


ONE_TOOL = MEMORY
EXPECTED_COUNT = "expected_count"
_COUNT = {
    "type": "integer",
    "description": "For a directory with many files: how many of them you expect to delete.",
}
_CHANGE = text_field("A change such as r12 or HEAD, or the id of a version.")


def deletes(name: str, arguments: Arguments) -> bool:
    """Return whether a call deletes memories."""
    return name == "memory_delete" or (name == ONE_TOOL and arguments.get("command") == "delete")


def _executed(command: str | None, call: McpCall) -> Reply:
    """Run a memory command. For a tool of one `command`, a `command` in the arguments of the call is ignored."""
    given = {name: value for name, value in call.arguments.items() if name != EXPECTED_COUNT}
    given = given if command is None else {**given, "command": command}
    reply = call.store.execute(given, tool_use_id=call.call_id, run=call.run)
    view = {None: "view", "view": "memory_view"}.get(command)
    return reply if view is None else replace(reply, text=view_within_limit(reply.text, view))


def _search(call: McpCall) -> t.CallToolResult:
    """Run `search`. Its result and that of `fetch` have the form that ChatGPT and other research clients expect.

    Each is a JSON text, with the same value as structured content. Source: OpenAI, "Building MCP servers for ChatGPT".
    """
    found = call.store.search(required_text(call.arguments, "query", "search"), limit=MAX_DOCUMENTS)
    documents = [
        {"id": hit.memory_id, "title": _title(hit.path), "url": call.url_of(hit.path, hit.memory_id)}
        for hit in found.hits
    ]
    return _json({"results": documents})


def _title(path: str) -> str:
    return path.removeprefix(f"{ROOT}/")


def _fetch(call: McpCall) -> t.CallToolResult:
    memory, text = _by_id(call.store, required_text(call.arguments, "id", "fetch"))
    found: dict[str, Any] = {
        "id": memory.id,
        "title": _title(memory.path),
        "text": text,
        "url": call.url_of(memory.path, memory.id),
        "metadata": {"version": memory.version_id, "updated_at": memory.updated_at.isoformat()},
    }
    room = MAX_REPLY_CHARS - len(json.dumps({**found, "text": ""})) - 200
    if len(_dumped(text)) > room:
        shown = text[:room]
        shown = shown[: room * room // max(room, len(_dumped(shown)))]  # JSON escapes make a text longer
        found["text"] = shown
        found["metadata"]["truncated"] = f"{len(shown)} of {len(text)} characters; view {memory.path} to read the rest"
    return _json(found)


def _recall(call: McpCall) -> t.CallToolResult:
    question = required_text(call.arguments, "question", "recall")
    budget = number_field(call.arguments, "budget_tokens", default=400, most=MAX_RECALL_TOKENS)
    path = MemoryPath.parse(answers.text_field(call.arguments, "path") or ROOT)
    found = call.store.recall(question, budget_tokens=budget, under=path.text)
    return result_of(found.text or "Nothing fits. Try other words, or memory_view.")


def _by_id(tree: StoreOrMounts, memory_id: str) -> tuple[Memory, str]:
    for point, store in stores_of(tree).items():
        with suppress(NotFound):
            memory, text = store.by_id.get(memory_id)
            if path := shown_path(tree, point, memory.path):
                return replace(memory, path=path), text
    raise NotFound(f"there is no memory {memory_id}")


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(value: dict[str, Any]) -> t.CallToolResult:
    return result_of(_dumped(value), structured=value)


def _command_tool(name: str, command: CommandSchema) -> ToolSpec:
    more = {EXPECTED_COUNT: _COUNT} if name == "delete" else {}
    return ToolSpec(
        f"memory_{name}",
        command.title,
        command.description,
        {**command.fields, **more},
        partial(_executed, name),
        command.required,
        read_only=name == "view",
        destructive=name in ("str_replace", "rename", "delete"),
        idempotent=name not in ("str_replace", "insert"),
        always_loaded=name == "view",
    )


TOOLS: tuple[ToolSpec, ...] = (
    *(_command_tool(name, command) for name, command in COMMANDS.items()),
    ToolSpec(
        SEARCH,
        "Search memory",
        SEARCH_DESCRIPTION,
        SEARCH_SCHEMA["properties"],
        lambda call: search_reply(call.store, call.arguments),
        ("query",),
        read_only=True,
        idempotent=True,
        always_loaded=True,
        audited="search",
    ),
    ToolSpec(
        "memory_recall",
        "Recall from memory",
        "Returns the lines of all memory files that best fit a question, with their headings, within a budget of"
        " tokens. Use it first when you need facts; use memory_search to find files.",
        {
            "question": text_field("Question in your own words: how long do refunds take?"),
            "budget_tokens": {
                "type": "integer",
                "description": f"Maximum length of the result, {LEAST_TOKENS} to {MAX_RECALL_TOKENS}; default 400.",
            },
            "path": text_field("Only this file or directory. Starts with /memories."),
        },
        _recall,
        ("question",),
        read_only=True,
        idempotent=True,
        audited="recall",
    ),
    ToolSpec(
        "memory_history",
        "List memory changes",
        "Lists changes of memory files, newest first: number, time, path, author and version id.",
        {
            "path": text_field("Only changes of this file or directory. Starts with /memories."),
            "limit": {"type": "integer", "description": f"Maximum number of changes, 1 to {past.MAX_LIMIT}."},
            "before": text_field("Id of a version: only earlier changes."),
        },
        lambda call: past.history(call.store, call.arguments),
        read_only=True,
        idempotent=True,
        audited="log",
    ),
    ToolSpec(
        "memory_diff",
        "Compare memory versions",
        "Shows what a change did to memory files, or the difference of two versions, as a unified diff. Without"
        " arguments, shows the newest change.",
        {
            "change": _CHANGE,
            "path": text_field("Only this file or directory. Starts with /memories."),
            "since": text_field("Id of the older version, with `until`."),
            "until": text_field("Id of the newer version, with `since`."),
        },
        lambda call: past.difference(call.store, call.arguments),
        read_only=True,
        idempotent=True,
        audited="diff",
    ),
    ToolSpec(
        "memory_undo",
        "Undo memory change",
        "Undoes one of your own changes, by default the newest, and keeps later changes of other lines. Changes by"
        " others cannot be undone. An undo is itself a change, which can be undone.",
        {
            "change": _CHANGE,
            "path": text_field("Without `change`: the newest change of this file or directory."),
        },
        lambda call: past.undo(
            call.store, call.arguments, call.call_id if call.run or is_api_id(call.call_id) else None
        ),
        destructive=True,
        audited="undo",
    ),
    ToolSpec(
        "search",
        "Search documents",
        "Finds memory files that answer a question. Returns ids for `fetch`.",
        {"query": SEARCH_SCHEMA["properties"]["query"]},
        _search,
        ("query",),
        read_only=True,
        idempotent=True,
        audited="search",
    ),
    ToolSpec(
        "fetch",
        "Fetch document",
        "Returns the text of a memory file that `search` found.",
        {"id": text_field("Id of the memory, such as mem_...")},
        _fetch,
        ("id",),
        read_only=True,
        idempotent=True,
        audited="read",
    ),
)

ONE_TOOL_ONLY = (
    ToolSpec(
        ONE_TOOL,
        "Memory",
        MEMORY_DESCRIPTION,
        {**MEMORY_SCHEMA["properties"], EXPECTED_COUNT: _COUNT},
        partial(_executed, None),
        ("command",),
        destructive=True,
        always_loaded=True,
    ),
)


def run(tool: ToolSpec, call: McpCall) -> t.CallToolResult:
    """Run a tool and return its result. Errors of the input or of storage become results too."""
    core = core_of(call.store)
    try:
        found = tool.run(call)
    except Refused as refusal:
        found = core.refused(tool.audited, refusal)
    except RetentiveError as error:
        # The reply for `NotFound` would say that the memory store was erased; here it can also be a missing memory.
        if error.code in STORAGE_REPLIES and not isinstance(error, NotFound):
            found = error_reply(core, error)
        else:
            own = str(core.actor or "")  # the caller's own name is no secret, though a key's id looks like one
            parts = str(error).split(own) if own else [str(error)]
            text = own.join(map(core.redacted, parts))
            found = Reply(text if text.startswith("Error") else f"Error: {text}", is_error=True)
    return result_of(found.text, is_error=found.is_error) if isinstance(found, Reply) else found
