"""What every request of an agent is made of besides its conversation, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from retentive.agent.characters import check_text
from retentive.agent.context import ContextManagement
from retentive.agent.turns import MAX_UNSTREAMED_TOKENS, Budget
from retentive.errors import InvalidInput
from retentive.storage.contract import Actor

_OURS = {"model", "max_tokens", "messages", "tools", "system", "stream", "thread", "context_management"}


def request_fields(
    model: str, context: ContextManagement | None, budget: Budget, *, stream: bool, request: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The fields of every request but the conversation, the tools and the system prompt. Raises `InvalidInput`."""
    _check_kinds(model, context, budget, stream=stream, request=request)
    more = dict(request or {})
    if taken := sorted(_OURS & set(more)):
        raise InvalidInput(f"request must not have {', '.join(taken)}; the agent has arguments for these")
    if budget.max_tokens > MAX_UNSTREAMED_TOKENS and not stream:
        raise InvalidInput(f"more than {MAX_UNSTREAMED_TOKENS:,} max_tokens need stream=True")
    given = more.pop("betas", None) or ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput("betas in request must be a list of texts")
    betas = [*given, *(context.betas if context is not None else ())]
    if not all(isinstance(beta, str) and beta for beta in betas):
        raise InvalidInput("betas in request must be a list of texts")
    fields = {**more, "model": model, "max_tokens": budget.max_tokens, "stream": stream, "thread": False}
    if betas:
        fields["betas"] = list(dict.fromkeys(betas))
    if context is not None:
        fields["context_management"] = context.request()
    return fields


def tool_list(tools: Iterable[Any]) -> list[Any]:
    """More tools than the memory, as the SDK takes them. Raises `InvalidInput`."""
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise InvalidInput("tools must be a list of tools")
    listed = list(tools)
    for tool in listed:
        entry = isinstance(tool, Mapping) and any(isinstance(tool.get(name), str) for name in ("type", "name"))
        if not entry and not (hasattr(tool, "to_dict") and hasattr(tool, "call")):
            raise InvalidInput(
                "tools must be functions with the SDK's beta_tool (beta_async_tool), or entries of `tools` as objects"
            )
    return listed


def check_actor(actor: object) -> None:
    """Raise `InvalidInput` for what cannot name who changes a memory."""
    if actor is not None and not isinstance(actor, Actor | str):
        raise InvalidInput("actor must be an Actor, or a text such as 'session:1'")


def _check_kinds(model: object, context: object, budget: object, *, stream: object, request: object) -> None:
    check_text("model", model)
    if not model:
        raise InvalidInput("model must be the name of a model")
    if context is not None and not isinstance(context, ContextManagement):
        raise InvalidInput("context must be a ContextManagement, or None")
    if not isinstance(budget, Budget):
        raise InvalidInput("budget must be a Budget")
    if not isinstance(stream, bool):
        raise InvalidInput("stream must be True or False")
    if request is not None and not isinstance(request, Mapping):
        raise InvalidInput("request must be an object with fields of the API, or None")
