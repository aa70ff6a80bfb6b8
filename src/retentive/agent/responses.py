"""Applied context edits, compactions and token usage, read from API responses.

Every function takes an SDK response object or the same data as a dict. Unknown edit types are kept as `OtherEdit`.
No function here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.agent.context import ClearThinking, ClearToolUses


@dataclass(frozen=True, slots=True)
class ClearedToolUses:
    """Tool results the API removed from the model's context."""

    tool_uses: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class ClearedThinking:
    """Thinking the API removed from the model's context, counted in turns."""

    turns: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class OtherEdit:
    """An edit of an unknown type, with the fields the API reported."""

    type: str
    fields: Mapping[str, object]


AppliedEdit: TypeAlias = ClearedToolUses | ClearedThinking | OtherEdit


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a response or of one step in it. `kind` is "message", "compaction" or another type of the API."""

    kind: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Sum of all tokens, regardless of price."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Result of `count_tokens`: tokens after context edits, and before them if the request has edits."""

    input_tokens: int
    original_input_tokens: int | None


def applied_edits(response: object) -> tuple[AppliedEdit, ...]:
    """Edits that a message or a message_delta event reports, in order."""
    edits = field(field(response, "context_management"), "applied_edits")
    return tuple(_edit(edit) for edit in _items(edits))


def compactions(response: object) -> tuple[str | None, ...]:
    """Summary of each compaction block in a message. A failed compaction gives None."""
    blocks = [block for block in _items(field(response, "content")) if field(block, "type") == "compaction"]
    summaries = (field(block, "content") for block in blocks)
    return tuple(summary if isinstance(summary, str) else None for summary in summaries)


def usage(response: object) -> Usage:
    """Token usage of a message, without compactions. `iterations` includes them."""
    return _usage(field(response, "usage"), "message")


def iterations(response: object) -> tuple[Usage, ...]:
    """Token usage of each step in a message: compactions and server tool rounds. Empty if the API reports no steps."""
    return tuple(_usage(step, "unknown") for step in _items(field(field(response, "usage"), "iterations")))


def billed_tokens(response: object) -> int:
    """Total tokens of a message, including compactions."""
    steps = iterations(response)
    return sum(step.total_tokens for step in steps) if steps else usage(response).total_tokens


def token_count(response: object) -> TokenCount:
    """Read a `count_tokens` response."""
    original = field(field(response, "context_management"), "original_input_tokens")
    return TokenCount(_count(field(response, "input_tokens")), _count(original) if _is_count(original) else None)


def field(value: object, name: str) -> object:
    """Return a field of an SDK object or of a dict, or None if it is missing."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _edit(edit: object) -> AppliedEdit:
    kind = field(edit, "type")
    tokens, uses, turns = (
        field(edit, name) for name in ("cleared_input_tokens", "cleared_tool_uses", "cleared_thinking_turns")
    )
    if kind == ClearToolUses.type and _is_count(tokens) and _is_count(uses):
        return ClearedToolUses(_count(uses), _count(tokens))
    if kind == ClearThinking.type and _is_count(tokens) and _is_count(turns):
        return ClearedThinking(_count(turns), _count(tokens))
    return OtherEdit(kind if isinstance(kind, str) else "unknown", _fields(edit))


def _fields(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return dict(value)
    return {**getattr(value, "__dict__", {}), **(getattr(value, "model_extra", None) or {})}


def _usage(value: object, kind: str) -> Usage:
    reported_kind = field(value, "type")
    return Usage(
        reported_kind if isinstance(reported_kind, str) else kind,
        _count(field(value, "input_tokens")),
        _count(field(value, "output_tokens")),
        _count(field(value, "cache_read_input_tokens")),
        _count(field(value, "cache_creation_input_tokens")),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
