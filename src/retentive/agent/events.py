"""Events that a run of an agent yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from retentive.agent.responses import AppliedEdit, TokenUsage, compactions

Reason: TypeAlias = Literal["end_turn", "budget", "refusal", "pause", "max_tokens", "context_full", "other"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text from Claude: a whole text block or, with `stream=True`, a piece of a text block."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Tool call from Claude. The call is already in the conversation, but it has not run yet.

    It runs when the next event of this run is read. If the run ends before that, the call runs at the start of the next
    run.
    """

    id: str
    name: str
    input: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ThinkingText:
    """One block of Claude's thinking. `text` is empty if the API sends the thinking only in encrypted form."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """Call of a tool that the API runs: a server tool such as `web_search`, or a tool of an MCP server.

    `server` is the name of the MCP server, or empty for a server tool.
    """

    id: str
    name: str
    input: Mapping[str, object]
    server: str = ""


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """Result of a `ServerToolCall`.

    `type` is the type of the content block. The content itself is in `agent.messages`.
    """

    id: str
    type: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Result of a tool call. The result is already in the conversation.

    `text` is the text of the result. Other content is shown as its type, for example `[image]`. Tool calls in a
    truncated or refused response do not run; they get an error result that gives the reason.
    """

    id: str
    name: str
    text: str = field(repr=False)
    is_error: bool


@dataclass(frozen=True, slots=True)
class EditsApplied:
    """Context edits that the API applied before Claude read the conversation. `agent.messages` keeps everything.

    With `stream=True`, this event comes after the texts, because the API reports the edits at the end of a stream.
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
    """The stream of a response was interrupted, and the request is sent again.

    Discard the events of the interrupted response.
    """

    error: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Token usage of one response, and total number of tokens of the run so far.

    `usage` counts the tokens of the response. It also counts the tokens that were read from the prompt cache and
    written to it. `iterations` has the usage of each step of the response, such as a compaction. `iterations` is empty
    if the API reports no steps.
    """

    turn: int
    usage: TokenUsage
    iterations: tuple[TokenUsage, ...]
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event of a run.

    Values of `reason`:

    - "end_turn": Claude has finished.
    - "budget": a limit of the `Budget` is reached; `detail` names the limit. `run()` without a message continues the
      conversation, except if the limit applies to the whole conversation.
    - "refusal": the model declined. Its response is not in `agent.messages`.
    - "pause": the run stopped after a compaction, because `pause_after_compaction` is set. `run()` without
      a message continues.
    - "max_tokens": the response was truncated.
    - "context_full": the context window is full.
    - "other": `detail` is the stop reason of the API.

    `text` is the text of the last response. If the API paused a turn, `text` also has the texts before the pause.
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
    """Return the events for a content block of a response."""
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
    """Return the input of a tool call as a dict. If the model sent another value, return `{"input": value}`."""
    value = block.get("input")
    return dict(value) if isinstance(value, Mapping) else {"input": value}
