"""Decisions of an agent loop, without I/O: events of a response, updates of the conversation, and when to stop.

A response is recorded before its tool calls run, and each result before the next call runs. A conversation saved at any
of these points can be continued: calls without a result are run first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from retentive.agent.checks import check_at_least
from retentive.agent.conversation import (
    MessageDict,
    Response,
    add_result,
    blocks_of,
    tool_result,
    unanswered_calls,
    without_server_calls,
)
from retentive.agent.events import (
    Compaction,
    EditsApplied,
    Event,
    Finished,
    Reason,
    ServerToolCall,
    ServerToolResult,
    Text,
    ThinkingText,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.agent.responses import applied_edits, billed_tokens, compactions, field, items, iterations, usage

MAX_UNSTREAMED_TOKENS = 21_333  # above this the SDK requires streaming: it expects over 10 minutes for a response
NOT_RUN = "Error: The reply was cut off here, and the call was not run. Make it again."
DECLINED = "Error: The model declined to go on, and the call was not run."
_CONTINUING = ("tool_use", "pause_turn")
_REASONS: Mapping[str, Reason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "end_turn",  # a response with this stop reason has no tool call
    "refusal": "refusal",
    "compaction": "pause",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "context_full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run.

    `max_turns` limits the number of responses, and `max_tokens` the output of each response. `max_total_tokens` limits
    the tokens of all requests together, including input and cache; None means no limit. Limits are checked after each
    response, so the last response may exceed them.
    """

    max_turns: int = 50
    max_tokens: int = 8_192
    max_total_tokens: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, "max_turns", self.max_turns)
        check_at_least(1, "max_tokens", self.max_tokens)
        if self.max_total_tokens is not None:
            check_at_least(1, "max_total_tokens", self.max_total_tokens)


class Turns:
    """State of one run. It receives each response, updates the conversation, and decides when the run ends."""

    def __init__(self, messages: list[MessageDict], budget: Budget, *, streamed: bool) -> None:
        self._messages = messages
        self._budget = budget
        self._streamed = streamed
        self._turns = 0
        self._tokens = 0
        self._inputs: Mapping[str, object] = {}
        self._paused: list[str] = []  # text of a paused turn, which the next response continues

    def resume(self) -> list[Event]:
        """Return the events of calls that an earlier run recorded but did not run.

        These calls run before a request is sent.
        """
        return [ToolCall(call["id"], call["name"], _input(call)) for call in self.unanswered()]

    def answered(self) -> Finished | None:
        """Return the end of a run if the conversation ends with an answer of Claude, which was recorded before a crash.

        The API would refuse to continue such a conversation without a new message. It continues a response that ends
        with a server tool or a compaction.
        """
        newest = self._messages[-1]
        blocks = blocks_of(newest)
        if newest.get("role") != "assistant" or not blocks or blocks[-1].get("type") != "text":
            return None
        text = "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")
        return Finished("end_turn", text, self._turns, self._tokens)

    def unanswered(self) -> list[MessageDict]:
        """Recorded calls without a result, with their inputs as the model sent them."""
        calls = unanswered_calls(self._messages)
        return [{**call, "input": self._inputs.get(call["id"], call.get("input"))} for call in calls]

    def receive(self, response: Response) -> list[Event]:
        """Record a response in the conversation and return its events. The tool calls in the response have not run yet.

        Calls that must not run get an error result. The API would refuse again if a refusal stayed in the conversation,
        so it is not recorded.
        """
        self._turns += 1
        self._tokens += billed_tokens(response.raw)
        self._inputs = response.inputs
        edits = applied_edits(response.raw)
        events: list[Event] = [EditsApplied(edits)] if edits else []
        events += (event for block in response.blocks for event in self._events(block))
        events.append(UsageReport(self._turns, usage(response.raw), iterations(response.raw), self._tokens))
        is_refusal = response.stop_reason == "refusal"
        content = response.content if runs_tools(response) else without_server_calls(response.content)
        if content and not is_refusal:  # the API rejects empty messages
            self._messages.append({"role": "assistant", "content": content})
        if not runs_tools(response):
            for call in response.calls:
                result = tool_result(call["id"], DECLINED if is_refusal else NOT_RUN, is_error=True)
                events.append(_reply_event(result, call["name"]) if is_refusal else self.record(call, result))
        return events

    def _events(self, block: MessageDict) -> Iterator[Event]:
        """Events of a block. Streamed texts and summaries were reported as they arrived."""
        match block["type"]:
            case "text" if not self._streamed:
                yield Text(block["text"])
            case "compaction" if not self._streamed:
                yield from map(Compaction, compactions({"content": [block]}))
            case "thinking" | "redacted_thinking":
                yield ThinkingText(str(block.get("thinking") or ""))
            case "tool_use":
                yield ToolCall(block["id"], block["name"], _input(block))
            case "server_tool_use" | "mcp_tool_use":
                yield ServerToolCall(str(block.get("id")), str(block.get("name")), _input(block))
            case kind if kind.endswith("_tool_result"):
                content = block.get("content")
                failed = isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
                yield ServerToolResult(str(block.get("tool_use_id")), kind, failed or block.get("is_error") is True)

    def record(self, call: MessageDict, result: MessageDict) -> ToolReply:
        """Record the result of a call in the conversation and return its event."""
        add_result(self._messages, result)
        return _reply_event(result, call["name"])

    def finish(self, response: Response) -> Finished | None:
        """Return the last event of the run, or None if the run continues."""
        paused = response.stop_reason == "pause_turn" and not response.calls
        if paused or (runs_tools(response) and response.calls):
            limit = self._exceeded_limit()
            finished = self._finished("budget", response, limit) if limit else None
            self._paused = [*self._paused, response.text] if paused else []
            return finished
        stop_reason = response.stop_reason
        reason = _REASONS.get(stop_reason, "other")
        return self._finished(reason, response, _refusal(response.raw) if reason == "refusal" else stop_reason)

    def _exceeded_limit(self) -> str:
        max_tokens = self._budget.max_total_tokens
        if self._turns >= self._budget.max_turns:
            return f"max_turns: {self._budget.max_turns:,} replies"
        if max_tokens is not None and self._tokens >= max_tokens:
            return f"max_total_tokens: {self._tokens:,} of {max_tokens:,} tokens"
        return ""

    def _finished(self, reason: Reason, response: Response, detail: str) -> Finished:
        text = "\n\n".join(part for part in (*self._paused, response.text) if part)
        return Finished(reason, text, self._turns, self._tokens, "" if detail == reason else detail)


def runs_tools(response: Response) -> bool:
    """Return True if the tool calls of a response should run.

    The last call of a truncated response may be incomplete. The calls of a paused response are complete, and the API
    requires their results.
    """
    return response.stop_reason in _CONTINUING


def _input(block: MessageDict) -> Mapping[str, object]:
    value = block.get("input")
    return dict(value) if isinstance(value, Mapping) else {"input": value}


def _reply_event(result: MessageDict, name: str) -> ToolReply:
    content = result.get("content")
    text = content if isinstance(content, str) else "".join(_block_text(item) for item in items(content))
    return ToolReply(result["tool_use_id"], name, text, result.get("is_error") is True)


def _block_text(block: object) -> str:
    kind = field(block, "type")
    return str(field(block, "text")) if kind == "text" else f"[{kind}]"


def _refusal(response: object) -> str:
    details = field(response, "stop_details")
    texts = [field(details, name) for name in ("category", "explanation")]
    return ": ".join(text for text in texts if isinstance(text, str))
