"""Events of an agent run, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from retentive.agent.responses import AppliedEdit, TokenUsage, compactions

Reason: TypeAlias = Literal["end_turn", "budget", "refusal", "pause", "max_tokens", "context_full", "other"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text from Claude: a whole text block, or one piece of a block with `stream=True`."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call from Claude, already recorded. It runs when the next event is read, or else in the next run."""

    id: str
    name: str
    input: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ThinkingText:
    """A whole block of Claude's thinking. `text` is empty if the API sends the thinking only in encrypted form."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """Call of a tool that the API runs itself: a server tool such as `web_search`, or a tool of an MCP server.

    `server` is the name of the MCP server.
    """

    id: str
    name: str
    input: Mapping[str, object]
    server: str = ""


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
    """Context edits the API applied before Claude read the conversation. `agent.messages` keeps the full text.

    With `stream=True` this event follows the texts, because the API reports the edits at the end of a stream.
    """

    edits: tuple[AppliedEdit, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """Summary that replaces the conversation so far.

    If `summary` is None, compaction failed and nothing was replaced.
    """

    summary: str | None


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The stream of a response broke, so the request is sent again. Discard the events of the broken response."""

    error: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Token usage of one response, of each of its steps (if the API reports them), and of the run so far.

    The tokens read from and written to the prompt cache are fields of `usage`.
    """

    turn: int
    usage: TokenUsage
    iterations: tuple[TokenUsage, ...]
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event of a run.

    Values of `reason`:

    - "end_turn": Claude is done.
    - "budget": a limit of the `Budget` is reached; `detail` names it. `run()` without a message continues, unless
      a limit of the whole conversation is reached.
    - "refusal": the model declined. Its response is not in `agent.messages`.
    - "pause": the run stopped after compaction, because `pause_after_compaction` is set or `compact()` was called.
      `run()` without a message continues.
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


def block_events(block: Mapping[str, Any]) -> list[Event]:
    """Events of a content block of a response."""
    match block["type"]:
        case "text":
            return [Text(block["text"])]
        case "compaction":
            return [Compaction(summary) for summary in compactions({"content": [block]})]
        case "thinking" | "redacted_thinking":
            return [ThinkingText(str(block.get("thinking") or ""))]
        case "tool_use":
            return [ToolCall(block["id"], block["name"], call_input(block))]
        case "server_tool_use" | "mcp_tool_use":
            server = str(block.get("server_name") or "")
            return [ServerToolCall(str(block.get("id")), str(block.get("name")), call_input(block), server)]
        case kind if kind.endswith("_tool_result"):
            content = block.get("content")
            failed = isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
            return [ServerToolResult(str(block.get("tool_use_id")), kind, failed or block.get("is_error") is True)]
        case _:
            return []


def call_input(block: Mapping[str, Any]) -> Mapping[str, object]:
    """Input of a call as a dict. Other input, which models sometimes send, is wrapped: `{"input": value}`."""
    value = block.get("input")
    return dict(value) if isinstance(value, Mapping) else {"input": value}
