"""Parses the context edits in the field `context_management` of a request.

The modules `shape` and `checks` have already validated the field. Sources: "Context editing"
(configuration options), "Compaction" (parameters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.testing.scripted_claude.messages import Block, as_blocks


@dataclass(frozen=True, slots=True)
class ClearToolUsesEdit:
    """Edit `clear_tool_uses_20250919`, which replaces old tool results with placeholders.

    It applies if the prompt has more than `trigger` units. `unit` is "input_tokens" or "tool_uses".

    `clear_inputs` selects the tools whose inputs are cleared too: True for all tools, False for no tool, or the names
    of tools.
    """

    trigger: int = 100_000
    unit: str = "input_tokens"
    keep: int = 3
    clear_at_least: int = 0
    exclude_tools: frozenset[str] = frozenset()
    clear_inputs: bool | frozenset[str] = False


@dataclass(frozen=True, slots=True)
class ClearThinkingEdit:
    """Edit `clear_thinking_20251015`, which removes old thinking.

    `keep` is the number of turns whose thinking is kept, or "all".
    """

    keep: int | Literal["all"] = 1


@dataclass(frozen=True, slots=True)
class CompactEdit:
    """Edit `compact_20260112`, which replaces the conversation with a summary.

    `trigger` is a number of input tokens. If `pause` is true, the reply ends after the summary. `instructions` replace
    the default prompt for the summary.
    """

    trigger: int = 150_000
    pause: bool = False
    instructions: str | None = None


ContextEdit: TypeAlias = ClearToolUsesEdit | ClearThinkingEdit | CompactEdit


def parse_edits(management: object) -> tuple[ContextEdit, ...] | None:
    """Return the edits of the field `context_management`, in order. Returns None if the request has no such field."""
    return tuple(map(_edit, as_blocks(management.get("edits")))) if isinstance(management, Mapping) else None


def _edit(edit: Block) -> ContextEdit:
    keep, trigger = edit.get("keep"), edit.get("trigger")
    if edit["type"] == "clear_thinking_20251015":
        everything = keep == "all" or (isinstance(keep, Mapping) and keep["type"] == "all")
        return ClearThinkingEdit("all" if everything else _value(keep, 1))
    if edit["type"] == "compact_20260112":
        instructions = str(edit.get("instructions") or "") or None
        return CompactEdit(_value(trigger, 150_000), edit.get("pause_after_compaction") is True, instructions)
    unit = str(trigger["type"]) if isinstance(trigger, Mapping) else "input_tokens"
    inputs = edit.get("clear_tool_inputs")
    return ClearToolUsesEdit(
        trigger=_value(trigger, 100_000),
        unit=unit,
        keep=_value(keep, 3),
        clear_at_least=_value(edit.get("clear_at_least"), 0),
        exclude_tools=_names(edit.get("exclude_tools")),
        clear_inputs=_names(inputs) if isinstance(inputs, list) else inputs is True,
    )


def _value(amount: object, default: int) -> int:
    """Return the value in an object such as `{"type": "tool_uses", "value": 3}`.

    If the object or its value is missing, return `default`.
    """
    value = amount.get("value") if isinstance(amount, Mapping) else None
    return value if isinstance(value, int) else default


def _names(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
