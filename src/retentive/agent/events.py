"""Events that a run of an agent yields, the usage of tokens, and the errors of the agent and of the API.

After any of these errors, `agent.messages` is still a valid conversation. The memory is consistent, because each
command is atomic. Errors of the memory itself are in `retentive.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from retentive.errors import RetentiveError
from retentive.integrations.messages import attribute

Reason: TypeAlias = Literal["end_turn", "budget", "refusal", "pause", "max_tokens", "context_full", "other"]


class AgentError(RetentiveError):
    """Error that ends a run. `code` is its kind, and `retryable` says whether `run()` may succeed later.

    If the API sent a response, `status` and `request_id` are copied from it.
    """

    def __init__(
        self,
        message: str,
        code: str = "agent_error",
        *,
        retryable: bool = False,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.status = status
        self.request_id = request_id


class Stopped(AgentError):
    """`Agent.ask` cannot return an answer, because the run ended before Claude had finished.

    `reason` is the reason in `Finished`, the last event of the run.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message, "stopped")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Number of responses, and their numbers of tokens.

    Compactions are included in the usage of a conversation, and also responses that were not recorded in it. A response
    whose stream was interrupted is not included.
    """

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Sum of all tokens, regardless of their price."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens

    def after(self, response: object) -> TokenUsage:
        """Return the usage with one more response added, with the steps that the API reports, such as a compaction."""
        reported = attribute(response, "usage")
        steps = [_tokens(step) for step in items(attribute(reported, "iterations"))] or [_tokens(reported)]
        return TokenUsage(self.turns + 1, *map(sum, zip(_tokens(self), *steps, strict=True)))


def usage(response: object) -> TokenUsage:
    """Return the token usage of a response without its compactions."""
    return TokenUsage(1, *_tokens(attribute(response, "usage")))


def _tokens(reported: object) -> list[int]:
    if isinstance(reported, TokenUsage):
        return [
            reported.input_tokens,
            reported.output_tokens,
            reported.cache_read_tokens,
            reported.cache_creation_tokens,
        ]
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [attribute(reported, name) for name in names]
    return [count if isinstance(count, int) else 0 for count in counts]


@dataclass(frozen=True, slots=True)
class Text:
    """Text from Claude: a whole text block or, with `stream=True`, a piece of a text block."""

    text: str


@dataclass(frozen=True, slots=True)
class OtherBlock:
    """Content block that is no text and no call of the application's tools, as the API sent it.

    Examples are thinking, a call of a server tool such as `web_search`, and its result.
    """

    type: str
    block: Mapping[str, Any] = field(repr=False)


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

    `edits` are those of the response, such as `{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, ...}`. With
    `stream=True`, this event comes after the texts, because the API reports the edits at the end of a stream.
    """

    edits: tuple[Mapping[str, Any], ...]


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
    """Token usage of one response, and total number of tokens of the run so far, including compactions.

    `usage` is that of the response without compactions, so its tokens of input and cache are the size of the prompt.
    """

    turn: int
    usage: TokenUsage
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
    Text | OtherBlock | ToolCall | ToolReply | EditsApplied | Compaction | StreamRestarted | UsageReport | Finished
)


def block_event(block: Mapping[str, Any]) -> Event:
    """Return the event for a content block of a response."""
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "compaction":
            summary = block.get("content")
            return Compaction(summary if isinstance(summary, str) else None)
        case "tool_use":
            given = block.get("input")
            return ToolCall(block["id"], block["name"], given if isinstance(given, Mapping) else {"input": given})
        case kind:
            return OtherBlock(kind, block)


def reply_event(result: Mapping[str, Any], name: str) -> ToolReply:
    """Return the event for the result of a call of the tool `name`."""
    content = result.get("content")
    parts = [str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in items(content)]
    text = content if isinstance(content, str) else "".join(parts)
    return ToolReply(result["tool_use_id"], name, text, result.get("is_error") is True)


def items(value: object) -> Sequence[Any]:
    """Return the items of a list, or an empty tuple if the value is not a list."""
    return value if isinstance(value, list | tuple) else ()
