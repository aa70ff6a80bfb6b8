"""Fields of API requests: context management, the budget, tools and extra fields.

    context = memory_context(clear_over=30_000)
    client.beta.messages.create(..., context_management=context, betas=betas_of(context))

A context edit shortens a long conversation before the model reads it. It clears old tool results or thinking, or
replaces the conversation with a summary. The edits are plain dicts; the SDK has the type
`BetaContextManagementConfigParam`.

Source: "Context editing", "Compaction" and the API reference, linked in docs/agent.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from retentive.agent.conversation import check_at_least, check_list, check_text
from retentive.errors import InvalidInput
from retentive.integrations.messages import TOOL
from retentive.integrations.schemas import MEMORY

CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
COMPACT: Final = "compact_20260112"
BETAS: Final[Mapping[str, str]] = {
    CLEAR_TOOL_USES: "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
    COMPACT: "compact-2026-01-12",
}
MAX_UNSTREAMED_TOKENS = 21_333  # above this, the SDK requires streaming, because a response may take over 10 minutes
CACHE = {"type": "ephemeral"}
_AGENT_FIELDS = {
    *("model", "max_tokens", "messages", "tools", "system", "stream", "thread", "context_management", "compaction")
}


def memory_context(
    *,
    clear_over: int = 100_000,
    keep: int = 3,
    clear_at_least: int = 20_000,
    exclude_memory: bool = True,
    compact_over: int | None = 150_000,
) -> dict[str, Any]:
    """Return the context edits of an agent with a memory, as the field `context_management` of a request.

    Above `clear_over` tokens, the oldest tool results are cleared, at least `clear_at_least` tokens at a time, because
    clearing invalidates the prompt cache. The newest `keep` results are never cleared, and neither are those of the
    memory tool: Claude would have to view the memories again. With `exclude_memory=False`, they are cleared like all
    others. A conversation of `compact_over` tokens, at least 50,000, is replaced with a summary; None means never.
    Raises `InvalidInput`.
    """
    for name, value in (("clear_over", clear_over), ("keep", keep), ("clear_at_least", clear_at_least)):
        check_at_least(0, f"`{name}`", value)
    clear: dict[str, Any] = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": clear_over},
        "keep": {"type": "tool_uses", "value": keep},
        "clear_at_least": {"type": "input_tokens", "value": clear_at_least},
    }
    edits = [{**clear, "exclude_tools": [MEMORY]} if exclude_memory else clear]
    if compact_over is not None:
        check_at_least(50_000, "`compact_over`", compact_over)
        edits.append({"type": COMPACT, "trigger": {"type": "input_tokens", "value": compact_over}})
    return {"edits": edits}


def betas_of(context: Mapping[str, Any]) -> list[str]:
    """Return the beta names that a request with these context edits needs. Raises `InvalidInput`."""
    given: object = context
    edits = given.get("edits") if isinstance(given, Mapping) else None
    if not isinstance(edits, list | tuple) or not all(isinstance(edit, Mapping) for edit in edits):
        raise InvalidInput("`context` must be a dict with a list of `edits`, such as the result of `memory_context()`")
    return list(dict.fromkeys(BETAS[edit["type"]] for edit in edits if edit.get("type") in BETAS))


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
    model: str, budget: Budget, system: str, *, stream: bool, cache: bool, request: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the fields that all requests share, without messages and tools. Raises `InvalidInput`.

    With `cache`, there is a cache breakpoint at the end of the system prompt, and one at the end of the conversation.
    Context edits change the conversation but not the system prompt, so the system prompt stays cached.
    """
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
    wrong = "`betas` in `request` must be a list of strings"
    betas = check_list(extra.pop("betas", None) or (), wrong)
    if not all(isinstance(beta, str) and beta for beta in betas):
        raise InvalidInput(wrong)
    found = {**extra, "model": model, "max_tokens": budget.max_tokens, "betas": betas}
    if system:
        found["system"] = [{"type": "text", "text": system, "cache_control": dict(CACHE)}] if cache else system
    return {"cache_control": dict(CACHE), **found} if cache else found


def request_of(
    shared: Mapping[str, Any], context: Mapping[str, Any] | None, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the fields of a request with these messages."""
    has_summary = any(block["type"] == "compaction" for message in messages for block in message["content"])
    betas = [*shared["betas"], *(() if context is None else betas_of(context)), *([BETAS[COMPACT]] * has_summary)]
    request = {**shared, "messages": messages, "betas": list(dict.fromkeys(betas))}
    if not betas:
        del request["betas"]
    return request if context is None else {**request, "context_management": dict(context)}


def tool_list(tools: Iterable[Any], *, is_async: bool) -> list[Any]:
    """Check the application's tools and return them as a list.

    Raises `InvalidInput` for an invalid tool, and for an async tool unless `is_async` is True.
    """
    checked = check_list(tools, "`tools` must be a list of tools")
    names = list[object]()
    for tool in checked:
        entry = isinstance(tool, Mapping) and any(isinstance(tool.get(name), str) for name in ("type", "name"))
        if not entry and not (hasattr(tool, "to_dict") and hasattr(tool, "call")):
            raise InvalidInput(
                "each tool must be a function decorated with the SDK's beta_tool or beta_async_tool, "
                "or a tool definition as a dict"
            )
        name = tool.get("name") if isinstance(tool, Mapping) else tool.name
        if name == TOOL["name"]:
            raise InvalidInput(f"the agent already has a tool named {name!r}; pass the memory as the argument `memory`")
        if name is not None and name in names:
            raise InvalidInput(f"two tools are named {name!r}; the API accepts each name once")
        if not is_async and inspect.iscoroutinefunction(getattr(tool, "call", None)):
            raise InvalidInput(f"the tool {name!r} is async; use AsyncAgent, or define the tool with `beta_tool`")
        names.append(name)
    return checked


def check_fields(method: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise `InvalidInput` if a method of the SDK does not accept these fields."""
    try:
        inspect.signature(method).bind(**given)
    except TypeError as error:
        raise InvalidInput(f"the SDK cannot build this request: {error}") from error
