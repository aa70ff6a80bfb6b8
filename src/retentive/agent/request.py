"""Validation of the arguments that become fields of API requests: tools, context edits, budget and extra fields."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from retentive.agent.checks import check_bool, check_list, check_text
from retentive.agent.context import (
    COMPACTION_BETA,
    ON_DEMAND_BETA,
    Compact,
    ContextManagement,
    check_instructions,
)
from retentive.agent.turns import MAX_UNSTREAMED_TOKENS, Budget
from retentive.errors import InvalidInput
from retentive.integrations.messages import TOOL

_BETAS = "`betas` in `request` must be a list of strings"
CACHE = {"type": "ephemeral"}
_AGENT_FIELDS = {
    *("model", "max_tokens", "messages", "tools", "system", "stream", "thread", "context_management", "compaction")
}
_MAX_INSTRUCTIONS = 16_384  # characters in the field `compaction`; source: "Compaction on demand"


def request_fields(
    model: str,
    context: ContextManagement | None,
    budget: Budget,
    *,
    stream: bool,
    cache: bool,
    request: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the fields that all requests share, without messages, tools and system prompt. Raises `InvalidInput`."""
    _check_types(model, context, budget, stream=stream, request=request)
    check_bool("cache", cache)
    extra = dict(request or {})
    if reserved := sorted(_AGENT_FIELDS & set(extra)):
        raise InvalidInput(
            f"`request` must not contain {', '.join(reserved)}; the agent sets these fields from other arguments"
        )
    if budget.max_tokens > MAX_UNSTREAMED_TOKENS and not stream:
        raise InvalidInput(f"max_tokens above {MAX_UNSTREAMED_TOKENS:,} requires stream=True")
    extra_betas = check_list(extra.pop("betas", None) or (), _BETAS)
    if not all(isinstance(beta, str) and beta for beta in extra_betas):
        raise InvalidInput(_BETAS)
    fields = {**extra, "model": model, "max_tokens": budget.max_tokens, "betas": extra_betas}
    if cache:
        fields.setdefault("cache_control", dict(CACHE))
    return fields


def request_of(
    fields: Mapping[str, Any],
    context: ContextManagement | None,
    messages: Sequence[Mapping[str, Any]],
    compaction: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of a request with these messages. With `compaction`, the request asks for a summary.

    Context edits that the API would reject are left out: all edits in a request with `compaction`, and the edit
    `Compact` if the messages contain a signed summary. The API signs a summary only if it was requested with
    `compaction`. Source: the limits and the interactions with other features in "Compaction on demand".
    """
    summaries = [block for message in messages for block in message["content"] if block["type"] == "compaction"]
    signed = [block for block in summaries if block.get("signature")]
    edits = context.edits if context is not None and compaction is None else ()
    edits = tuple(edit for edit in edits if not (signed and isinstance(edit, Compact)))
    betas = [*fields["betas"], *(edit.beta for edit in edits)]
    if signed or compaction is not None:
        betas.append(ON_DEMAND_BETA)
    if len(signed) < len(summaries):
        betas.append(COMPACTION_BETA)
    request = {**fields, "messages": messages, "betas": list(dict.fromkeys(betas))}
    if not betas:
        del request["betas"]
    if edits:
        request["context_management"] = ContextManagement(*edits).request()
    return request if compaction is None else {**_without_reply_fields(request), "compaction": compaction}


def compaction_config(instructions: str | None) -> dict[str, Any]:
    """Return the value of the request field `compaction`. Raises `InvalidInput`."""
    check_instructions(instructions)
    if instructions is not None and len(instructions) > _MAX_INSTRUCTIONS:
        raise InvalidInput(f"`instructions` must not be longer than {_MAX_INSTRUCTIONS:,} characters")
    return {"type": "summarize"} | ({} if instructions is None else {"instructions": instructions})


def _without_reply_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the fields that only shape a reply, because the API rejects them in a request with `compaction`."""
    kept = {name: value for name, value in request.items() if name not in ("stop_sequences", "output_format")}
    if isinstance(choice := kept.get("tool_choice"), Mapping) and choice.get("type") in ("any", "tool"):
        del kept["tool_choice"]
    if isinstance(output := kept.get("output_config"), Mapping):
        kept["output_config"] = {name: value for name, value in output.items() if name != "format"}
    return kept


def system_blocks(prompt: str, *, cache: bool) -> str | list[dict[str, Any]]:
    """Return the system prompt. With `cache`, there is a cache breakpoint at its end.

    Context edits change the conversation but not the system prompt. With its own breakpoint, the system prompt stays
    cached. The request field `cache_control` adds a second breakpoint at the end of the conversation.
    """
    return [{"type": "text", "text": prompt, "cache_control": dict(CACHE)}] if cache else prompt


def tool_list(tools: Iterable[Any], *, is_async: bool) -> list[Any]:
    """Check the application's tools and return them as a list.

    Raises `InvalidInput` for an invalid tool, and for an async tool unless `is_async` is True.
    """
    checked = check_list(tools, "`tools` must be a list of tools")
    for tool in checked:
        entry = isinstance(tool, Mapping) and any(isinstance(tool.get(name), str) for name in ("type", "name"))
        if not entry and not (hasattr(tool, "to_dict") and hasattr(tool, "call")):
            raise InvalidInput(
                "each tool must be a function decorated with the SDK's beta_tool or beta_async_tool, "
                "or a tool definition as a dict"
            )
    names = [tool.get("name") if isinstance(tool, Mapping) else tool.name for tool in checked]
    if TOOL["name"] in names:
        raise InvalidInput(
            f"the agent already has a tool named {TOOL['name']!r}; pass the memory as the argument `memory`"
        )
    if twice := next((name for name in names if name is not None and names.count(name) > 1), None):
        raise InvalidInput(f"two tools are named {twice!r}; the API accepts each name once")
    for tool in checked:
        if not is_async and inspect.iscoroutinefunction(getattr(tool, "call", None)):
            raise InvalidInput(f"the tool {tool.name!r} is async; use AsyncAgent, or define the tool with `beta_tool`")
    return checked


def _check_types(model: object, context: object, budget: object, *, stream: object, request: object) -> None:
    check_text("`model`", model)
    if not model:
        raise InvalidInput("`model` must not be empty")
    if context is not None and not isinstance(context, ContextManagement):
        raise InvalidInput("`context` must be a ContextManagement, or None")
    if not isinstance(budget, Budget):
        raise InvalidInput("`budget` must be a Budget")
    check_bool("`stream`", stream)
    if request is not None and not isinstance(request, Mapping):
        raise InvalidInput("`request` must be a dict of API fields, or None")
