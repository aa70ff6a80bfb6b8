"""Checks the rules for requests, such as the rules for tools, thinking, caching, content blocks and context edits.

`check_request` first checks the types of the fields, and then the rules that concern several fields. Each check raises
the `ApiError` of its rule. The module `requests` checks the rules for tool calls and results. These rules concern a
whole conversation, but a request in a message thread may have only the last part of the conversation.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from retentive.testing.scripted_claude.messages import THINKING, Block, as_blocks, signature
from retentive.testing.scripted_claude.rules import refusal, refuse_if
from retentive.testing.scripted_claude.shape import KNOWN_BETAS, KNOWN_MODELS, Shape

Body = Mapping[str, object]
VERSIONS = ("2023-01-01", "2023-06-01", CURRENT := "2026-10-21")
MAX_BODY_BYTES = 32 * 1024 * 1024  # Source: "Errors", request size limits
MAX_IMAGE_BYTES = 5 * 1024 * 1024
SAMPLING = ("temperature", "top_p", "top_k")
OUTPUT_LIMITS = {"claude-haiku-4-5": 64_000, "claude-sonnet-4-5": 64_000, "claude-opus-4-5": 64_000}
_IMAGES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_USER = ("tool_result", "image", "search_result", "container_upload")
_BOTH = ("text", "document", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback")


def check_request(headers: Mapping[str, str], data: bytes, *, strict: bool, count: bool) -> tuple[Body, list[str]]:
    """Parse and check a request. Returns its body and a list of warnings.

    A warning names a model, beta or field that the installed SDK does not know. If `strict` is true, there is an error
    instead of a warning. `count` is true for `count_tokens`. Header names must be lower case. Raises `ApiError`.
    """
    _check_headers(headers)
    refuse_if(len(data) > MAX_BODY_BYTES, "too_large")
    body = parse_json(data)
    if not isinstance(body, dict):
        raise refusal("json_object")
    betas = frozenset(filter(None, (beta.strip() for beta in headers.get("anthropic-beta", "").split(","))))
    unknown = sorted(betas - KNOWN_BETAS)
    refuse_if(strict and unknown, "beta_unknown", value=", ".join(f"`{beta}`" for beta in unknown))
    shape = Shape(betas, strict=strict)
    shape.check_request(body, count=count)
    model = str(body["model"])
    if model not in KNOWN_MODELS:
        refuse_if(strict, "model_unknown", value=model)
        shape.unknown.append(f"model: {model}")
    if headers["anthropic-version"] == CURRENT:
        _check_current(body)
    for check in CHECKS:
        check(body)
    return body, [*(f"anthropic-beta: {beta}" for beta in unknown), *shape.unknown]


def parse_json(data: bytes) -> object:
    """Parse the JSON body of a request. Raises `ApiError`."""
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refusal("json", value=error) from error
    return body


def _check_headers(headers: Mapping[str, str]) -> None:
    if not headers.get("x-api-key") and not headers.get("authorization", "").lower().startswith("bearer "):
        raise refusal("key")
    version = headers.get("anthropic-version")
    refuse_if(not version, "version")
    refuse_if(version not in VERSIONS, "version_unknown", value=version)


def _check_sampling(body: Body) -> None:
    model, limit = str(body["model"]), body.get("max_tokens", 0)
    for name, bound in OUTPUT_LIMITS.items():
        if model.startswith(name) and isinstance(limit, int) and limit > bound:
            raise refusal("output_limit", value=limit, bound=bound, model=model)
    for name in SAMPLING:
        if body.get(name) is not None and model in KNOWN_MODELS and not re.search("-4-[56]", model):
            raise refusal("sampling_model", value=name)
    refuse_if(any(not str(stop).strip() for stop in _list(body.get("stop_sequences"))), "blank_stop")
    refuse_if(body.get("temperature") is not None and body.get("top_p") is not None, "temperature_and_top_p")


def _check_current(body: Body) -> None:
    """Refuse fields and blocks that version 2026-10-21 of the API no longer accepts. Source: its migration guide."""
    for name in SAMPLING:
        refuse_if(name in body, "sampling", name)
    for number, message in enumerate(as_blocks(body["messages"])):
        for m, block in enumerate(as_blocks(message.get("content"))):
            where = f"messages.{number}.content.{m}"
            if message["role"] == "user" and block.get("type") == "text" and block.get("citations"):
                raise refusal("user_citations", f"{where}.text.citations")
            if message["role"] == "assistant" and block.get("type") == "document":
                raise refusal("block_role", f"messages.{number}", value="document", role="user")


def _check_thinking(body: Body) -> None:
    thinking = _object(body.get("thinking"))
    if thinking.get("type") in (None, "disabled"):
        return
    refuse_if(_object(body.get("tool_choice")).get("type") in ("any", "tool"), "thinking_forced")
    refuse_if(body.get("temperature") not in (None, 1), "thinking_temperature")
    refuse_if(body.get("top_k") is not None, "thinking_top_k")
    top_p = body.get("top_p")
    refuse_if(isinstance(top_p, (int, float)) and top_p < 0.95, "thinking_top_p")
    budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
    refuse_if(isinstance(budget, int) and isinstance(limit, int) and limit <= budget, "thinking_budget")


def _check_tools(body: Body) -> None:
    tools = as_blocks(body.get("tools"))
    for number, tool in enumerate(tools):
        kind = str(tool.get("type") or "custom")
        if kind == "custom":
            _check_schema(tool, f"tools.{number}.custom")
        refuse_if(tool.get("allowed_domains") and tool.get("blocked_domains"), "domains", f"tools.{number}.{kind}")
    names = [tool["name"] for tool in tools if "name" in tool]
    refuse_if(len(set(map(str, names))) < len(names), "tool_names")
    refuse_if(tools and all(tool.get("defer_loading") is True for tool in tools), "deferred")


def _check_tool_choice(body: Body) -> None:
    tools = as_blocks(body.get("tools"))
    choice = _object(body.get("tool_choice"))
    refuse_if(choice.get("type") == "any" and not tools, "tool_choice")
    if choice.get("type") == "tool" and choice.get("name") not in [tool.get("name") for tool in tools]:
        raise refusal("tool_chosen", value=choice.get("name"))
    container = _object(body.get("container"))
    if container.get("skills") and not any(str(tool.get("type")).startswith("code_execution") for tool in tools):
        raise refusal("skills")


def _check_schema(tool: Block, where: str) -> None:
    schema = _object(tool["input_schema"])
    refuse_if("type" not in schema, "required", f"{where}.input_schema.type")
    refuse_if(schema["type"] != "object", "literal", f"{where}.input_schema.type", value="'object'")
    refuse_if(schema.keys() & {"oneOf", "allOf", "anyOf"}, "tool_schema", f"{where}.input_schema")
    if tool.get("strict") is True:
        _check_closed(schema, where)


def _check_closed(schema: Block, where: str) -> None:
    """Check that every object in a schema for structured output has `"additionalProperties": false`."""
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise refusal("closed_schema", where)
    for part in [*_object(schema.get("properties")).values(), schema.get("items")]:
        if isinstance(part, Mapping):
            _check_closed(part, where)


def _check_formats(body: Body) -> None:
    for where, given in (
        ("output_config.format", _object(body.get("output_config")).get("format")),
        ("output_format", body.get("output_format")),
    ):
        _check_closed(_object(_object(given).get("schema")), f"{where}.schema")


def _check_mcp(body: Body) -> None:
    servers = as_blocks(body.get("mcp_servers"))
    names = [str(server.get("name")) for server in servers]
    refuse_if(len(set(names)) < len(names), "mcp_names")
    for number, server in enumerate(servers):
        refuse_if(not str(server.get("url")).startswith("https://"), "mcp_url", f"mcp_servers.{number}.url")
    toolsets = []
    for number, tool in enumerate(as_blocks(body.get("tools"))):
        if tool.get("type") == "mcp_toolset":
            toolsets.append(str(tool.get("mcp_server_name")))
            if toolsets[-1] not in names:
                where = f"tools.{number}.mcp_toolset.mcp_server_name"
                raise refusal("mcp_toolset", where, value=toolsets[-1])
    for number, (name, server) in enumerate(zip(names, servers, strict=True)):
        if toolsets.count(name) != 1 and "tool_configuration" not in server:
            raise refusal("mcp_unused", f"mcp_servers.{number}", value=name)


def _check_caching(body: Body) -> None:
    marked = [(where, _object(block["cache_control"])) for where, block in _blocks(body) if block.get("cache_control")]
    last = list(_blocks(body))[-1:]
    whole = _object(body.get("cache_control"))
    if whole and last and (target := _object(last[0][1].get("cache_control"))):
        ttls = whole.get("ttl", "5m"), target.get("ttl", "5m")
        refuse_if(ttls[0] != ttls[1], "cache_target", value=ttls[0], bound=ttls[1])
    elif whole:
        marked.append(("", whole))
    refuse_if(len(marked) > 4, "cache_count", value=len(marked))
    short = False
    for where, control in marked:
        refuse_if(control.get("ttl") == "1h" and short, "cache_order", where)
        short = short or control.get("ttl") != "1h"


def _check_content(body: Body) -> None:
    for where, block in _blocks(body):
        match block.get("type"):
            case "text" if not str(block.get("text")).strip():
                _refuse_text(block, where)
            case "thinking" | "redacted_thinking" as kind:
                _check_thought(block, where, str(kind))
            case "image" | "document" as kind:
                _check_source(_object(block.get("source")), f"{where}.{kind}.source")
            case "tool_result" if block.get("is_error") is True and not block.get("content"):
                raise refusal("error_result", where)
            case "tool_reference":
                names = [tool.get("name") for tool in as_blocks(body.get("tools"))]
                refuse_if(block.get("tool_name") not in names, "tool_reference", value=block.get("tool_name"))


def _refuse_text(block: Block, where: str) -> None:
    part = where.partition(".")[0]
    if not block.get("text"):
        raise refusal("cache_empty", where) if block.get("cache_control") else refusal("empty_text", part)
    refuse_if(".tool_result." not in where, "blank_text", part)


def _check_thought(block: Block, where: str, kind: str) -> None:
    signed = str(block.get("signature", ""))
    if kind == "redacted_thinking":
        refuse_if(not block.get("data"), "redacted", where)
    elif not signed or (signed.startswith("scripted_") and signed != signature(str(block.get("thinking")))):
        raise refusal("signature", where)


def _check_source(source: Block, where: str) -> None:
    kind = source.get("type")
    refuse_if(kind == "url" and not str(source.get("url")).startswith("https://"), "https", f"{where}.url.url")
    if kind != "base64":
        return
    where = f"{where}.base64"
    try:
        data = base64.b64decode(str(source.get("data")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise refusal("base64", where) from error
    media_type = str(source.get("media_type"))
    if media_type == "application/pdf":
        refuse_if(not data.startswith(b"%PDF"), "pdf", where)
        return
    refuse_if(not data, "image_empty", where)
    refuse_if(len(str(source["data"])) > MAX_IMAGE_BYTES, "image_size", where, value=len(str(source["data"])))
    found = next((name for magic, name in _IMAGES.items() if data.startswith(magic)), None)
    refuse_if(found is None, "image")
    refuse_if(found != media_type, "image_type", where, value=media_type)


def _check_messages(body: Body) -> None:
    messages = as_blocks(body["messages"])
    for number, message in enumerate(messages):
        where, role = f"messages.{number}", str(message.get("role"))
        blocks = as_blocks(message.get("content"))
        configures = role == "system" and message.get("output_config")
        refuse_if(not blocks and not configures, "empty_message", where, role=role)
        for block in blocks:
            kind = str(block.get("type"))
            if kind not in _BOTH and role != ("user" if kind in _USER else "assistant"):
                raise refusal("block_role", where, value=kind, role="user" if kind in _USER else "assistant")
        following = messages[number + 1 :] and messages[number + 1].get("role")
        last = blocks[-1].get("type") if blocks else None
        refuse_if(following == "user" and last in THINKING, "thinking_last", where)
    refuse_if(messages and messages[0].get("role") == "system", "first_system")
    if messages and messages[-1].get("role") == "assistant":
        final = as_blocks(messages[-1].get("content"))[-1]
        refuse_if(final.get("type") == "text" and str(final["text"])[-1:].isspace(), "trailing_space")


def _check_edits(body: Body) -> None:
    kinds = [_object(edit).get("type") for edit in _list(_object(body.get("context_management")).get("edits"))]
    refuse_if("clear_thinking_20251015" in kinds[1:], "thinking_edit_first")
    refuse_if(len(set(kinds)) < len(kinds), "edits_once")
    thinks = _object(body.get("thinking")).get("type") not in (None, "disabled")
    refuse_if("clear_thinking_20251015" in kinds and not thinks, "thinking_edit")
    refuse_if(body.get("compaction") is not None, "compaction")


CHECKS: Sequence[Callable[[Body], None]] = (
    _check_sampling,
    _check_thinking,
    _check_tools,
    _check_tool_choice,
    _check_formats,
    _check_mcp,
    _check_edits,
    _check_content,
    _check_messages,
    _check_caching,
)


def _blocks(body: Body) -> Iterator[tuple[str, Block]]:
    """Yield each tool and each block with its path, in the order of the prompt.

    The blocks within a tool result follow the block of the result.
    """
    for number, tool in enumerate(as_blocks(body.get("tools"))):
        yield f"tools.{number}", tool
    yield from _nested("system", body.get("system"))
    for number, message in enumerate(as_blocks(body.get("messages"))):
        yield from _nested(f"messages.{number}.content", message.get("content"))


def _nested(where: str, blocks: object) -> Iterator[tuple[str, Block]]:
    for number, block in enumerate(as_blocks(blocks)):
        yield f"{where}.{number}", block
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from _nested(f"{where}.{number}.tool_result.content", block.get("content"))


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _object(value: object) -> Block:
    return value if isinstance(value, Mapping) else {}
