"""Checks what every request must have: headers, fields, tools, content blocks and context edits.

The errors have the status and the words of the API. Rules that only rare requests break are not checked. The module
`requests` checks the order of messages, calls and results: those rules concern a whole conversation, but a request in a
message thread may have only the last part of one. Sources: Messages API reference, "Tool use", "Extended thinking",
"Prompt caching", "Context editing", "Compaction", and public reports of the errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

from retentive.testing.scripted_claude.errors import ApiError, invalid, refuse_if
from retentive.testing.scripted_claude.messages import Block, as_blocks, signature

Body = Mapping[str, object]
VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
CONTEXT_BETA, COMPACT_BETA = "context-management-2025-06-27", "compact-2026-01-12"
THREADS_BETA = "message-threads-2026-08-12"
EDITS = {
    "clear_tool_uses_20250919": CONTEXT_BETA,
    "clear_thinking_20251015": CONTEXT_BETA,
    "compact_20260112": COMPACT_BETA,
}
MIN_COMPACT_TRIGGER = 50_000
_OLD_FIELDS = frozenset({"temperature", "top_p", "top_k", "output_format", "stream"})  # unknown to the newest SDK
_FIELDS = frozenset(MessageCreateParamsStreaming.__annotations__) | _OLD_FIELDS
_OF_BLOCKS = {  # the fields that the blocks of a type must have
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "server_tool_use": ("id", "name"),
    "mcp_tool_use": ("id", "name"),
}


def check_request(headers: Mapping[str, str], data: bytes, *, count: bool) -> Body:
    """Parse and check a request, and return its body. `count` is true for `count_tokens`.

    Header names must be lower case. Raises `ApiError`.
    """
    if not headers.get("x-api-key") and not headers.get("authorization", "").lower().startswith("bearer "):
        raise ApiError(401, "x-api-key header is required")
    version = headers.get("anthropic-version")
    refuse_if(not version, "anthropic-version: header is required")
    refuse_if(version not in VERSIONS, f'anthropic-version: "{version}" is not a valid version')
    body = parse_json(data)
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object.")
    for name in ("model", "messages") if count else ("model", "max_tokens", "messages"):
        refuse_if(name not in body, f"{name}: Field required")
    for name in body.keys() - _FIELDS:
        raise invalid(f"{name}: Extra inputs are not permitted")
    refuse_if(not isinstance(body["model"], str) or not body["model"], "model: Input should be a valid string")
    betas = {beta.strip() for beta in headers.get("anthropic-beta", "").split(",")}
    refuse_if("thread" in body and THREADS_BETA not in betas, "thread: Extra inputs are not permitted")
    _check_messages(body["messages"])
    _check_tools(body)
    _check_thinking(body)
    _check_edits(body, betas)
    marked = sum(bool(block.get("cache_control")) for block in _all_blocks(body)) + bool(body.get("cache_control"))
    refuse_if(marked > 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")
    return body


def parse_json(data: bytes) -> object:
    """Parse the JSON body of a request. Raises `ApiError`."""
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from error
    return body


def _check_messages(messages: object) -> None:
    for number, message in enumerate(_objects(messages, "messages")):
        where, role, content = f"messages.{number}", message.get("role"), message.get("content")
        refuse_if(role not in ("user", "assistant", "system"), f"{where}.role: Input should be 'user' or 'assistant'")
        if role == "system" and content is None:
            continue
        refuse_if(not content, f"{where}: {role} messages must have non-empty content")
        blocks = as_blocks(content) if isinstance(content, str) else _objects(content, f"{where}.content")
        for at, block in enumerate(blocks):
            _check_block(block, str(role), f"{where}.content.{at}")


def _check_block(block: Block, role: str, where: str) -> None:
    kind = block.get("type")
    refuse_if(not isinstance(kind, str), f"{where}.type: Field required")
    for name in _OF_BLOCKS.get(str(kind), ()):
        refuse_if(name not in block, f"{where}.{kind}.{name}: Field required")
    needed = {"tool_result": "user", "tool_use": "assistant", "thinking": "assistant"}.get(str(kind), role)
    message = where.partition(".content")[0]
    refuse_if(role != needed, f"{message}: `{kind}` blocks can only be in `{needed}` messages")
    if kind == "text":
        refuse_if(not block["text"], f"{message}: text content blocks must be non-empty")
        blank = not str(block["text"]).strip()
        refuse_if(blank, f"{message}: text content blocks must contain non-whitespace text")
    if kind == "tool_result" and block.get("is_error") is True and not block.get("content"):
        raise invalid(f"{where}.tool_result: content cannot be empty if `is_error` is true")
    if kind == "thinking":
        signed = str(block["signature"])
        changed = signed.startswith("scripted_") and signed != signature(str(block["thinking"]))
        refuse_if(not signed or changed, f"{where}: Invalid `signature` in `thinking` block")


def _check_tools(body: Body) -> None:
    tools = _objects(body.get("tools") or [], "tools")
    for number, tool in enumerate(tools):
        if tool.get("type") in (None, "custom"):
            refuse_if("name" not in tool, f"tools.{number}.custom.name: Field required")
            is_object = _object(tool.get("input_schema")).get("type") == "object"
            refuse_if(not is_object, f"tools.{number}.custom.input_schema.type: Input should be 'object'")
    names = [str(tool["name"]) for tool in tools if "name" in tool]
    refuse_if(len(set(names)) < len(names), "tools: Tool names must be unique.")
    choice = _object(body.get("tool_choice"))
    refuse_if(choice.get("type") == "any" and not tools, "tool_choice.any may only be specified while providing tools")
    if choice.get("type") == "tool" and choice.get("name") not in names:
        raise invalid(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_thinking(body: Body) -> None:
    thinking = _object(body.get("thinking"))
    if thinking.get("type") not in (None, "disabled"):
        forced = _object(body.get("tool_choice")).get("type") in ("any", "tool")
        refuse_if(forced, "Thinking may not be enabled when tool_choice forces tool use.")
        budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
        is_over = isinstance(budget, int) and isinstance(limit, int) and limit <= budget
        refuse_if(is_over, "`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_edits(body: Body, betas: set[str]) -> None:
    if body.get("context_management") is None:
        return
    known = betas.isdisjoint(EDITS.values())
    refuse_if(known, "context_management: Extra inputs are not permitted")
    edits = _objects(_object(body["context_management"]).get("edits") or [], "context_management.edits")
    allowed = [kind for kind, beta in EDITS.items() if beta in betas]
    for number, edit in enumerate(edits):
        if edit.get("type") not in allowed:
            raise invalid(
                f"context_management.edits.{number}: Input tag '{edit.get('type')}' found using 'type' does not match "
                f"any of the expected tags: {', '.join(map(repr, allowed))}"
            )
        trigger = _object(edit.get("trigger")).get("value", MIN_COMPACT_TRIGGER)
        if edit["type"] == "compact_20260112" and isinstance(trigger, int) and trigger < MIN_COMPACT_TRIGGER:
            where = f"context_management.edits.{number}.compact_20260112.trigger.value"
            raise invalid(f"{where}: Input should be greater than or equal to {MIN_COMPACT_TRIGGER}")
    kinds = [edit["type"] for edit in edits]
    where = "context_management.edits"
    first = "`clear_thinking_20251015` must be the first edit in the list"
    refuse_if("clear_thinking_20251015" in kinds[1:], f"{where}: {first}")
    refuse_if(len(set(kinds)) < len(kinds), f"{where}: each strategy can be used only once")
    thinks = _object(body.get("thinking")).get("type") not in (None, "disabled")
    needed = "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive"
    refuse_if("clear_thinking_20251015" in kinds and not thinks, needed)


def _all_blocks(body: Body) -> Iterator[Block]:
    """Yield the tools, and the blocks of the system prompt and of all messages."""
    yield from as_blocks(body.get("tools"))
    yield from as_blocks(body.get("system"))
    for message in as_blocks(body["messages"]):
        yield from as_blocks(message.get("content"))


def _objects(value: object, where: str) -> Sequence[Block]:
    refuse_if(not isinstance(value, list), f"{where}: Input should be a valid array")
    for number, item in enumerate(as_items := list(value) if isinstance(value, list) else []):
        refuse_if(not isinstance(item, Mapping), f"{where}.{number}: Input should be an object")
    return as_items


def _object(value: object) -> Block:
    return value if isinstance(value, Mapping) else {}
