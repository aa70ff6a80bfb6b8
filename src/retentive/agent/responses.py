"""Applied context edits, compactions and token usage, read from responses of the API.

Each function takes an SDK response object, or the same data as a dict. A context edit of an unknown type is returned as
`OtherEdit`. No function raises an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from retentive.agent.context import ClearThinking, ClearToolUses


@dataclass(frozen=True, slots=True)
class ClearedToolUses:
    """Tool results that the API removed from the model's context: their number, and the number of their tokens."""

    tool_uses: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class ClearedThinking:
    """Thinking that the API removed from the model's context: the number of turns, and the number of tokens."""

    turns: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class OtherEdit:
    """An applied context edit of an unknown type, with the fields that the API reported."""

    type: str
    fields: Mapping[str, object]


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
AppliedEdit: TypeAlias = ClearedToolUses | ClearedThinking | OtherEdit


class _Total:
    __slots__ = ()

    @property
    def total_tokens(self) -> int:
        """Sum of all tokens, regardless of their price."""
        return sum(getattr(self, name) for name in _TOKENS)


@dataclass(frozen=True, slots=True)
class TokenUsage(_Total):
    """Token usage of a response or of one step of a response.

    `kind` is "message", "compaction", or another type of step that the API reports.
    """

    kind: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ConversationUsage(_Total):
    """Number of responses, and numbers of tokens, in all runs of a conversation.

    Compactions are included, and also responses that were not recorded in the conversation. A response whose stream
    was interrupted is not included.
    """

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    def after(self, response: object) -> ConversationUsage:
        """Return the usage with one more response added."""
        steps = _billed(response)
        tokens = {name: getattr(self, name) + sum(getattr(step, name) for step in steps) for name in _TOKENS}
        return ConversationUsage(self.turns + 1, **tokens)


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Result of `count_tokens`.

    `input_tokens` counts the tokens after context edits. `original_input_tokens` counts the tokens before the edits. It
    is None if the request has no edits.
    """

    input_tokens: int
    original_input_tokens: int | None


def applied_edits(response: object) -> tuple[AppliedEdit, ...]:
    """Return the context edits that the API applied, in order. `response` is a message or a `message_delta` event."""
    edits = field(field(response, "context_management"), "applied_edits")
    return tuple(_edit(edit) for edit in items(edits))


def compactions(response: object) -> tuple[str | None, ...]:
    """Return the summary of each compaction block in a message. For a failed compaction, it is None."""
    blocks = [block for block in items(field(response, "content")) if field(block, "type") == "compaction"]
    summaries = (field(block, "content") for block in blocks)
    return tuple(summary if isinstance(summary, str) else None for summary in summaries)


def usage(response: object) -> TokenUsage:
    """Return the token usage of a message. It does not include compactions, which `iterations` reports."""
    return _usage(field(response, "usage"), "message")


def iterations(response: object) -> tuple[TokenUsage, ...]:
    """Return the token usage of each step of a message. A step is a compaction or a round of server tools.

    The result is empty if the API reports no steps.
    """
    return tuple(_usage(step, "unknown") for step in items(field(field(response, "usage"), "iterations")))


def billed_tokens(response: object) -> int:
    """Return the total number of tokens of a message, including compactions."""
    return sum(step.total_tokens for step in _billed(response))


def _billed(response: object) -> tuple[TokenUsage, ...]:
    return iterations(response) or (usage(response),)


def token_count(response: object) -> TokenCount:
    """Convert a response of the API method `count_tokens` to a `TokenCount`."""
    original = field(field(response, "context_management"), "original_input_tokens")
    return TokenCount(_count(field(response, "input_tokens")) or 0, _count(original))


def field(value: object, name: str) -> object:
    """Return a field of an SDK object or a dict, or None if it is missing."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def items(value: object) -> Sequence[object]:
    """Return the items of a list, or an empty tuple if the value is not a list."""
    return value if isinstance(value, list | tuple) else ()


def _edit(edit: object) -> AppliedEdit:
    kind = field(edit, "type")
    names = ("cleared_input_tokens", "cleared_tool_uses", "cleared_thinking_turns")
    tokens, uses, turns = (_count(field(edit, name)) for name in names)
    if kind == ClearToolUses.type and tokens is not None and uses is not None:
        return ClearedToolUses(uses, tokens)
    if kind == ClearThinking.type and tokens is not None and turns is not None:
        return ClearedThinking(turns, tokens)
    return OtherEdit(kind if isinstance(kind, str) else "unknown", _fields(edit))


def _fields(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return dict(value)
    return {**getattr(value, "__dict__", {}), **(getattr(value, "model_extra", None) or {})}


def _usage(value: object, kind: str) -> TokenUsage:
    reported_kind = field(value, "type")
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [_count(field(value, name)) or 0 for name in names]
    return TokenUsage(reported_kind if isinstance(reported_kind, str) else kind, *counts)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
