"""Parsing and validation of requests as in the Messages API, and storage of message threads. No I/O.

`parse` reads a request, `Threads.join` adds the stored part of its conversation, and `check_conversation` validates the
complete conversation. Each raises `ApiError` for a request that the API would reject. Sources: Messages API reference,
"Errors" and "Tool use"; message threads documentation; the error types of the `anthropic` SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.edits import ContextEdit, parse_edits
from retentive.testing.scripted_claude.errors import ApiError, T, invalid, typed
from retentive.testing.scripted_claude.messages import COMPACTION, Block, Conversation, Message, merge_messages

THREADS_BETA = "message-threads-2026-08-12"
MEMORY_TOOL = {"type": "memory_20250818", "name": "memory"}


@dataclass(frozen=True, slots=True)
class Request:
    """Request of `POST /v1/messages` or of `count_tokens`, which has no `max_tokens`.

    `thread` is None, "create", or "continue" from `previous_message_id`. `edits` is None without `context_management`.
    """

    model: str
    max_tokens: int
    messages: tuple[Message, ...]
    system: object
    tools: tuple[Block, ...]
    stream: bool
    thread: str | None
    previous_message_id: str
    edits: tuple[ContextEdit, ...] | None
    cache_control: object = None


class Threads:
    """Stored conversations of clients that use message threads.

    The key of each conversation is the id of its last reply.
    """

    def __init__(self, *, supported: bool = True) -> None:
        self._supported = supported
        self._threads: dict[str, Conversation] = {}
        self._continued: set[str] = set()

    def join(self, request: Request) -> Conversation:
        """Return the complete conversation of a request, including the stored part of its thread."""
        if request.thread is not None:
            self._check_supported(request)
        if request.thread != "continue":
            return Conversation(merge_messages(request.messages), request.system, request.tools)
        if request.system is not None or request.tools:
            raise invalid(
                "thread: `system` and `tools` are taken from the thread; leave them out of a continue request"
            )
        past = self._threads.get(request.previous_message_id)
        if past is None:
            message = f"No thread was found for previous_message_id {request.previous_message_id!r}."
            raise ApiError(404, "not_found_error", message, {"error_code": "thread_not_found"})
        if request.previous_message_id in self._continued:
            message = f"The response {request.previous_message_id!r} has already been continued."
            raise ApiError(400, "invalid_request_error", message, {"error_code": "thread_already_continued"})
        return replace(past, messages=merge_messages((*past.messages, *request.messages)))

    def keep(self, request: Request, conversation: Conversation, reply_id: str, reply: Sequence[Block]) -> None:
        """Store the conversation with its reply, if the request uses a thread.

        The thread can then be continued only from this reply.
        """
        if request.thread is None:
            return
        if request.thread == "continue":
            self._continued.add(request.previous_message_id)
        messages = (*conversation.messages, Message("assistant", tuple(reply)))
        self._threads[reply_id] = replace(conversation, messages=messages)

    def _check_supported(self, request: Request) -> None:
        details: dict[str, object] = {"error_code": "thread_unsupported_request"}
        if request.edits is not None:
            details["unsupported"] = ["context_management"]
        elif self._supported:
            return
        message = "This request cannot be threaded; send the full conversation without `thread`."
        raise ApiError(400, "invalid_request_error", message, details)


def parse(headers: Mapping[str, str], body: object, choices: Choices, *, counting: bool = False) -> Request:
    """Parse a request. Header names must be lower case. Raises `ApiError`."""
    _check_headers(headers)
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object.")
    betas = {beta.strip() for beta in headers.get("anthropic-beta", "").split(",")}
    if body.get("thread") is not None and (THREADS_BETA not in betas or counting):
        raise invalid(f"thread: Extra inputs are not permitted (this needs the beta header {THREADS_BETA})")
    if body.get("compaction") is not None:
        raise invalid("[scripted Claude] compaction: compaction on request is not supported; use compact_20260112")
    thread, previous_message_id = _thread(body.get("thread"))
    model = _required(body, "model", str)
    if not model:
        raise invalid("model: Input should be a valid string")
    max_tokens = 0 if counting else _required(body, "max_tokens", int)
    if max_tokens < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    messages = _required(body, "messages", list)
    return Request(
        model=model,
        max_tokens=max_tokens,
        messages=tuple(_message(message, f"messages.{n}") for n, message in enumerate(messages)),
        system=body.get("system"),
        tools=_tools(body),
        stream=body.get("stream") is True and not counting,
        thread=thread,
        previous_message_id=previous_message_id,
        edits=parse_edits(body, betas, choices),
        cache_control=body.get("cache_control"),
    )


class PausedReplies:
    """Stores replies with the stop reason "pause_turn".

    A client sends such a reply back unchanged to continue the turn.
    """

    def __init__(self) -> None:
        self._replies: set[tuple[str, ...]] = set()

    def keep(self, stop_reason: str, reply: Sequence[Block]) -> None:
        """Store a reply if its stop reason is "pause_turn"."""
        if stop_reason == "pause_turn" and reply:
            self._replies.add(_serialize(reply))

    def ends(self, message: Message) -> bool:
        """Return True if the last message of a conversation ends with a paused reply or a block of a server tool."""
        last = str(message.blocks[-1].get("type"))
        blocks = _serialize(message.blocks)
        resumed = any(blocks[len(blocks) - len(reply) :] == reply for reply in self._replies)
        return resumed or last == "server_tool_use" or (last.endswith("_tool_result") and last != "tool_result")


def check_conversation(conversation: Conversation, paused: PausedReplies) -> None:
    """Raise `ApiError` if the API would reject the messages, for a wrong order of roles or a tool call without result.

    A conversation can start with a compaction block, which replaces earlier messages. It can end with a compaction
    block or with a paused reply.
    """
    messages = conversation.messages
    if not messages:
        raise invalid("messages: at least one message is required")
    if messages[0].role != "user" and messages[0].blocks[0].get("type") != COMPACTION:
        raise invalid('messages: first message must use the "user" role')
    previous: Message | None = None
    for n, message in enumerate(messages):
        _check_results(n, message, previous)
        previous = message
    last = messages[-1]
    if last.role != "user" and last.blocks[-1].get("type") != COMPACTION and not paused.ends(last):
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    uses = [str(block.get("id")) for message in messages for block in message.of_type("tool_use")]
    if len(set(uses)) < len(uses):
        raise invalid("messages: `tool_use` ids must be unique")


def _serialize(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Serialize blocks for comparison. Null fields are omitted, because some clients add null for missing fields."""
    compact = ({name: value for name, value in block.items() if value is not None} for block in blocks)
    return tuple(json.dumps(block, sort_keys=True) for block in compact)


def _check_headers(headers: Mapping[str, str]) -> None:
    bearer = headers.get("authorization", "")
    if not headers.get("x-api-key") and not bearer.lower().startswith("bearer "):
        raise ApiError(401, "authentication_error", "x-api-key header is required")
    if not headers.get("anthropic-version"):
        raise invalid("anthropic-version: header is required")


def _message(data: object, where: str) -> Message:
    record = typed(data, dict, where)
    role, content = record.get("role"), record.get("content")
    if role not in ("user", "assistant", "system"):
        raise invalid(f"{where}.role: Input should be 'user', 'assistant' or 'system'")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise invalid(f"{where}.content: Input should be a valid string or list")
    if not content:
        raise invalid(f"{where}: {role} messages must have non-empty content")
    for n, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise invalid(f"{where}.content.{n}.type: Field required")
        if block["type"] == "text":
            _check_text(block.get("text"), where)
        if block["type"] == COMPACTION and (role != "assistant" or block.get("content") == ""):
            raise invalid(f"{where}.content.{n}: a compaction block needs the role assistant and non-empty content")
    return Message(role, tuple(content))


def _check_text(text: object, where: str) -> None:
    if not isinstance(text, str) or not text:
        raise invalid(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise invalid(f"{where}: text content blocks must contain non-whitespace text")


def _tools(body: Mapping[str, object]) -> tuple[Block, ...]:
    tools = typed(body.get("tools") or [], list, "tools")
    names: set[str] = set()
    for n, tool in enumerate(tools):
        typed(tool, dict, f"tools.{n}")
        kind, name = str(tool.get("type") or "custom"), str(tool.get("name"))
        if kind.startswith("memory_") and (kind, name) != (MEMORY_TOOL["type"], MEMORY_TOOL["name"]):
            raise invalid(f"tools.{n}: the memory tool must be {MEMORY_TOOL}, got type {kind!r} and name {name!r}")
        if name in names:
            raise invalid("tools: Tool names must be unique.")
        names.add(name)
    return tuple(tools)


def _thread(data: object) -> tuple[str | None, str]:
    if data is None:
        return None, ""
    if not isinstance(data, dict) or data.get("type") not in ("create", "continue"):
        raise invalid("thread.type: Input should be 'create' or 'continue'")
    if data["type"] == "create":
        return "create", ""
    previous = data.get("previous_message_id")
    if not isinstance(previous, str):
        raise invalid("thread.previous_message_id: Field required")
    return "continue", previous


def _required(body: Mapping[str, object], name: str, kind: type[T]) -> T:
    if body.get(name) is None:
        raise invalid(f"{name}: Field required")
    return typed(body[name], kind, name)


def _check_results(n: int, message: Message, previous: Message | None) -> None:
    uses = [str(block.get("id")) for block in previous.of_type("tool_use")] if previous is not None else []
    results = [str(block.get("tool_use_id")) for block in message.of_type("tool_result")]
    for tool_use_id in results:
        if tool_use_id not in uses:
            raise invalid(
                f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {tool_use_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    if len(set(results)) != len(results):
        raise invalid(f"messages.{n}: each tool_use must have a single result. Found multiple `tool_result` blocks.")
    leading = {str(block.get("tool_use_id")) for block in message.blocks[: len(results)]}
    if missing := [tool_use_id for tool_use_id in uses if tool_use_id not in leading]:
        raise invalid(
            f"messages.{n - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )
