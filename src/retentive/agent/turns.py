"""Decisions of an agent loop, without I/O: events of a response, changes to the conversation, and when to stop.

A response is recorded in the conversation before its tool calls run, and each result is recorded before the next call
runs. So a conversation that was saved at any time can be continued: calls without a result run first.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Any, TypeAlias

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
from retentive.agent.errors import Stopped
from retentive.agent.events import (
    EditsApplied,
    Event,
    Finished,
    Reason,
    ToolCall,
    ToolReply,
    UsageReport,
    block_events,
    call_input,
)
from retentive.agent.responses import ConversationUsage, applied_edits, billed_tokens, field, items, iterations, usage

MAX_UNSTREAMED_TOKENS = 21_333  # above this, the SDK requires streaming, because a response may take over 10 minutes
NOT_RUN = "Error: The reply was cut off here, and the call was not run. Make it again."
DECLINED = "Error: The model declined to go on, and the call was not run."
_PAUSE = "pause_turn"
_CONTINUING = ("tool_use", _PAUSE)
_LAST = ("text", "thinking", "redacted_thinking")  # a response that ends with one of these is not continued
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
    """Limits of a run, and of all runs of a conversation.

    `max_turns` limits the number of responses in a run. `max_tokens` limits the output of each response.
    `max_total_turns` and `max_total_tokens` limit the responses and the tokens in all runs of the conversation,
    including runs of earlier agents (see `Agent.saved`). Tokens of input, cache and compactions count too. None means
    no limit.

    Limits are checked before the first request and after each response, so the last response may exceed them.
    """

    max_turns: int = 50
    max_tokens: int = 8_192
    max_total_tokens: int | None = None
    max_total_turns: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                check_at_least(1, each.name, value)


@dataclass(slots=True)
class Send:
    """Step of a run: wait for some seconds, then send the conversation.

    The outcome of the step is the response or an `AgentError`.
    """

    pause_s: float = 0.0
    has_begun: bool = False  # the stream of the response has begun, so the SDK does not retry the request


@dataclass(frozen=True, slots=True)
class RunTool:
    """Step of a run: run a tool call. The outcome of the step is the tool_result block."""

    call: MessageDict


RunSteps: TypeAlias = Generator[Event | Send | RunTool, Any, None]
"""Generator of a run. It yields events, which the agent yields to the application, and steps, which the agent executes.

The agent sends the outcome of each step back into the generator.
"""


class Turns:
    """State of one run. It records each response in the conversation and decides when the run ends."""

    def __init__(self, messages: list[MessageDict], budget: Budget, stop_reason: str, *, streamed: bool) -> None:
        self._messages = messages
        self._budget = budget
        self._stop_reason = stop_reason  # stop reason of the last response before this run
        self._streamed = streamed
        self._turns = 0
        self._tokens = 0
        self._inputs: Mapping[str, object] = {}
        # Texts of a turn that the API paused. The next response continues the turn.
        self._paused = [_last_text(messages)] if stop_reason == _PAUSE else []

    def resume(self) -> list[Event]:
        """Return the events of the tool calls that an earlier run left without a result.

        These calls run before the first request is sent.
        """
        return [ToolCall(call["id"], call["name"], call_input(call)) for call in self.unanswered()]

    def answered(self) -> Finished | None:
        """Return the last event of the run if the conversation already ends with an answer. Otherwise return None.

        A conversation can end with an answer after a crash. The API would refuse to continue such a
        conversation without a new message. The API does continue a turn that it paused, and a response that ends with
        a server tool or a compaction.
        """
        newest = self._messages[-1]
        blocks = blocks_of(newest)
        is_last = newest.get("role") == "assistant" and blocks and blocks[-1].get("type") in _LAST
        if not is_last or self._stop_reason == _PAUSE:
            return None
        reason = _REASONS.get(self._stop_reason, "other")
        detail = "" if self._stop_reason == reason else self._stop_reason
        return Finished(reason, _last_text(self._messages), self._turns, self._tokens, detail)

    def unanswered(self) -> list[MessageDict]:
        """Return the recorded tool calls that have no result. Their inputs are as the model sent them."""
        calls = unanswered_calls(self._messages)
        return [{**call, "input": self._inputs.get(call["id"], call.get("input"))} for call in calls]

    def receive(self, response: Response) -> list[Event]:
        """Record a response in the conversation and return its events. The tool calls in the response do not run yet.

        If the response was truncated or refused, its calls must not run, so they get an error result. A refusal is not
        recorded, because the API would refuse again if the conversation contained a refusal.
        """
        self._turns += 1
        self._tokens += billed_tokens(response.raw)
        self._inputs = response.inputs
        edits = applied_edits(response.raw)
        events: list[Event] = [EditsApplied(edits)] if edits else []
        # With streaming, all other events were yielded as they arrived. A tool call is yielded after it is recorded.
        blocks = [block for block in response.blocks if block["type"] == "tool_use" or not self._streamed]
        events += (event for block in blocks for event in block_events(block))
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

    def record(self, call: MessageDict, result: MessageDict) -> ToolReply:
        """Record the result of a tool call in the conversation and return its event."""
        add_result(self._messages, result)
        return _reply_event(result, call["name"])

    def finish(self, response: Response, used: ConversationUsage) -> Finished | None:
        """Return the last event of the run, or None if the run continues."""
        paused = response.stop_reason == _PAUSE and not response.calls
        if paused or (runs_tools(response) and response.calls):
            limit = self._exceeded_limit(used)
            finished = self._finished("budget", response, limit) if limit else None
            self._paused = [*self._paused, response.text] if paused else []
            return finished
        stop_reason = response.stop_reason
        reason = _REASONS.get(stop_reason, "other")
        return self._finished(reason, response, _refusal(response.raw) if reason == "refusal" else stop_reason)

    def over_budget(self, used: ConversationUsage) -> Finished | None:
        """Return the last event of the run if a limit is reached before the first request. Otherwise return None."""
        limit = self._exceeded_limit(used)
        return Finished("budget", "", self._turns, self._tokens, limit) if limit else None

    def _exceeded_limit(self, used: ConversationUsage) -> str:
        limits = (
            ("max_turns", self._turns, self._budget.max_turns, "replies"),
            ("max_total_turns", used.turns, self._budget.max_total_turns, "replies"),
            ("max_total_tokens", used.total_tokens, self._budget.max_total_tokens, "tokens"),
        )
        for name, count, limit, unit in limits:
            if limit is not None and count >= limit:
                return f"{name}: {count:,} of {limit:,} {unit}"
        return ""

    def _finished(self, reason: Reason, response: Response, detail: str) -> Finished:
        text = "\n\n".join(part for part in (*self._paused, response.text) if part)
        return Finished(reason, text, self._turns, self._tokens, "" if detail == reason else detail)


def runs_tools(response: Response) -> bool:
    """Return True if the tool calls of a response should run.

    They do not run if the response was truncated, because the last call may be incomplete. The calls of a paused
    response are complete, and the API requires their results.
    """
    return response.stop_reason in _CONTINUING


def answer_of(finished: list[Finished]) -> str:
    """Return the text of the last event in `finished`. Raises `Stopped` if the run ended before Claude had finished."""
    last = finished[-1]
    if last.reason != "end_turn":
        detail = f" ({last.detail})" if last.detail else ""
        raise Stopped(f"the run ended without an answer: {last.reason}{detail}", reason=last.reason)
    return last.text


def _last_text(messages: Sequence[MessageDict]) -> str:
    """Text of Claude's last turn. A turn that the API paused consists of several messages."""
    last = list(takewhile(lambda message: message.get("role") == "assistant", reversed(messages)))
    blocks = [block for message in reversed(last) for block in blocks_of(message)]
    return "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")


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
