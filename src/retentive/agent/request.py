"""Arguments that become fields of API requests: the budget, tools, context edits and extra fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from retentive.agent.context import BETAS, COMPACT, betas_of
from retentive.agent.conversation import check_at_least, check_list, check_text
from retentive.errors import InvalidInput
from retentive.integrations.messages import TOOL

MAX_UNSTREAMED_TOKENS = 21_333  # above this, the SDK requires streaming, because a response may take over 10 minutes
_BETAS = "`betas` in `request` must be a list of strings"
CACHE = {"type": "ephemeral"}
_AGENT_FIELDS = {
    *("model", "max_tokens", "messages", "tools", "system", "stream", "thread", "context_management", "compaction")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run, and of all runs of a conversation.

    `max_turns` limits the number of responses in a run. `max_tokens` limits the output of each response.
    `max_total_turns` and `max_total_tokens` limit the responses and the tokens in all runs of the conversation,
    including runs of earlier agents (see `Agent.saved`). Tokens of input, cache and compactions count too. None means
    no limit.

    Limits are checked before the first request and after each response, so the last response may exceed them.
    """

    max_turns: int = 50
    max_tokens: int = 8_192
    max_total_tokens: int | None = None
    max_total_turns: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                check_at_least(1, each.name, value)


def request_fields(
    model: str, budget: Budget, *, stream: bool, cache: bool, request: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the fields that all requests share, without messages, tools and system prompt. Raises `InvalidInput`."""
    check_text("`model`", model)
    if not model:
        raise InvalidInput("`model` must not be empty")
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
    fields: Mapping[str, Any], context: Mapping[str, Any] | None, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the fields of a request with these messages."""
    has_summary = any(block["type"] == "compaction" for message in messages for block in message["content"])
    betas = [*fields["betas"], *(() if context is None else betas_of(context))]
    betas += [BETAS[COMPACT]] if has_summary else []
    request = {**fields, "messages": messages, "betas": list(dict.fromkeys(betas))}
    if not betas:
        del request["betas"]
    return request if context is None else {**request, "context_management": dict(context)}


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


def check_fields(method: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise `InvalidInput` if a method of the SDK does not accept these fields."""
    try:
        inspect.signature(method).bind(**given)
    except TypeError as error:
        raise InvalidInput(f"the SDK cannot build this request: {error}") from error
