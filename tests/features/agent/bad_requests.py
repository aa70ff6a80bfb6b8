"""Requests that the Messages API refuses, with the status and the words of its error."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .requests import (
    ASK,
    COMPACT_BETA,
    CONTEXT_BETA,
    HELLO,
    READ,
    THREADS_BETA,
    TOOL,
    assistant_call,
    clearing,
    compacting,
    management,
    result,
    thinking,
)

MCP_BETA = "mcp-client-2025-11-20"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
SERVER = {"type": "url", "name": "wiki", "url": "https://wiki.example.com/mcp"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "wiki"}
EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
EDIT = "context_management.edits.0.clear_tool_uses_20250919"
DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
THINKS = {"type": "enabled", "budget_tokens": 1024}
OLD = "2023-06-01"


@dataclass(frozen=True)
class Bad:
    """Fields that make a valid request invalid, and the expected error. `...` removes a field."""

    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    status: int = 400
    betas: tuple[str, ...] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes = b""
    version: str = "2026-10-21"


def says(*blocks: Any, role: str = "user") -> dict[str, Any]:
    """Return a message with these blocks."""
    return {"role": role, "content": list(blocks)}


def text(value: Any = "Hi.", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def asked(*blocks: Any) -> dict[str, Any]:
    """Return the field `messages` with one user message of these blocks."""
    return {"messages": [says(*blocks)]}


def replied(*blocks: Any, then: Any = HELLO) -> dict[str, Any]:
    """Return the field `messages` with a reply of these blocks and a later user message."""
    return {"messages": [*HELLO, says(*blocks, role="assistant"), *then]}


def image(data: Any = PNG, media_type: str = "image/png", **source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data, **source}}


def custom(**more: Any) -> dict[str, Any]:
    return {"tools": [{**READ, **more}]}


def edits(*given: Any) -> dict[str, Any]:
    return {"context_management": management(*given)}


def call(tool_use_id: Any = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "memory", "input": {}, **more}


def searched(call_id: str = "srvtoolu_1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "tea"}}


def found(call_id: str = "srvtoolu_1") -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def thought(value: str = "Hm.", signature: Any = "signed") -> dict[str, Any]:
    return {"type": "thinking", "thinking": value, "signature": signature}


def turns(kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


M0 = "messages.0.content.0"
BOTH = (CONTEXT_BETA, COMPACT_BETA)
SOURCE = f"{M0}.image.source"

HTTP = [
    Bad("x-api-key header is required", status=401, headers={"x-api-key": ...}),
    Bad("x-api-key header is required", status=401, headers={"x-api-key": "", "authorization": "Basic abc"}),
    Bad("anthropic-version: header is required", headers={"anthropic-version": ...}),
    Bad('anthropic-version: "2099-01-01" is not a valid version', headers={"anthropic-version": "2099-01-01"}),
    Bad('anthropic-version: "latest" is not a valid version', headers={"anthropic-version": "latest"}),
    Bad(
        "The request body is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char "
        "1)",
        raw=b"{",
    ),
    Bad("The request body is not valid JSON: Expecting value: line 1 column 2 (char 1)", raw=b" "),
    Bad("The request body must be a JSON object.", raw=b"[]"),
    Bad("The request body must be a JSON object.", raw=b'"hello"'),
    Bad("Request exceeds the maximum size", raw=b" " * (32 * 1024 * 1024 + 1), status=413),
    Bad(
        "Unexpected value(s) `fast-2099-01-01` for the `anthropic-beta` header. Please consult our documentation at "
        "docs.claude.com or try again without the header.",
        betas=("fast-2099-01-01",),
    ),
    Bad(
        "Unexpected value(s) `a-2099-01-01`, `b-2099-01-01` for the `anthropic-beta` header. Please consult our "
        "documentation at docs.claude.com or try again without the header.",
        betas=("b-2099-01-01", CONTEXT_BETA, "a-2099-01-01"),
    ),
]
FIELDS = [
    Bad("model: Field required", {"model": ...}),
    Bad("model: Input should be a valid string", {"model": None}),
    Bad("model: Input should be a valid string", {"model": 5}),
    Bad("model: String should have at least 1 character", {"model": ""}),
    Bad("model: String should have at most 256 characters", {"model": "m" * 257}),
    Bad("model: claude-nothing-9", {"model": "claude-nothing-9"}, status=404),
    Bad("max_tokens: Field required", {"max_tokens": ...}),
    Bad("max_tokens: Input should be a valid integer", {"max_tokens": "many"}),
    Bad("max_tokens: Input should be a valid integer", {"max_tokens": True}),
    Bad("max_tokens: Input should be a valid integer", {"max_tokens": 1.5}),
    Bad("max_tokens: Input should be greater than or equal to 0", {"max_tokens": -1}),
    Bad(
        "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5",
        {"max_tokens": 64_001, "model": "claude-haiku-4-5"},
    ),
    Bad("messages: Field required", {"messages": ...}),
    Bad("messages: Input should be a valid array", {"messages": "Hi."}),
    Bad("messages: at least one message is required", {"messages": []}),
    Bad("messages: List should have at most 100000 items", {"messages": [{"role": "user", "content": "x"}] * 100_001}),
    Bad("system: Input should be a valid array", {"system": None}),
    Bad("system: Input should be a valid array", {"system": 5}),
    Bad("system.0.text: Field required", {"system": [{"type": "text"}]}),
    Bad("system.0.type: Input should be 'text'", {"system": [{"type": "image", "text": "x"}]}),
    Bad("system: text content blocks must be non-empty", {"system": [text("")]}),
    Bad("system: text content blocks must contain non-whitespace text", {"system": [text("\n")]}),
    Bad("stream: Input should be a valid boolean", {"stream": "yes"}),
    Bad("stop_sequences: Input should be a valid array", {"stop_sequences": "END"}),
    Bad("stop_sequences.0: Input should be a valid string", {"stop_sequences": [1]}),
    Bad("stop_sequences: each stop sequence must contain non-whitespace", {"stop_sequences": ["END", "\n"]}),
    Bad("metadata: Input should be an object", {"metadata": "ada"}),
    Bad("metadata.user_id: Input should be a valid string", {"metadata": {"user_id": 7}}),
    Bad("metadata.user_id: String should have at most 512 characters", {"metadata": {"user_id": "u" * 513}}),
    Bad("metadata.name: Extra inputs are not permitted", {"metadata": {"name": "ada"}}),
    Bad("service_tier: Input should be 'auto' or 'standard_only'", {"service_tier": "fast"}),
    Bad("inference_geo: Input should be a valid string", {"inference_geo": 1}),
    Bad("max_token: Extra inputs are not permitted", {"max_token": 10}),
    Bad("extra_body: Extra inputs are not permitted", {"extra_body": {}}),
    Bad("container: Input should be an object", {"container": 1}),
    Bad("container.id: Input should be a valid string", {"container": {"id": 1}}),
    Bad(
        "container: skills can only be used when a code execution tool is enabled",
        {"container": {"skills": [{"type": "anthropic", "skill_id": "pptx", "version": "latest"}]}},
    ),
    Bad(
        "container.skills: List should have at most 8 items",
        {"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}] * 9}, "tools": [CODE]},
    ),
    Bad("container.skills.0.skill_id: Field required", {"container": {"skills": [{"type": "custom"}]}}),
    Bad(
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        {"output_config": {"effort": "huge"}},
    ),
    Bad("output_config.format.schema: Field required", {"output_config": {"format": {"type": "json_schema"}}}),
    Bad(
        "output_config.format.type: Input should be 'json_schema'",
        {"output_config": {"format": {"type": "json", "schema": {}}}},
    ),
    Bad(
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ),
    Bad("output_format: Extra inputs are not permitted", {"output_format": {"type": "json_schema", "schema": {}}}),
    Bad("fallbacks: Extra inputs are not permitted", {"fallbacks": "default"}),
    Bad(
        "[scripted Claude] compaction: compaction on request is not played",
        {"compaction": {"type": "summarize"}},
        betas=("compact-2026-09-04",),
    ),
    Bad("compaction: Extra inputs are not permitted", {"compaction": {"type": "summarize"}}),
]
SAMPLING = [
    Bad("temperature: Extra inputs are not permitted", {"temperature": 1.0}),
    Bad("top_p: Extra inputs are not permitted", {"top_p": 0.9}),
    Bad("top_k: Extra inputs are not permitted", {"top_k": 5}),
    Bad("`temperature` is deprecated for this model.", {"temperature": 0.5}, version=OLD),
    Bad("temperature: Input should be a valid number", {"temperature": "hot"}, version=OLD),
    Bad("temperature: Input should be less than or equal to 1", {"temperature": 1.1}, version=OLD),
    Bad("temperature: Input should be greater than or equal to 0", {"temperature": -0.1}, version=OLD),
    Bad("top_p: Input should be less than or equal to 1", {"top_p": 2}, version=OLD),
    Bad("top_k: Input should be greater than or equal to 0", {"top_k": -1}, version=OLD),
    Bad("top_k: Input should be a valid integer", {"top_k": 0.5}, version=OLD),
    Bad(
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        {"temperature": 0.5, "top_p": 0.5, "model": "claude-sonnet-4-5"},
        version=OLD,
    ),
    Bad("thinking: Input should be an object", {"thinking": True}),
    Bad("thinking.type: Field required", {"thinking": {}}),
    Bad(
        "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags: 'enabled', 'disabled', "
        "'between_tools', 'adaptive'",
        {"thinking": {"type": "deep"}},
    ),
    Bad("thinking.enabled.budget_tokens: Field required", {"thinking": {"type": "enabled"}}),
    Bad(
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        {"thinking": {"type": "enabled", "budget_tokens": 1023}},
    ),
    Bad(
        "thinking.disabled.budget_tokens: Extra inputs are not permitted",
        {"thinking": {"type": "disabled", "budget_tokens": 2000}},
    ),
    Bad(
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
        f"{DOCS}#max-tokens-and-context-window-size",
        {"thinking": THINKS, "max_tokens": 1024},
    ),
    Bad(
        "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at "
        f"{DOCS}#important-considerations-when-using-extended-thinking",
        {"thinking": THINKS, "temperature": 0.5, "max_tokens": 2000, "model": "claude-sonnet-4-5"},
        version=OLD,
    ),
    Bad(
        "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled. Please consult our "
        f"documentation at {DOCS}#important-considerations-when-using-extended-thinking",
        {"thinking": THINKS, "top_p": 0.9, "max_tokens": 2000, "model": "claude-sonnet-4-5"},
        version=OLD,
    ),
    Bad(
        "`top_k` must be unset when thinking is enabled. Please consult our documentation at "
        f"{DOCS}#important-considerations-when-using-extended-thinking",
        {"thinking": THINKS, "top_k": 5, "max_tokens": 2000, "model": "claude-sonnet-4-5"},
        version=OLD,
    ),
    Bad(
        "Thinking may not be enabled when tool_choice forces tool use.",
        {"thinking": THINKS, "max_tokens": 2000, "tool_choice": {"type": "any"}},
    ),
]
TOOLS = [
    Bad("tools: Input should be a valid array", {"tools": {}}),
    Bad("tools.0: Input should be an object", {"tools": ["memory"]}),
    Bad("tools.0.custom.name: Field required", {"tools": [{"input_schema": {"type": "object"}}]}),
    Bad("tools.0.custom.input_schema: Field required", {"tools": [{"name": "read"}]}),
    Bad("tools.0.custom.input_schema: Input should be an object", custom(input_schema="object")),
    Bad("tools.0.custom.input_schema.type: Field required", custom(input_schema={})),
    Bad("tools.0.custom.input_schema.type: Input should be 'object'", custom(input_schema={"type": "string"})),
    Bad(
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        custom(input_schema={"type": "object", "anyOf": []}),
    ),
    Bad("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", custom(name="read file")),
    Bad("tools.0.custom.name: String should have at most 128 characters", custom(name="n" * 129)),
    Bad("tools.0.custom.name: String should have at least 1 character", custom(name="")),
    Bad("tools.0.custom.description: Input should be a valid string", custom(description=None)),
    Bad("tools.0.custom.parameters: Extra inputs are not permitted", custom(parameters={})),
    Bad(
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false", custom(strict=True)
    ),
    Bad("tools: Tool names must be unique.", {"tools": [TOOL, TOOL]}),
    Bad("tools: Tool names must be unique.", {"tools": [TOOL, {**READ, "name": "memory"}]}),
    Bad("tools.0.memory_20250818.name: Input should be 'memory'", {"tools": [{**TOOL, "name": "notes"}]}),
    Bad("tools.0.memory_20250818.name: Field required", {"tools": [{"type": "memory_20250818"}]}),
    Bad(
        "tools.0.memory_20250818.description: Extra inputs are not permitted",
        {"tools": [{**TOOL, "description": "Notes."}]},
    ),
    Bad("tools.0.web_search_20250305.name: Input should be 'web_search'", {"tools": [{**SEARCH, "name": "search"}]}),
    Bad(
        "tools.0.web_search_20250305.max_uses: Input should be a valid integer",
        {"tools": [{**SEARCH, "max_uses": "3"}]},
    ),
    Bad(
        "tools.0.web_search_20250305: allowed_domains and blocked_domains cannot be used together",
        {"tools": [{**SEARCH, "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}]},
    ),
    Bad("All tools have defer_loading set. At least one tool must be non-deferred.", custom(defer_loading=True)),
    Bad(
        "Tool reference 'write' has no corresponding tool definition",
        {"messages": [*HELLO, assistant_call("view"), result([{"type": "tool_reference", "tool_name": "write"}])]},
    ),
    Bad("tool_choice: Input should be an object", {"tool_choice": "auto"}),
    Bad("tool_choice.type: Field required", {"tool_choice": {}}),
    Bad(
        "tool_choice: Input tag 'required' found using 'type' does not match any of the expected tags: 'auto', 'any', "
        "'tool', 'none'",
        {"tool_choice": {"type": "required"}},
    ),
    Bad("tool_choice.tool.name: Field required", {"tool_choice": {"type": "tool"}}),
    Bad("Tool 'write' not found in provided tools", {"tool_choice": {"type": "tool", "name": "write"}}),
    Bad("tool_choice.any may only be specified while providing tools", {"tools": ..., "tool_choice": {"type": "any"}}),
    Bad(
        "tool_choice.auto.disable_parallel_tool_use: Input should be a valid boolean",
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": "no"}},
    ),
    Bad("mcp_servers: Extra inputs are not permitted", {"mcp_servers": [SERVER]}),
    Bad("mcp_servers.0.url: Field required", {"mcp_servers": [{"type": "url", "name": "a"}]}, betas=(MCP_BETA,)),
    Bad("mcp_servers.0.type: Input should be 'url'", {"mcp_servers": [{**SERVER, "type": "sse"}]}, betas=(MCP_BETA,)),
    Bad(
        "mcp_servers.0.url: URL must start with https://",
        {"mcp_servers": [{**SERVER, "url": "http://wiki"}], "tools": [TOOLSET]},
        betas=(MCP_BETA,),
    ),
    Bad("mcp_servers: MCP server names must be unique.", {"mcp_servers": [SERVER, SERVER]}, betas=(MCP_BETA,)),
    Bad(
        "tools.0.mcp_toolset.mcp_server_name: MCP server 'wiki' not found in mcp_servers",
        {"tools": [TOOLSET]},
        betas=(MCP_BETA,),
    ),
    Bad(
        "mcp_servers.0: MCP server 'wiki' must be referenced by exactly one mcp_toolset",
        {"mcp_servers": [SERVER]},
        betas=(MCP_BETA,),
    ),
    Bad("mcp_servers: List should have at most 20 items", {"mcp_servers": [SERVER] * 21}, betas=(MCP_BETA,)),
]
CACHING = [
    Bad(f"{M0}.text.cache_control: Input should be an object", asked(text(cache_control="ephemeral"))),
    Bad(f"{M0}.text.cache_control.type: Field required", asked(text(cache_control={"ttl": "5m"}))),
    Bad(
        f"{M0}.text.cache_control: Input tag 'persistent' found using 'type' does not match any of the expected tags: "
        "'ephemeral'",
        asked(text(cache_control={"type": "persistent"})),
    ),
    Bad(
        f"{M0}.text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
        asked(text(cache_control={"type": "ephemeral", "ttl": "1d"})),
    ),
    Bad(
        "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted",
        {"system": [text(cache_control={"type": "ephemeral", "scope": "global"})]},
    ),
    Bad(
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        asked(*[text(cache_control=EPHEMERAL)] * 5),
    ),
    Bad(
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        {"cache_control": EPHEMERAL, **asked(*[text(cache_control=EPHEMERAL)] * 4, text())},
    ),
    Bad(
        f"{M0}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
        "Note that blocks are processed in the following order: tools, system, messages.",
        {"system": [text(cache_control=EPHEMERAL)], **asked(text(cache_control=HOUR))},
    ),
    Bad(
        "system.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
        "block. Note that blocks are processed in the following order: tools, system, messages.",
        {"tools": [{**TOOL, "cache_control": EPHEMERAL}], "system": [text(cache_control=HOUR)]},
    ),
    Bad(
        "Top-level cache_control has ttl='5m' but the target block already has cache_control with ttl='1h'",
        {"cache_control": EPHEMERAL, **asked(text(cache_control=HOUR))},
    ),
    Bad(f"{M0}.text: cache_control cannot be set for empty text blocks", asked(text("", cache_control=EPHEMERAL))),
    Bad(
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
        replied({**thought(), "cache_control": EPHEMERAL}, text()),
    ),
]
MESSAGES = [
    Bad("messages.0: Input should be an object", {"messages": ["Hi."]}),
    Bad("messages.0.role: Input should be 'user', 'assistant' or 'system'", {"messages": [{"content": "x"}]}),
    Bad(
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
        {"messages": [{"role": "tool", "content": "x"}]},
    ),
    Bad("messages.0.content: Field required", {"messages": [{"role": "user"}]}),
    Bad("messages.0.content: Input should be a valid array", {"messages": [{"role": "user", "content": None}]}),
    Bad("messages.0.content: Input should be a valid array", {"messages": [{"role": "user", "content": {}}]}),
    Bad(
        "messages.0.name: Extra inputs are not permitted",
        {"messages": [{"role": "user", "content": "x", "name": "ada"}]},
    ),
    Bad("messages.0: user messages must have non-empty content", asked()),
    Bad("messages.1: assistant messages must have non-empty content", replied()),
    Bad("messages.1: system messages must have non-empty content", {"messages": [*HELLO, says(role="system"), *HELLO]}),
    Bad("messages: text content blocks must be non-empty", {"messages": [{"role": "user", "content": ""}]}),
    Bad("messages: text content blocks must be non-empty", asked(text(""))),
    Bad("messages: text content blocks must be non-empty", replied(text(""))),
    Bad(
        "messages: text content blocks must contain non-whitespace text",
        {"messages": [{"role": "user", "content": " \n"}]},
    ),
    Bad(
        "messages: text content blocks must contain non-whitespace text",
        replied(text("\n\n"), call(), then=[result("x")]),
    ),
    Bad(
        "messages: text content blocks must be non-empty",
        {"messages": [*HELLO, assistant_call("view"), result([text("")])]},
    ),
    Bad(f"{M0}: Input should be an object", asked("Hi.")),
    Bad(f"{M0}.type: Field required", asked({"text": "Hi."})),
    Bad(f"{M0}.text.text: Field required", asked({"type": "text"})),
    Bad(f"{M0}.text.text: Input should be a valid string", asked(text(None))),
    Bad(f"{M0}.text.id: Extra inputs are not permitted", asked(text(id="b1"))),
    Bad('messages: first message must use the "user" role', {"messages": [says(text(), role="assistant"), *HELLO]}),
    Bad(
        "messages.0: use the top-level 'system' parameter for the initial system prompt",
        {"messages": [says(text(), role="system"), *HELLO]},
    ),
    Bad(
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        {"messages": [*HELLO, says(text("{"), role="assistant")]},
    ),
    Bad(
        "messages: final assistant content cannot end with trailing whitespace",
        {"messages": [*HELLO, says(text("The answer is "), role="assistant")]},
    ),
    Bad("messages.0: `tool_use` blocks can only be in `assistant` messages", asked(call())),
    Bad(
        "messages.1: `tool_result` blocks can only be in `user` messages",
        replied(call(), {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}),
    ),
    Bad("messages.0: `thinking` blocks can only be in `assistant` messages", asked(thought())),
    Bad("messages.0: `server_tool_use` blocks can only be in `assistant` messages", asked(searched())),
    Bad("messages.1: `image` blocks can only be in `user` messages", replied(image())),
    Bad(
        "messages.1: `document` blocks can only be in `user` messages",
        replied({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
    ),
    Bad(
        f"{M0}.text.citations: citations are not allowed in text blocks of user messages",
        asked(
            text(
                citations=[
                    {
                        "type": "char_location",
                        "cited_text": "a",
                        "document_index": 0,
                        "document_title": "t",
                        "start_char_index": 0,
                        "end_char_index": 1,
                    }
                ]
            )
        ),
    ),
    Bad("messages.1: The final block in an assistant message cannot be `thinking`.", replied(thought())),
    Bad("messages.1.content.0.thinking.signature: Field required", replied({"type": "thinking", "thinking": "Hm."})),
    Bad("messages.1.content.0: Invalid `signature` in `thinking` block", replied(thought(signature=""), text())),
    Bad(
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        replied(thought(signature="scripted_0000000000000000"), text()),
    ),
    Bad(
        "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        replied({"type": "redacted_thinking", "data": ""}, text()),
    ),
    Bad(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid "
        f"this requirement, disable `thinking`. Please consult our documentation at {DOCS}",
        {"thinking": THINKS, "max_tokens": 2000, **replied(call(), then=[result("ok")])},
    ),
]
CALLS = [
    Bad(
        "messages.1.content.0.tool_use.id: Field required", replied({"type": "tool_use", "name": "memory", "input": {}})
    ),
    Bad("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", replied(call("a b"))),
    Bad(
        "messages.1.content.0.tool_use.input: Field required", replied({"type": "tool_use", "id": "t", "name": "read"})
    ),
    Bad("messages.1.content.0.tool_use.input: Input should be an object", replied(call(input="{}"))),
    Bad("messages.1.content.0.tool_use.name: String should have at most 200 characters", replied(call(name="n" * 201))),
    Bad("messages.1.content.0.tool_use.name: String should have at least 1 character", replied(call(name=""))),
    Bad(
        "messages.2.content.0.tool_result.tool_use_id: Field required",
        replied(call(), then=[says({"type": "tool_result"})]),
    ),
    Bad(
        "messages.2.content.0.tool_result.is_error: Input should be a valid boolean",
        replied(call(), then=[result("x", is_error="no")]),
    ),
    Bad(
        "messages.2.content.0.tool_result.content: Input should be a valid array",
        replied(call(), then=[result({"text": "x"})]),
    ),
    Bad(
        "messages.2.content.0.tool_result.content.0.type: Field required",
        replied(call(), then=[result([{"text": "x"}])]),
    ),
    Bad(
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
        replied(call(), then=[result("", is_error=True)]),
    ),
    Bad(
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
        replied(call(), then=[result([], is_error=True)]),
    ),
    Bad(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
        replied(call()),
    ),
    Bad(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t2. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
        replied(call("t1"), call("t2"), then=[result("ok", "t1")]),
    ),
    Bad(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
        replied(call(), then=[says(text("So:"), *result("ok")["content"])]),
    ),
    Bad(
        f"{M0}: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block must have a "
        "corresponding `tool_use` block in the previous message.",
        {"messages": [result("ok")]},
    ),
    Bad(
        "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block "
        "must have a corresponding `tool_use` block in the previous message.",
        replied(call(), then=[result("ok"), says(text(), role="assistant"), result("ok")]),
    ),
    Bad(
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
        "t1",
        replied(call(), then=[result("a"), result("b")]),
    ),
    Bad("messages.1.content.1: `tool_use` ids must be unique", replied(call(), call(), then=[result("ok")])),
    Bad(
        "messages.3.content.0: `tool_use` ids must be unique",
        replied(call(), then=[result("a"), assistant_call("view"), result("b")]),
    ),
    Bad(
        "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
        replied(searched("t1")),
    ),
    Bad(
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block",
        replied(searched(), text()),
    ),
    Bad(
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each "
        "`web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
        replied(found(), text()),
    ),
    Bad(
        "messages.1.content.0: unexpected `tool_use_id` found in `mcp_tool_result` blocks: m1. Each `mcp_tool_result` "
        "block must have a corresponding `mcp_tool_use` block before it.",
        replied({"type": "mcp_tool_result", "tool_use_id": "m1", "content": "x"}, text()),
        betas=(MCP_BETA,),
    ),
]
SOURCES = [
    Bad(
        f"{SOURCE}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
        asked(image(media_type="image/jpg")),
    ),
    Bad(f"{SOURCE}: Input should be an object", asked({"type": "image", "source": PNG})),
    Bad(f"{M0}.image.source: Field required", asked({"type": "image"})),
    Bad(
        f"{SOURCE}.base64.data: Field required",
        asked({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
    ),
    Bad(f"{SOURCE}.base64.data: Input should be a valid string", asked(image(data=5))),
    Bad(f"{SOURCE}.base64: invalid base64 data", asked(image("data:image/png;base64,iVBOR"))),
    Bad(f"{SOURCE}.base64: image cannot be empty", asked(image(""))),
    Bad(
        f"{SOURCE}.base64.data: Image does not match the provided media type image/jpeg",
        asked(image(PNG, "image/jpeg")),
    ),
    Bad("Could not process image", asked(image(base64.b64encode(b"<svg/>").decode()))),
    Bad(
        f"{SOURCE}.base64: image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
        asked(image(PNG[:16] + "A" * (5 * 1024 * 1024 + 4 - 16))),
    ),
    Bad(
        f"{SOURCE}.url.url: Only HTTPS URLs are supported.",
        asked({"type": "image", "source": {"type": "url", "url": "http://example.com/cat.png"}}),
    ),
    Bad(
        "messages.2.content.0.tool_result.content.0.image.source.base64: invalid base64 data",
        replied(call(), then=[result([image("!")])]),
    ),
    Bad(
        f"{M0}.document.source.base64.data: The PDF specified was not valid.",
        asked({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}),
    ),
    Bad(
        f"{M0}.document.source.base64.media_type: Input should be 'application/pdf'",
        asked({"type": "document", "source": {"type": "base64", "media_type": "text/csv", "data": "eA=="}}),
    ),
]
MANAGEMENT = [
    Bad("context_management: Extra inputs are not permitted", edits(clearing())),
    Bad("context_management: Input should be an object", {"context_management": []}, betas=BOTH),
    Bad("context_management.edits: Input should be a valid array", {"context_management": {"edits": {}}}, betas=BOTH),
    Bad("context_management.edit: Extra inputs are not permitted", {"context_management": {"edit": []}}, betas=BOTH),
    Bad("context_management.edits.0.type: Field required", edits({}), betas=BOTH),
    Bad(
        "context_management.edits.0: Input tag 'clear_all_2099' found using 'type' does not match any of the expected "
        "tags: 'clear_tool_uses_20250919', 'clear_thinking_20251015', 'compact_20260112'",
        edits({"type": "clear_all_2099"}),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0: Input tag 'compact_20260112' found using 'type' does not match any of the "
        "expected tags: 'clear_tool_uses_20250919', 'clear_thinking_20251015'",
        edits(compacting()),
        betas=(CONTEXT_BETA,),
    ),
    Bad(
        "context_management.edits.0: Input tag 'clear_tool_uses_20250919' found using 'type' does not match any of the "
        "expected tags: 'compact_20260112'",
        edits(clearing()),
        betas=(COMPACT_BETA,),
    ),
    Bad(f"{EDIT}.instructions: Extra inputs are not permitted", edits(clearing(instructions="x")), betas=BOTH),
    Bad(f"{EDIT}.trigger: Input should be an object", edits(clearing(trigger=5)), betas=BOTH),
    Bad(
        f"{EDIT}.trigger: Input tag 'tokens' found using 'type' does not match any of the expected tags: "
        "'input_tokens', 'tool_uses'",
        edits(clearing(trigger=turns("tokens", 5))),
        betas=BOTH,
    ),
    Bad(f"{EDIT}.trigger.tool_uses.value: Field required", edits(clearing(trigger={"type": "tool_uses"})), betas=BOTH),
    Bad(
        f"{EDIT}.trigger.tool_uses.value: Input should be a valid integer",
        edits(clearing(trigger=turns("tool_uses", True))),
        betas=BOTH,
    ),
    Bad(
        f"{EDIT}.trigger.tool_uses.value: Input should be greater than or equal to 1",
        edits(clearing(trigger=turns("tool_uses", 0))),
        betas=BOTH,
    ),
    Bad(
        f"{EDIT}.keep.type: Input should be 'tool_uses'",
        edits({"type": "clear_tool_uses_20250919", "keep": turns("input_tokens", 1)}),
        betas=BOTH,
    ),
    Bad(f"{EDIT}.keep.value: Input should be greater than or equal to 0", edits(clearing(keep=-1)), betas=BOTH),
    Bad(
        f"{EDIT}.clear_at_least.value: Input should be a valid integer",
        edits(clearing(clear_at_least=turns("input_tokens", "5"))),
        betas=BOTH,
    ),
    Bad(f"{EDIT}.exclude_tools: Input should be a valid array", edits(clearing(exclude_tools="memory")), betas=BOTH),
    Bad(f"{EDIT}.exclude_tools.0: Input should be a valid string", edits(clearing(exclude_tools=[1])), betas=BOTH),
    Bad(
        f"{EDIT}.clear_tool_inputs: Input should be a valid array",
        edits(clearing(clear_tool_inputs="read")),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0.clear_thinking_20251015.keep.thinking_turns.value: Input should be greater than or "
        "equal to 1",
        edits(thinking(turns("thinking_turns", 0))),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0.clear_thinking_20251015.keep: Input should be an object",
        edits(thinking("none")),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits: `clear_thinking_20251015` must be the first edit in the list",
        edits(clearing(), thinking()),
        betas=BOTH,
    ),
    Bad(
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
        edits(thinking()),
        betas=BOTH,
    ),
    Bad(
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
        {**edits(thinking()), "thinking": {"type": "disabled"}},
        betas=BOTH,
    ),
    Bad("context_management.edits: each strategy can be used only once", edits(clearing(), clearing()), betas=BOTH),
    Bad(
        "context_management.edits.0.compact_20260112.trigger.value: Input should be greater than or equal to 50000",
        edits(compacting(over=49_999)),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0.compact_20260112.trigger.type: Input should be 'input_tokens'",
        edits({"type": "compact_20260112", "trigger": turns("tool_uses", 60_000)}),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0.compact_20260112.pause_after_compaction: Input should be a valid boolean",
        edits(compacting(pause_after_compaction="yes")),
        betas=BOTH,
    ),
    Bad(
        "context_management.edits.0.compact_20260112.instructions: Input should be a valid string",
        edits(compacting(instructions=[])),
        betas=BOTH,
    ),
    Bad(
        "messages.1.content.0.compaction.content: String should have at least 1 character",
        replied({"type": "compaction", "content": ""}),
        betas=BOTH,
    ),
    Bad(
        "messages.0: `compaction` blocks can only be in `assistant` messages",
        asked({"type": "compaction", "content": "x"}),
        betas=BOTH,
    ),
    Bad("thread: Extra inputs are not permitted", {"thread": {"type": "create"}}),
    Bad(
        "thread: Input tag 'fork' found using 'type' does not match any of the expected tags: 'create', 'continue'",
        {"thread": {"type": "fork"}},
        betas=(THREADS_BETA,),
    ),
    Bad("thread.continue.previous_message_id: Field required", {"thread": {"type": "continue"}}, betas=(THREADS_BETA,)),
    Bad(
        "thread: `system` and `tools` are taken from the thread; leave them out of a continue request",
        {"thread": {"type": "continue", "previous_message_id": "msg_1"}},
        betas=(THREADS_BETA,),
    ),
    Bad(
        "No thread was found for previous_message_id 'msg_1'.",
        {"thread": {"type": "continue", "previous_message_id": "msg_1"}, "tools": ...},
        status=404,
        betas=(THREADS_BETA,),
    ),
    Bad(
        "This request cannot be threaded; send the full conversation without `thread`.",
        {"thread": {"type": "create"}, **edits(clearing())},
        betas=(THREADS_BETA, CONTEXT_BETA),
    ),
]
BAD = [*HTTP, *FIELDS, *SAMPLING, *TOOLS, *CACHING, *MESSAGES, *CALLS, *SOURCES, *MANAGEMENT]


def headers_of(bad: Bad) -> dict[str, str]:
    given = {"x-api-key": "key", "anthropic-version": bad.version, "anthropic-beta": ",".join(bad.betas), **bad.headers}
    return {name: value for name, value in given.items() if value is not ... and value != ""}


def body_of(bad: Bad) -> dict[str, Any]:
    body = {**ASK, "messages": HELLO, "tools": [TOOL], **bad.fields}
    return {name: value for name, value in body.items() if value is not ...}
