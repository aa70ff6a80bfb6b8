"""Events of an agent run, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from retentive.agent.responses import AppliedEdit, TokenUsage

Reason: TypeAlias = Literal["end_turn", "budget", "refusal", "pause", "max_tokens", "context_full", "other"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text from Claude: a whole text block, or one piece of a block with `stream=True`."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call from Claude. It is recorded, and runs when the next events are read, or in the next run."""

    id: str
    name: str
    input: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ThinkingText:
    """Thinking of Claude: a whole block. Empty if the API sends it only encrypted."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """Call of a tool that the API runs itself: a server tool such as `web_search`, or a tool of an MCP server."""

    id: str
    name: str
    input: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """Result of a `ServerToolCall`. `type` is the type of its block; the content is in `agent.messages`."""

    id: str
    type: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Result of a tool call, already appended to the conversation. Content that is not text is shown as `[type]`.

    A call that did not run gets an error result that says why: the response was truncated, or the model declined.
    """

    id: str
    name: str
    text: str = field(repr=False)
    is_error: bool


@dataclass(frozen=True, slots=True)
class EditsApplied:
    """Context edits the API applied before Claude read the conversation. `agent.messages` keeps the full text."""

    edits: tuple[AppliedEdit, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """Summary that replaces the conversation so far.

    If `summary` is None, compaction failed and nothing was replaced.
    """

    summary: str | None


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The stream of a response broke, and the request is sent again. The text of the broken response does not count."""

    error: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Token usage of one response, of each of its steps (if the API reports them), and of the run so far."""

    turn: int
    usage: TokenUsage
    iterations: tuple[TokenUsage, ...]
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event of a run.

    Values of `reason`:

    - "end_turn": Claude is done.
    - "budget": a limit of the `Budget` is reached; `detail` names it. `run()` without a message continues.
    - "refusal": the model declined. Its response is not in `agent.messages`.
    - "pause": the run stopped after compaction, because `pause_after_compaction` is set. `run()` without a message
      continues.
    - "max_tokens": the response was truncated.
    - "context_full": the context window is full.
    - "other": `detail` is the stop reason of the API.

    `text` is the text of the last response. If the API paused a turn, it includes the parts before the pause.
    """

    reason: Reason
    text: str
    turns: int
    total_tokens: int
    detail: str = ""


Event: TypeAlias = (
    Text
    | ThinkingText
    | ToolCall
    | ToolReply
    | ServerToolCall
    | ServerToolResult
    | EditsApplied
    | Compaction
    | StreamRestarted
    | UsageReport
    | Finished
)
