"""What an agent does, as it does it: the events of a run. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.agent.applied import AppliedEdit, Usage

Reason: TypeAlias = Literal["end_turn", "budget", "refusal", "pause", "max_tokens", "context_full", "other"]


@dataclass(frozen=True, slots=True)
class Text:
    """What Claude said: a whole block, or with `stream=True` the next piece of one."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Claude calls a tool. It has not run yet: who leaves the loop here leaves it unrun."""

    id: str
    name: str
    input: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What the tool answered; the conversation has it already. What is no text shows as `[kind]`.

    A call that was not run is answered too, with an error that says why: the reply was cut off, or declined.
    """

    id: str
    name: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class EditsApplied:
    """The API left out parts of the conversation before Claude saw it; `agent.messages` still has them."""

    edits: tuple[AppliedEdit, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """The API put a summary in the place of the conversation so far; None if that failed, and nothing changed."""

    summary: str | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The tokens of one reply, of the steps within it where the API tells them, and of the run until now."""

    turn: int
    usage: Usage
    iterations: tuple[Usage, ...]
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a run.

    `reason`: "end_turn", Claude is done. "budget", a limit of the `Budget` is reached (`detail` says which) and
    `run()` goes on. "refusal", the model declined; that reply is not in `agent.messages`. "pause", a summary was
    written and `pause_after_compaction` asked to stop there; `run()` goes on. "max_tokens", the reply was cut off.
    "context_full", the context window is full. "other", `detail` has the API's word. `text` is that of the last reply,
    with the parts before it where the API paused.
    """

    reason: Reason
    text: str
    turns: int
    total_tokens: int
    detail: str = ""


Event: TypeAlias = Text | ToolCall | ToolReply | EditsApplied | Compaction | UsageReport | Finished
