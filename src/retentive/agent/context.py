"""Context management for the Messages API: typed values instead of nested dicts.

    context = ContextManagement(ClearToolUses(trigger=InputTokens(30_000), exclude_tools=("memory",)), Compact())
    client.beta.messages.create(..., context_management=context.request(), betas=context.betas)

A context edit shortens a long conversation before the model reads it. The edit clears old tool results or thinking, or
replaces the conversation with a summary. Invalid values raise `InvalidInput` before a request is sent. The functions in
`retentive.agent.responses` return the edits that the API applied, as reported in its response.

Source: "Context editing", "Compaction" and the API reference, linked in docs/agents.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from retentive.agent.conversation import check_at_least, check_list, check_text
from retentive.errors import InvalidInput

EDITING_BETA: Final = "context-management-2025-06-27"
COMPACTION_BETA: Final = "compact-2026-01-12"
MEMORY_TOOL_NAME: Final = "memory"
CLEAR_TRIGGER_TOKENS: Final = 100_000
CLEAR_AT_LEAST_TOKENS: Final = 20_000  # clearing invalidates the prompt cache, so it must save more than that costs
COMPACT_TRIGGER_TOKENS: Final = 150_000
MIN_COMPACT_TRIGGER_TOKENS: Final = 50_000


@dataclass(frozen=True, slots=True)
class _Trigger:
    type: ClassVar[str]
    value: int

    def request(self) -> dict[str, Any]:
        """Return the trigger in the format of the API."""
        return {"type": self.type, "value": self.value}


@dataclass(frozen=True, slots=True)
class InputTokens(_Trigger):
    """Trigger of a context edit, given as a number of input tokens."""

    type: ClassVar[str] = "input_tokens"


@dataclass(frozen=True, slots=True)
class ToolUses(_Trigger):
    """Trigger of a context edit, given as a number of tool uses in the conversation."""

    type: ClassVar[str] = "tool_uses"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearToolUses:
    """Context edit that replaces the oldest tool results with a placeholder when the trigger is exceeded.

    The newest `keep` tool uses are never cleared, and neither are uses of the tools in `exclude_tools`. If
    the edit would free fewer than `clear_at_least` tokens, nothing is cleared. With `clear_tool_inputs=True`, the
    inputs of the cleared tool uses are cleared too. If `clear_tool_inputs` is a list of tool names, only the inputs of
    these tools are cleared.
    """

    type: ClassVar[str] = "clear_tool_uses_20250919"
    beta: ClassVar[str] = EDITING_BETA

    trigger: InputTokens | ToolUses = InputTokens(CLEAR_TRIGGER_TOKENS)
    keep: int = 3
    clear_at_least: int | None = None
    exclude_tools: Sequence[str] = ()
    clear_tool_inputs: bool | Sequence[str] = False

    def __post_init__(self) -> None:
        check_at_least(1, "`trigger` of ClearToolUses", self.trigger.value)
        check_at_least(0, "`keep` of ClearToolUses", self.keep)
        if self.clear_at_least is not None:
            check_at_least(0, "`clear_at_least` of ClearToolUses", self.clear_at_least)
        object.__setattr__(self, "exclude_tools", _names("exclude_tools", self.exclude_tools))
        if not isinstance(self.clear_tool_inputs, bool):
            object.__setattr__(self, "clear_tool_inputs", _names("clear_tool_inputs", self.clear_tool_inputs))

    def request(self) -> dict[str, Any]:
        """Return the edit in the format of the API."""
        inputs = self.clear_tool_inputs
        edit: dict[str, Any] = {
            "type": self.type,
            "trigger": self.trigger.request(),
            "keep": ToolUses(self.keep).request(),
            "clear_tool_inputs": inputs if isinstance(inputs, bool) else list(inputs),
        }
        if self.clear_at_least is not None:
            edit["clear_at_least"] = InputTokens(self.clear_at_least).request()
        if self.exclude_tools:
            edit["exclude_tools"] = list(self.exclude_tools)
        return edit


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearThinking:
    """Context edit that removes thinking from all turns except the newest `keep`. `keep="all"` keeps all thinking.

    With `keep=None`, the API uses its default, which depends on the model. This edit is valid only in requests with
    thinking enabled.
    """

    type: ClassVar[str] = "clear_thinking_20251015"
    beta: ClassVar[str] = EDITING_BETA

    keep: int | Literal["all"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            if self.keep != "all":
                raise InvalidInput(f"`keep` of ClearThinking must be a number of turns or 'all', not {self.keep!r}")
        elif self.keep is not None:
            check_at_least(1, "`keep` of ClearThinking", self.keep)

    def request(self) -> dict[str, Any]:
        """Return the edit in the format of the API."""
        if self.keep is None:
            return {"type": self.type}
        keep = self.keep if self.keep == "all" else {"type": "thinking_turns", "value": self.keep}
        return {"type": self.type, "keep": keep}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Context edit that replaces the conversation so far with a summary when the input reaches the trigger.

    The trigger is at least 50,000 tokens. `instructions` replace the API's own summary prompt. With
    `pause_after_compaction`, the response ends after the summary, so that the application can add content before Claude
    continues.
    """

    type: ClassVar[str] = "compact_20260112"
    beta: ClassVar[str] = COMPACTION_BETA

    trigger: InputTokens = InputTokens(COMPACT_TRIGGER_TOKENS)
    instructions: str | None = None
    pause_after_compaction: bool = False

    def __post_init__(self) -> None:
        check_at_least(MIN_COMPACT_TRIGGER_TOKENS, "`trigger` of Compact", self.trigger.value)
        if self.instructions is not None:
            check_text("`instructions`", self.instructions)
            if not self.instructions.strip():
                raise InvalidInput("`instructions` must not be blank; omit it to use the default summary prompt")

    def request(self) -> dict[str, Any]:
        """Return the edit in the format of the API."""
        edit: dict[str, Any] = {
            "type": self.type,
            "trigger": self.trigger.request(),
            "pause_after_compaction": self.pause_after_compaction,
        }
        if self.instructions is not None:
            edit["instructions"] = self.instructions
        return edit


Edit: TypeAlias = ClearToolUses | ClearThinking | Compact


@dataclass(frozen=True, slots=True, init=False)
class ContextManagement:
    """Context edits of a request, in order. Each type is allowed once, and a `ClearThinking` must be the first edit."""

    edits: tuple[Edit, ...]

    def __init__(self, *edits: Edit) -> None:
        object.__setattr__(self, "edits", edits)
        if not edits:
            raise InvalidInput("ContextManagement needs at least one edit; pass context=None to use no edits")
        types = [edit.type for edit in edits]
        if len(set(types)) < len(types):
            raise InvalidInput("each type of edit is allowed only once")
        if ClearThinking.type in types[1:]:
            raise InvalidInput("ClearThinking must be the first edit")

    def request(self) -> dict[str, Any]:
        """Return the value of the request field `context_management`."""
        return {"edits": [edit.request() for edit in self.edits]}

    @property
    def betas(self) -> list[str]:
        """Beta names that the request needs in its field `betas`."""
        return list(dict.fromkeys(edit.beta for edit in self.edits))


def memory_context(
    *,
    trigger: InputTokens | ToolUses = InputTokens(CLEAR_TRIGGER_TOKENS),
    keep: int = 3,
    clear_at_least: int | None = None,
    exclude_memory: bool = True,
    compact: bool = False,
) -> ContextManagement:
    """Return context edits that clear old tool results, except those of the memory tool.

    If results of the memory tool were cleared, Claude would have to view the memories again. With
    `exclude_memory=False`, results of the memory tool are cleared like all other results. With `compact`, a
    conversation that gets too long is also replaced with a summary.
    """
    excluded = (MEMORY_TOOL_NAME,) if exclude_memory else ()
    edit = ClearToolUses(trigger=trigger, keep=keep, clear_at_least=clear_at_least, exclude_tools=excluded)
    return ContextManagement(edit, Compact()) if compact else ContextManagement(edit)


def default_context() -> ContextManagement:
    """Return the context edits that an agent uses by default: clear old tool results, then compact.

    Clearing tool results does not always keep a conversation within the context window, because neither texts nor the
    results of the memory tool are cleared.
    """
    return memory_context(clear_at_least=CLEAR_AT_LEAST_TOKENS, compact=True)


def _names(field: str, value: object) -> tuple[str, ...]:
    """Check tool names and return a copy, because the caller may change the list later."""
    message = f"`{field}` must be a list of tool names"
    names = check_list(value, message)
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(message)
    return tuple(names)
