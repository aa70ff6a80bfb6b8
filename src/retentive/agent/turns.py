"""The deciding half of an agent: what a reply means, what is kept of it, and whether to go on. No I/O.

A conversation is kept so that it can be sent at any moment: a reply with tool calls goes in together with their
results, never alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retentive.agent.applied import applied_edits, billed_tokens, compactions, iterations, part, usage
from retentive.agent.characters import mended
from retentive.agent.conversation import Heard, Message, plain
from retentive.agent.events import (
    Compaction,
    EditsApplied,
    Event,
    Finished,
    Reason,
    Text,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.errors import InvalidInput

MAX_UNSTREAMED_TOKENS = 21_333  # above, the SDK wants a stream: it expects more than 10 minutes for a reply
NOT_RUN = "Error: The reply was cut off here, and the call was not run. Make it again."
DECLINED = "Error: The model declined to go on, and the call was not run."
_GOES_ON = ("tool_use", "pause_turn")
_REASONS: Mapping[str, Reason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "end_turn",  # without a call in it
    "refusal": "refusal",
    "compaction": "pause",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "context_full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a run may use.

    `max_turns` replies, `max_tokens` of output in each, and `max_total_tokens` in all requests together, input and
    cache included (None = no limit). It is looked at after each reply, so the last one may go over.
    """

    max_turns: int = 50
    max_tokens: int = 8_192
    max_total_tokens: int | None = None

    def __post_init__(self) -> None:
        most = 1 if self.max_total_tokens is None else self.max_total_tokens
        limits: dict[str, object] = {
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "max_total_tokens": most,
        }
        for name, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"{name} must be a whole number of at least 1")


class Turns:
    """One run: takes each reply, tells its events, keeps the conversation, and knows when it is over."""

    def __init__(self, messages: list[Message], budget: Budget, *, streamed: bool) -> None:
        self._messages = messages
        self._budget = budget
        self._streamed = streamed
        self._turns = 0
        self._tokens = 0
        self._paused: list[str] = []  # the texts of a reply that was paused, and goes on in the next

    def said(self, heard: Heard) -> list[Event]:
        """The events of a reply whose tools have not run yet."""
        self._turns += 1
        self._tokens += billed_tokens(heard.reply)
        events: list[Event] = [Compaction(summary) for summary in compactions({"content": heard.blocks})]
        if edits := applied_edits(heard.reply):
            events.append(EditsApplied(edits))
        for block in heard.blocks:
            if block["type"] == "text" and not self._streamed:
                events.append(Text(block["text"]))
            elif block["type"] == "tool_use":
                events.append(ToolCall(block["id"], block["name"], _input(block)))
        events.append(UsageReport(self._turns, usage(heard.reply), iterations(heard.reply), self._tokens))
        return events

    def record(self, heard: Heard, answers: object) -> list[Event]:
        """Keep a reply, with `answers`, the user message with the results of its tools; the events of these."""
        calls = {call["id"]: call["name"] for call in heard.calls}
        if heard.stop == "refusal":  # what was refused is refused again if it stays
            return [_reply_event(_not_run(call_id, DECLINED), calls) for call_id in calls]
        results = [mended(plain(result)) for result in _list(part(answers, "content"))]
        if calls and not results:
            results = [_not_run(call_id, NOT_RUN) for call_id in calls]
        pair = (("assistant", heard.kept), ("user", results))  # the API takes no empty message
        self._messages.extend([{"role": role, "content": content} for role, content in pair if content])
        return [_reply_event(result, calls) for result in results]

    def end(self, heard: Heard, answers: object) -> Finished | None:
        """How the run ends with this reply, None if it goes on."""
        paused = heard.stop == "pause_turn" and answers is None
        if paused or (runs_tools(heard) and answers is not None):
            exhausted = self._exhausted()
            finished = self._finished("budget", heard, exhausted) if exhausted else None
            self._paused = [*self._paused, heard.text] if paused else []
            return finished
        reason = _REASONS.get(heard.stop, "other")
        return self._finished(reason, heard, _refusal(heard.reply) if reason == "refusal" else heard.stop)

    def _exhausted(self) -> str:
        most = self._budget.max_total_tokens
        if self._turns >= self._budget.max_turns:
            return f"max_turns: {self._budget.max_turns:,} replies"
        if most is not None and self._tokens >= most:
            return f"max_total_tokens: {self._tokens:,} of {most:,} tokens"
        return ""

    def _finished(self, reason: Reason, heard: Heard, detail: str) -> Finished:
        text = "\n\n".join(part for part in (*self._paused, heard.text) if part)
        return Finished(reason, text, self._turns, self._tokens, "" if detail == reason else detail)


def runs_tools(heard: Heard) -> bool:
    """Whether the calls in a reply are to be run: in one that was cut off, the last may be incomplete.

    A pause is no cut: each call in it is whole, and the API takes none back without its result.
    """
    return heard.stop in _GOES_ON


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _input(block: Message) -> Mapping[str, object]:
    given = block.get("input")
    return dict(given) if isinstance(given, Mapping) else {"input": given}


def _not_run(call_id: str, why: str) -> Message:
    return {"type": "tool_result", "tool_use_id": call_id, "content": why, "is_error": True}


def _reply_event(result: object, calls: Mapping[str, str]) -> ToolReply:
    call_id = str(part(result, "tool_use_id"))
    content = part(result, "content")
    text = content if isinstance(content, str) else "".join(_shown(item) for item in _list(content))
    return ToolReply(call_id, calls.get(call_id, ""), text, part(result, "is_error") is True)


def _shown(block: object) -> str:
    kind = part(block, "type")
    return str(part(block, "text")) if kind == "text" else f"[{kind}]"


def _refusal(reply: object) -> str:
    details = part(reply, "stop_details")
    told = [part(details, name) for name in ("category", "explanation")]
    return ": ".join(text for text in told if isinstance(text, str))
