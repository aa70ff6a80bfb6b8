"""Parses requests, checks the order of messages and of tool calls, and stores message threads. Does no I/O.

Sources: Messages API reference, "Tool use", "Server tools", "Message threads"; error types of the `anthropic` SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from retentive.testing.scripted_claude.edits import ContextEdit, parse_edits
from retentive.testing.scripted_claude.errors import ApiError, invalid, refuse_if
from retentive.testing.scripted_claude.messages import (
    COMPACTION,
    THINKING,
    Block,
    Conversation,
    Message,
    as_blocks,
    merge_messages,
)


@dataclass(frozen=True, slots=True)
class Request:
    """Request of `POST /v1/messages` or of `count_tokens`.

    `thinks` is True if thinking is enabled. `thread` is None without a message thread, "create" for a new thread, or
    "continue" for a thread whose last message has the id `previous_message_id`. `edits` is None if the request has no
    field `context_management`.
    """

    messages: tuple[Message, ...]
    system: object
    tools: tuple[Block, ...]
    thinks: bool
    thread: str | None
    previous_message_id: str
    edits: tuple[ContextEdit, ...] | None
    cache_control: object

    @classmethod
    def of(cls, body: Mapping[str, object]) -> Request:
        """Create a request from its JSON body, which must already be checked."""
        thread, thinking = body.get("thread"), body.get("thinking")
        thread = thread if isinstance(thread, Mapping) else {}
        messages, tools = body.get("messages"), body.get("tools")
        return cls(
            messages=tuple(Message(str(m["role"]), as_blocks(m.get("content"))) for m in as_blocks(messages)),
            system=body.get("system"),
            tools=as_blocks(tools),
            thinks=isinstance(thinking, Mapping) and thinking.get("type") == "enabled",
            thread=None if "type" not in thread else str(thread["type"]),
            previous_message_id=str(thread.get("previous_message_id", "")),
            edits=parse_edits(body.get("context_management")),
            cache_control=body.get("cache_control"),
        )


class Threads:
    """Conversations of clients that use message threads. The key of a conversation is the id of its last reply."""

    def __init__(self, *, supported: bool = True) -> None:
        self._supported = supported
        self._threads: dict[str, Conversation] = {}
        self._continued: set[str] = set()

    def join(self, request: Request) -> Conversation:
        """Return the complete conversation of a request. If it continues a thread, the stored messages come first.

        Raises `ApiError` if the thread is unknown or was already continued, or if the request cannot use a thread.
        """
        if request.thread is not None and (request.edits is not None or not self._supported):
            unsupported = {"unsupported": ["context_management"]} if request.edits is not None else {}
            details = {"error_code": "thread_unsupported_request", **unsupported}
            raise ApiError(
                400, "This request cannot be threaded; send the full conversation without `thread`.", details
            )
        if request.thread != "continue":
            return Conversation(merge_messages(request.messages), request.system, request.tools)
        given = request.system is not None or request.tools
        refuse_if(given, "thread: `system` and `tools` are taken from the thread; leave them out of a continue request")
        previous = request.previous_message_id
        past = self._threads.get(previous)
        if past is None:
            details = {"error_code": "thread_not_found"}
            raise ApiError(404, f"No thread was found for previous_message_id '{previous}'.", details)
        if previous in self._continued:
            details = {"error_code": "thread_already_continued"}
            raise ApiError(400, f"The response '{previous}' has already been continued.", details)
        return replace(past, messages=merge_messages((*past.messages, *request.messages)))

    def keep(self, request: Request, conversation: Conversation, reply_id: str, reply: Sequence[Block]) -> None:
        """Store the conversation with its reply, if the request uses a thread.

        After that, the next request of the thread must continue from this reply.
        """
        if request.thread is None:
            return
        if request.thread == "continue":
            self._continued.add(request.previous_message_id)
        messages = (*conversation.messages, Message("assistant", tuple(reply)))
        self._threads[reply_id] = replace(conversation, messages=messages)


class PausedReplies:
    """Stores replies with the stop reason "pause_turn".

    A client sends such a reply back unchanged to continue the turn.
    """

    def __init__(self) -> None:
        self._replies: set[tuple[str, ...]] = set()

    def keep(self, stop_reason: str, reply: Sequence[Block]) -> None:
        """Store a reply if its stop reason is "pause_turn"."""
        if stop_reason == "pause_turn" and (blocks := _serialize(reply)):
            self._replies.add(blocks)

    def ends(self, message: Message) -> bool:
        """Return whether a message ends with a paused reply, a call of a server tool, or a result of a server tool."""
        last = str(message.blocks[-1].get("type"))
        blocks = _serialize(message.blocks)
        resumed = any(blocks[len(blocks) - len(reply) :] == reply for reply in self._replies)
        return resumed or last == "server_tool_use" or (last.endswith("_tool_result") and last != "tool_result")


def check_conversation(messages: Sequence[Message], *, thinks: bool = False, paused: PausedReplies) -> None:
    """Raise `ApiError` if the roles are in a wrong order, or if tool calls and results do not match.

    The caller must already have merged consecutive messages of the same role. A conversation starts with a user
    message, or with a compaction block that replaces earlier messages. It ends with a user message, a compaction block
    or a paused reply. `thinks` is True if thinking is enabled in the request.
    """
    refuse_if(not messages, "messages: at least one message is required")
    is_wrong = messages[0].role != "user" and messages[0].blocks[0].get("type") != COMPACTION
    refuse_if(is_wrong, 'messages: first message must use the "user" role')
    previous: Message | None = None
    seen: set[str] = set()
    for n, message in enumerate(messages):
        _check_ids(f"messages.{n}", message, seen)
        _check_results(n, message, previous)
        previous = message
    _check_server_calls(messages)
    last = messages[-1]
    if last.role != "user" and last.blocks[-1].get("type") != COMPACTION and not paused.ends(last):
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    if thinks and last.of_type("tool_result") and messages[-2].blocks[0].get("type") not in (*THINKING, COMPACTION):
        raise invalid(
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{messages[-2].blocks[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must "
            "start with a thinking block."
        )


def _check_ids(where: str, message: Message, seen: set[str]) -> None:
    for m, block in enumerate(message.blocks):
        if block.get("type") == "tool_use":
            refuse_if(block["id"] in seen, f"{where}.content.{m}: `tool_use` ids must be unique")
            seen.add(str(block["id"]))


def _check_results(n: int, message: Message, previous: Message | None) -> None:
    uses = [str(block["id"]) for block in previous.of_type("tool_use")] if previous is not None else []
    results: list[str] = []
    for m, block in enumerate(message.blocks):
        if block.get("type") == "tool_result":
            tool_use_id, where = str(block["tool_use_id"]), f"messages.{n}.content.{m}"
            if tool_use_id not in uses:
                raise invalid(
                    f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {tool_use_id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if tool_use_id in results:
                raise invalid(
                    f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                    f"{tool_use_id}"
                )
            results.append(tool_use_id)
    leading = {str(block.get("tool_use_id")) for block in message.blocks[: len(results)]}
    if missing := [tool_use_id for tool_use_id in uses if tool_use_id not in leading]:
        raise invalid(
            f"messages.{n - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _check_server_calls(messages: Sequence[Message]) -> None:
    """Check the calls of server tools and MCP tools.

    Raises `ApiError` if a call has no result when its turn ends, or if a result has no call.
    """
    calls: dict[str, tuple[str, str]] = {}  # calls without a result, by id: path of the message, name of the tool
    for n, message in enumerate(messages):
        if message.role == "user" and len(message.of_type("tool_result")) < len(message.blocks):
            _refuse_open(calls)
        for m, block in enumerate(message.blocks):
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                name = "mcp" if kind == "mcp_tool_use" else str(block["name"])
                calls[str(block["id"])] = f"messages.{n}", "tool_search" if name.startswith("tool_search") else name
            elif kind.endswith("_tool_result"):
                call = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
                if calls.pop(str(block["tool_use_id"]), None) is None:
                    raise invalid(
                        f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `{kind}` blocks: "
                        f"{block['tool_use_id']}. Each `{kind}` block must have a corresponding `{call}` block before "
                        "it."
                    )


def _refuse_open(calls: Mapping[str, tuple[str, str]]) -> None:
    for call_id, (where, name) in calls.items():
        raise invalid(
            f"{where}: `{name}` tool use with id `{call_id}` was found without a corresponding `{name}_tool_result` "
            "block"
        )


def _serialize(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Serialize blocks so that a reply can be compared with the blocks that a client sends back.

    Null fields are omitted, because some clients add null for missing fields. Blank texts are omitted, because clients
    do not send them back: the API refuses blank texts in requests.
    """
    kept = [block for block in blocks if block.get("type") != "text" or str(block.get("text")).strip()]
    compact = ({name: value for name, value in block.items() if value is not None} for block in kept)
    return tuple(json.dumps(block, sort_keys=True) for block in compact)
