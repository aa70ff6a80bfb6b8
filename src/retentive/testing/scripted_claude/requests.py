"""Checks what every request must have, and the order of its messages, calls and results.

The errors have the status and the words of the API. Rules that only rare requests break are not checked. Sources:
Messages API reference, "Tool use", "Server tools", "Context editing", "Compaction", and public reports of the errors.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

from retentive.testing.scripted_claude.context import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT
from retentive.testing.scripted_claude.prompt import COMPACTION, Block, Message, as_blocks, signature
from retentive.testing.scripted_claude.script import ApiError, refuse_if

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
CONTEXT_BETA, COMPACT_BETA = "context-management-2025-06-27", "compact-2026-01-12"
THREADS_BETA = "message-threads-2026-08-12"
EDITS = {CLEAR_TOOL_USES: CONTEXT_BETA, CLEAR_THINKING: CONTEXT_BETA, COMPACT: COMPACT_BETA}
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
_ROLES = {"tool_result": "user", "tool_use": "assistant", "thinking": "assistant"}


def check_request(headers: Mapping[str, str], data: bytes) -> Mapping[str, object]:
    """Parse and check a request, and return its body.

    Header names must be lower case. Raises `ApiError`.
    """
    if not headers.get("x-api-key") and not headers.get("authorization", "").lower().startswith("bearer "):
        raise ApiError(401, "x-api-key header is required")
    version = headers.get("anthropic-version")
    refuse_if(version not in VERSIONS, f'anthropic-version: "{version}" is not a valid version')
    body = parse_json(data)
    if not isinstance(body, dict):
        raise ApiError(400, "The request body must be a JSON object.")
    for name in ("model", "max_tokens", "messages"):
        refuse_if(name not in body, f"{name}: Field required")
    betas = {beta.strip() for beta in headers.get("anthropic-beta", "").split(",")}
    for name in body:
        is_known = name in _FIELDS and (name != "thread" or THREADS_BETA in betas)
        refuse_if(not is_known, f"{name}: Extra inputs are not permitted")
    for number, message in enumerate(_objects(body["messages"], "messages")):
        _check_message(message, f"messages.{number}")
    tools = _objects(body.get("tools") or [], "tools")
    for number, tool in enumerate(tools):
        if tool.get("type") in (None, "custom"):
            schema = tool.get("input_schema")
            is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
            refuse_if("name" not in tool, f"tools.{number}.custom.name: Field required")
            refuse_if(not is_object, f"tools.{number}.custom.input_schema.type: Input should be 'object'")
    names = [tool["name"] for tool in tools if "name" in tool]
    refuse_if(len(set(names)) < len(names), "tools: Tool names must be unique.")
    management = body.get("context_management")
    if management is not None:
        allowed = [kind for kind, beta in EDITS.items() if beta in betas]
        refuse_if(not allowed, "context_management: Extra inputs are not permitted")
        where = "context_management.edits"
        given = management.get("edits") if isinstance(management, Mapping) else None
        for number, edit in enumerate(_objects(given or [], where)):
            refuse_if(
                edit.get("type") not in allowed,
                f"{where}.{number}: Input tag '{edit.get('type')}' found using 'type' does not match any of the"
                f" expected tags: {', '.join(map(repr, allowed))}",
            )
    return body


def parse_json(data: bytes) -> object:
    """Parse the JSON body of a request. Raises `ApiError`."""
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The request body is not valid JSON: {error}") from error
    return body


def _check_message(message: Block, where: str) -> None:
    role, content = message.get("role"), message.get("content")
    refuse_if(role not in ("user", "assistant", "system"), f"{where}.role: Input should be 'user' or 'assistant'")
    refuse_if(not content and role != "system", f"{where}: {role} messages must have non-empty content")
    blocks = as_blocks(content) if isinstance(content, str) else _objects(content or [], f"{where}.content")
    for at, block in enumerate(blocks):
        kind, place = str(block.get("type")), f"{where}.content.{at}"
        for name in ("type", *_OF_BLOCKS.get(kind, ())):
            refuse_if(name not in block, f"{place}.{kind}.{name}: Field required")
        needed = _ROLES.get(kind, role)
        refuse_if(role != needed, f"{where}: `{kind}` blocks can only be in `{needed}` messages")
        if kind == "text":
            refuse_if(not block["text"], f"{where}: text content blocks must be non-empty")
            blank = not str(block["text"]).strip()
            refuse_if(blank, f"{where}: text content blocks must contain non-whitespace text")
        elif kind == "tool_result" and block.get("is_error") is True:
            refuse_if(not block.get("content"), f"{place}.tool_result: content cannot be empty if `is_error` is true")
        elif kind == "thinking":
            signed = str(block["signature"])
            changed = signed.startswith("scripted_") and signed != signature(str(block["thinking"]))
            refuse_if(changed, f"{place}: Invalid `signature` in `thinking` block")


def _objects(value: object, where: str) -> Sequence[Block]:
    if not isinstance(value, list):
        raise ApiError(400, f"{where}: Input should be a valid array")
    for number, item in enumerate(value):
        refuse_if(not isinstance(item, Mapping), f"{where}.{number}: Input should be an object")
    return value


def check_conversation(messages: Sequence[Message], paused: Collection[str]) -> None:
    """Raise `ApiError` if the roles are in a wrong order, or if tool calls and results do not match.

    The caller must already have merged consecutive messages of the same role. A conversation starts with a user
    message, or with a compaction block that replaces earlier messages. It ends with a user message, a compaction block,
    a server tool, or a block whose `fingerprint` is in `paused`.
    """
    refuse_if(not messages, "messages: at least one message is required")
    is_wrong = messages[0].role != "user" and messages[0].blocks[0].get("type") != COMPACTION
    refuse_if(is_wrong, 'messages: first message must use the "user" role')
    seen: set[object] = set()
    for n, message in enumerate(messages):
        for m, use in enumerate(message.blocks):
            if use.get("type") == "tool_use":
                refuse_if(use["id"] in seen, f"messages.{n}.content.{m}: `tool_use` ids must be unique")
                seen.add(use["id"])
        _check_results(n, message, messages[n - 1] if n else Message("user", ()))
    _check_server_calls(messages)
    last = messages[-1].blocks[-1]
    kind = str(last.get("type"))
    is_open = kind in (COMPACTION, "server_tool_use") or kind.endswith("_tool_result") or fingerprint(last) in paused
    refuse_if(
        messages[-1].role == "assistant" and not is_open,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )


def fingerprint(block: Block) -> str:
    """Return the block as text, without null fields: some clients send null for missing fields."""
    return json.dumps({name: value for name, value in block.items() if value is not None}, sort_keys=True)


def _check_results(n: int, message: Message, previous: Message) -> None:
    uses = [block["id"] for block in previous.of_type("tool_use")]
    results: list[object] = []
    for m, block in enumerate(message.blocks):
        if block.get("type") == "tool_result":
            given, where = block["tool_use_id"], f"messages.{n}.content.{m}"
            refuse_if(
                given not in uses,
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {given}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message.",
            )
            refuse_if(
                given in results,
                f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{given}",
            )
            results.append(given)
    leading = {block.get("tool_use_id") for block in message.blocks[: len(results)]}
    missing = ", ".join(str(use) for use in uses if use not in leading)
    refuse_if(
        missing,
        f"messages.{n - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    )


def _check_server_calls(messages: Sequence[Message]) -> None:
    """Check that each call of a server tool or MCP tool has a result when its turn ends, and each result a call."""
    calls: dict[object, str] = {}  # errors for the calls without a result, by id
    for n, message in enumerate(messages):
        if message.role == "user" and len(message.of_type("tool_result")) < len(message.blocks):
            for error in calls.values():
                raise ApiError(400, error)
        for m, block in enumerate(message.blocks):
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                name = "mcp" if kind == "mcp_tool_use" else str(block["name"])
                calls[block["id"]] = (
                    f"messages.{n}: `{name}` tool use with id `{block['id']}` was found without a corresponding "
                    f"`{name}_tool_result` block"
                )
            elif kind.endswith("_tool_result"):
                refuse_if(
                    calls.pop(block["tool_use_id"], None) is None,
                    f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `{kind}` blocks: "
                    f"{block['tool_use_id']}. Each `{kind}` block must have a corresponding call before it.",
                )
