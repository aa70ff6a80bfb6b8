"""Context management for the Messages API: how the API makes room in a long conversation, for an agent with a memory.

    context = memory_context(clear_over=30_000)
    client.beta.messages.create(..., context_management=context, betas=betas_of(context))

A context edit shortens a conversation before the model reads it. It clears old tool results or thinking, or replaces
the conversation with a summary. The edits are plain dicts; the SDK has the type `BetaContextManagementConfigParam`.

Source: "Context editing", "Compaction" and the API reference, linked in docs/agents.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retentive.agent.conversation import check_at_least
from retentive.errors import InvalidInput
from retentive.integrations.schemas import MEMORY

CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
COMPACT: Final = "compact_20260112"
BETAS: Final[Mapping[str, str]] = {
    CLEAR_TOOL_USES: "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
    COMPACT: "compact-2026-01-12",
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
