"""What the Messages API should do with a context that grows: typed values instead of nested dicts.

    context = ContextManagement(ClearToolUses(trigger=InputTokens(30_000), exclude_tools=("memory",)), Compact())
    client.beta.messages.create(..., context_management=context.request(), betas=context.betas)

What the API would refuse is refused here, before anything is sent. What it did is read with
`retentive.agent.applied`. Source: "Context editing", "Compaction" and the API reference, docs/context.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from retentive.agent.characters import check_text
from retentive.errors import InvalidInput

EDITING_BETA: Final = "context-management-2025-06-27"
COMPACTION_BETA: Final = "compact-2026-01-12"
MEMORY_TOOL_NAME: Final = "memory"
CLEAR_TRIGGER_TOKENS: Final = 100_000
COMPACT_TRIGGER_TOKENS: Final = 150_000
MIN_COMPACT_TRIGGER_TOKENS: Final = 50_000


@dataclass(frozen=True, slots=True)
class InputTokens:
    """A trigger: so many tokens of input."""

    value: int

    def request(self) -> dict[str, Any]:
        """The trigger as the API takes it."""
        return {"type": "input_tokens", "value": self.value}


@dataclass(frozen=True, slots=True)
class ToolUses:
    """A trigger: so many tool uses in the conversation."""

    value: int

    def request(self) -> dict[str, Any]:
        """The trigger as the API takes it."""
        return {"type": "tool_uses", "value": self.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearToolUses:
    """Results of the oldest tool uses are replaced by a placeholder once the trigger is exceeded.

    `keep` newest tool uses stay, and those of `exclude_tools`. Nothing happens unless `clear_at_least` tokens would
    go. `clear_tool_inputs` clears what the tools were called with too: of all tools, or of those named.
    """

    type: ClassVar[str] = "clear_tool_uses_20250919"
    beta: ClassVar[str] = EDITING_BETA

    trigger: InputTokens | ToolUses = InputTokens(CLEAR_TRIGGER_TOKENS)
    keep: int = 3
    clear_at_least: int | None = None
    exclude_tools: Sequence[str] = ()
    clear_tool_inputs: bool | Sequence[str] = False

    def __post_init__(self) -> None:
        if not isinstance(self.trigger, InputTokens | ToolUses):
            raise InvalidInput("trigger must be InputTokens(n) or ToolUses(n)")
        _at_least(1, "the trigger", self.trigger.value)
        _at_least(0, "keep, the number of tool uses that stay,", self.keep)
        if self.clear_at_least is not None:
            _at_least(0, "clear_at_least, in tokens,", self.clear_at_least)
        object.__setattr__(self, "exclude_tools", _names("exclude_tools", self.exclude_tools))
        if not isinstance(self.clear_tool_inputs, bool):
            object.__setattr__(self, "clear_tool_inputs", _names("clear_tool_inputs", self.clear_tool_inputs))

    def request(self) -> dict[str, Any]:
        """The edit as the API takes it."""
        inputs = self.clear_tool_inputs
        edit: dict[str, Any] = {
            "type": self.type,
            "trigger": self.trigger.request(),
            "keep": {"type": "tool_uses", "value": self.keep},
            "clear_tool_inputs": inputs if isinstance(inputs, bool) else list(inputs),
        }
        if self.clear_at_least is not None:
            edit["clear_at_least"] = {"type": "input_tokens", "value": self.clear_at_least}
        if self.exclude_tools:
            edit["exclude_tools"] = list(self.exclude_tools)
        return edit


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearThinking:
    """Thinking of older turns is removed; that of the `keep` newest turns stays, or of `"all"`.

    None leaves it to the API, whose default depends on the model. For requests with thinking only.
    """

    type: ClassVar[str] = "clear_thinking_20251015"
    beta: ClassVar[str] = EDITING_BETA

    keep: int | Literal["all"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            if self.keep != "all":
                raise InvalidInput(f"keep of ClearThinking must be a number of turns or 'all', not {self.keep!r}")
        elif self.keep is not None:
            _at_least(1, "keep, the number of turns whose thinking stays,", self.keep)

    def request(self) -> dict[str, Any]:
        """The edit as the API takes it."""
        edit: dict[str, Any] = {"type": self.type}
        if self.keep == "all":
            edit["keep"] = "all"
        elif self.keep is not None:
            edit["keep"] = {"type": "thinking_turns", "value": self.keep}
        return edit


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The conversation so far is replaced by a summary once the input reaches the trigger, at least 50,000 tokens.

    `instructions` take the place of the API's own prompt for the summary. With `pause_after_compaction` the reply
    ends behind the summary, so that the application may add something before Claude goes on.
    """

    type: ClassVar[str] = "compact_20260112"
    beta: ClassVar[str] = COMPACTION_BETA

    trigger: InputTokens = InputTokens(COMPACT_TRIGGER_TOKENS)
    instructions: str | None = None
    pause_after_compaction: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.trigger, InputTokens):
            raise InvalidInput("the trigger of Compact must be InputTokens(n)")
        _at_least(MIN_COMPACT_TRIGGER_TOKENS, "the trigger of Compact, in tokens,", self.trigger.value)
        if self.instructions is not None:
            check_text("instructions", self.instructions)
            if not self.instructions.strip():
                raise InvalidInput("instructions must be a text that is not empty; leave them out for the API's own")
        if not isinstance(self.pause_after_compaction, bool):
            raise InvalidInput("pause_after_compaction must be True or False")

    def request(self) -> dict[str, Any]:
        """The edit as the API takes it."""
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
    """The edits of a request, in their order: at most one of each kind, `ClearThinking` first."""

    edits: tuple[Edit, ...]

    def __init__(self, *edits: Edit) -> None:
        object.__setattr__(self, "edits", edits)
        if not edits:
            raise InvalidInput("there must be at least one edit; without any, leave context management out")
        if not all(isinstance(edit, Edit) for edit in edits):
            raise InvalidInput("edits must be ClearThinking, ClearToolUses or Compact")
        kinds = [edit.type for edit in edits]
        if len(set(kinds)) < len(kinds):
            raise InvalidInput("each kind of edit may be given once")
        if ClearThinking.type in kinds[1:]:
            raise InvalidInput("ClearThinking must be the first of the edits")

    def request(self) -> dict[str, Any]:
        """The value of `context_management`."""
        return {"edits": [edit.request() for edit in self.edits]}

    @property
    def betas(self) -> list[str]:
        """What the request needs in `betas`."""
        return list(dict.fromkeys(edit.beta for edit in self.edits))


def memory_context(
    *,
    trigger: InputTokens | ToolUses = InputTokens(CLEAR_TRIGGER_TOKENS),
    keep: int = 3,
    clear_at_least: int | None = None,
    exclude_memory: bool = True,
) -> ContextManagement:
    """The default of an agent with a memory: old tool results go, except those of the memory tool.

    What Claude read of its memory is what it works from; it would have to read it again. `exclude_memory` False
    clears it like the rest.
    """
    excluded = (MEMORY_TOOL_NAME,) if exclude_memory else ()
    edit = ClearToolUses(trigger=trigger, keep=keep, clear_at_least=clear_at_least, exclude_tools=excluded)
    return ContextManagement(edit)


def _at_least(least: int, what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{what} must be a whole number of at least {least:,}")


def _names(field: str, value: object) -> tuple[str, ...]:
    """The names as they are by now: the caller's list may change."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [None]
    if not all(isinstance(name, str) and name for name in given):
        raise InvalidInput(f"{field} must be names of tools: a list of texts")
    return tuple(str(name) for name in given)
