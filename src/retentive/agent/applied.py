"""What the API did to a context, and what it cost, read from its responses as values to log.

Every function takes a response of an SDK or the same as a dict. What a newer API adds is kept as it is; nothing
here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.agent.context import ClearThinking, ClearToolUses


@dataclass(frozen=True, slots=True)
class ClearedToolUses:
    """Results of so many tool uses were not shown to the model."""

    tool_uses: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class ClearedThinking:
    """The thinking of so many turns was not shown to the model."""

    turns: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class OtherEdit:
    """An edit of a kind not known here, as the API reported it."""

    type: str
    fields: Mapping[str, object]


AppliedEdit: TypeAlias = ClearedToolUses | ClearedThinking | OtherEdit


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a response, or of one step in it. `kind` is "message", "compaction" or what the API calls it."""

    kind: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens, whatever they cost."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens


@dataclass(frozen=True, slots=True)
class TokenCount:
    """An answer of `count_tokens`: tokens after the edits of the request, and before them if there were edits."""

    input_tokens: int
    original_input_tokens: int | None


def applied_edits(response: object) -> tuple[AppliedEdit, ...]:
    """The edits a message or a message_delta event reports, in their order."""
    reported = part(part(response, "context_management"), "applied_edits")
    return tuple(_edit(edit) for edit in _items(reported))


def compactions(response: object) -> tuple[str | None, ...]:
    """The summary of each compaction block in a message; None for one that failed."""
    blocks = [block for block in _items(part(response, "content")) if part(block, "type") == "compaction"]
    summaries = (part(block, "content") for block in blocks)
    return tuple(summary if isinstance(summary, str) else None for summary in summaries)


def usage(response: object) -> Usage:
    """The tokens of a message. Compactions are not in it, see `iterations`."""
    return _usage(part(response, "usage"), "message")


def iterations(response: object) -> tuple[Usage, ...]:
    """The steps within a message, where the API reports them: compactions, rounds of server tools."""
    return tuple(_usage(step, "unknown") for step in _items(part(part(response, "usage"), "iterations")))


def billed_tokens(response: object) -> int:
    """All tokens of a message, compactions included: those of its steps, or of the whole where there are none."""
    steps = iterations(response)
    return sum(step.total_tokens for step in steps) if steps else usage(response).total_tokens


def token_count(response: object) -> TokenCount:
    """An answer of `count_tokens`."""
    original = part(part(response, "context_management"), "original_input_tokens")
    return TokenCount(_count(part(response, "input_tokens")), _count(original) if _is_count(original) else None)


def part(value: object, name: str) -> object:
    """A field of an SDK's object or of a dict, None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _edit(edit: object) -> AppliedEdit:
    kind = part(edit, "type")
    tokens, uses, turns = (
        part(edit, name) for name in ("cleared_input_tokens", "cleared_tool_uses", "cleared_thinking_turns")
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
    given = part(value, "type")
    return Usage(
        given if isinstance(given, str) else kind,
        _count(part(value, "input_tokens")),
        _count(part(value, "output_tokens")),
        _count(part(value, "cache_read_input_tokens")),
        _count(part(value, "cache_creation_input_tokens")),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
