"""Parser for the request field `context_management`, with the validation of the API.

Sources: "Context editing", configuration options; "Compaction", parameters. Error messages are copied from the API
where its messages are known. Other messages have the same format: the field, a colon, the expected value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.errors import invalid, typed

CONTEXT_BETA = "context-management-2025-06-27"
COMPACT_BETA = "compact-2026-01-12"
CLEAR_TOOL_USES = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
BETAS = {CLEAR_TOOL_USES: CONTEXT_BETA, CLEAR_THINKING: CONTEXT_BETA, COMPACT: COMPACT_BETA}
MIN_COMPACT_TRIGGER = 50_000  # "Compaction", parameters: must be at least 50,000 tokens
_FIELD = "context_management"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Threshold of an edit. The edit applies to prompts with more than `value` input tokens or tool uses."""

    kind: str
    value: int


@dataclass(frozen=True, slots=True)
class ClearToolUsesEdit:
    """Edit `clear_tool_uses_20250919`. `clear_inputs` is True for all tools, or a set of tool names."""

    trigger: Trigger = Trigger("input_tokens", 100_000)
    keep: int = 3
    clear_at_least: int = 0
    exclude_tools: frozenset[str] = frozenset()
    clear_inputs: bool | frozenset[str] = False


@dataclass(frozen=True, slots=True)
class ClearThinkingEdit:
    """Edit `clear_thinking_20251015`. `keep` is a number of turns, "all", or None if the request omits it."""

    keep: int | Literal["all"] | None = None


@dataclass(frozen=True, slots=True)
class CompactEdit:
    """Edit `compact_20260112`. `instructions` replace the default summary prompt."""

    trigger: int = 150_000
    pause: bool = False
    instructions: str | None = None


ContextEdit: TypeAlias = ClearToolUsesEdit | ClearThinkingEdit | CompactEdit


def parse_edits(body: Mapping[str, object], betas: Set[str], choices: Choices) -> tuple[ContextEdit, ...] | None:
    """Parse the edits of a request, in order. Returns None if the request has no `context_management`.

    Raises `ApiError`.
    """
    data = body.get(_FIELD)
    if data is None:
        return None
    if not betas & set(BETAS.values()):
        raise invalid(f"{_FIELD}: Extra inputs are not permitted (this needs {_needed(data)})")
    listed = _record(data, _FIELD, ("edits",)).get("edits")
    if listed is None:
        return ()
    entries = typed(listed, list, f"{_FIELD}.edits")
    edits = tuple(_edit(entry, f"{_FIELD}.edits.{n}", betas) for n, entry in enumerate(entries))
    _check_order(edits, choices)
    _check_thinking(edits, body.get("thinking"), choices)
    return edits


def _needed(data: object) -> str:
    """Names of the beta headers that the edits need, for error messages."""
    listed = data.get("edits") if isinstance(data, Mapping) else None
    kinds = [edit.get("type") for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else []
    needed = dict.fromkeys(BETAS[kind] for kind in kinds if isinstance(kind, str) and kind in BETAS)
    return f"the beta header {' and '.join(needed or [CONTEXT_BETA])}"


def _check_order(edits: tuple[ContextEdit, ...], choices: Choices) -> None:
    kinds = [type(edit) for edit in edits]
    if ClearThinkingEdit in kinds[1:]:
        raise invalid(f"{_FIELD}.edits: `{CLEAR_THINKING}` must be the first edit in the list, before any other")
    if len(set(kinds)) < len(kinds) and not choices.repeated_edits:
        raise invalid(f"{_FIELD}.edits: each strategy can be used only once")


def _check_thinking(edits: tuple[ContextEdit, ...], thinking: object, choices: Choices) -> None:
    enabled = isinstance(thinking, Mapping) and thinking.get("type") not in (None, "disabled")
    if choices.thinking_must_be_enabled and not enabled and any(isinstance(edit, ClearThinkingEdit) for edit in edits):
        raise invalid(f"`{CLEAR_THINKING}` strategy requires `thinking` to be enabled")


def _edit(data: object, where: str, betas: Set[str]) -> ContextEdit:
    kind = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(kind, str):
        raise invalid(f"{where}.type: Field required")
    if kind not in BETAS:
        known = ", ".join(repr(name) for name in sorted(BETAS))
        raise invalid(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}"
        )
    if BETAS[kind] not in betas:
        raise invalid(f"{where}: `{kind}` needs the beta header {BETAS[kind]}")
    where = f"{where}.{kind}"
    return _PARSERS[kind](data, where)


def _clear_tool_uses(data: object, where: str) -> ClearToolUsesEdit:
    known = ("type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs")
    record = _record(data, where, known)
    default = ClearToolUsesEdit()
    trigger = _amount(record, where, "trigger", ("input_tokens", "tool_uses"), least=1)
    keep = _amount(record, where, "keep", ("tool_uses",))
    at_least = _amount(record, where, "clear_at_least", ("input_tokens",))
    inputs = record.get("clear_tool_inputs") or False
    if not isinstance(inputs, bool):
        inputs = _names(inputs, f"{where}.clear_tool_inputs")
    return ClearToolUsesEdit(
        trigger=trigger or default.trigger,
        keep=keep.value if keep else default.keep,
        clear_at_least=at_least.value if at_least else default.clear_at_least,
        exclude_tools=_names(record.get("exclude_tools"), f"{where}.exclude_tools"),
        clear_inputs=inputs,
    )


def _clear_thinking(data: object, where: str) -> ClearThinkingEdit:
    record = _record(data, where, ("type", "keep"))
    keep = record.get("keep")
    if keep == "all" or (isinstance(keep, Mapping) and keep.get("type") == "all"):
        return ClearThinkingEdit("all")
    turns = _amount(record, where, "keep", ("thinking_turns",), least=1)
    return ClearThinkingEdit(turns.value if turns else None)


def _compact(data: object, where: str) -> CompactEdit:
    record = _record(data, where, ("type", "trigger", "pause_after_compaction", "instructions"))
    trigger = _amount(record, where, "trigger", ("input_tokens",), least=MIN_COMPACT_TRIGGER)
    pause, instructions = record.get("pause_after_compaction"), record.get("instructions")
    return CompactEdit(
        trigger.value if trigger else CompactEdit().trigger,
        pause is not None and typed(pause, bool, f"{where}.pause_after_compaction"),
        None if instructions is None else typed(instructions, str, f"{where}.instructions") or None,
    )


_PARSERS: Mapping[str, Callable[[object, str], ContextEdit]] = {
    CLEAR_TOOL_USES: _clear_tool_uses,
    CLEAR_THINKING: _clear_thinking,
    COMPACT: _compact,
}


def _amount(
    record: Mapping[str, object], where: str, name: str, kinds: tuple[str, ...], *, least: int = 0
) -> Trigger | None:
    """Parse the object `{"type": ..., "value": ...}` in the field `name`. Returns None if the field is missing."""
    if record.get(name) is None:
        return None
    where = f"{where}.{name}"
    given = _record(record[name], where, ("type", "value"))
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise invalid(f"{where}.type: Input should be {' or '.join(repr(name) for name in kinds)}")
    value = typed(given.get("value"), int, f"{where}.value")
    if value < least:
        raise invalid(f"{where}.value: Input should be greater than or equal to {least}")
    return Trigger(kind, value)


def _names(value: object, where: str) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise invalid(f"{where}: Input should be a list of tool names")
    return frozenset(value)


def _record(data: object, where: str, known: tuple[str, ...]) -> Mapping[str, object]:
    record = typed(data, dict, where)
    for name in record:
        if name not in known:
            raise invalid(f"{where}.{name}: Extra inputs are not permitted (known here: {', '.join(known)})")
    return record
