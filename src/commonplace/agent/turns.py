"""The deciding half of an agent: what a reply means, what is kept of it, and whether to go on. No I/O.

A conversation is kept so that it can be sent at any moment: a reply with tool calls goes in together with their
results, never alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonplace.agent.applied import applied_edits, billed_tokens, compactions, iterations, part, usage
from commonplace.agent.events import (
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
from commonplace.errors import InvalidInput

MAX_UNSTREAMED_TOKENS = 21_333  # above, the SDK wants a stream: it expects more than 10 minutes for a reply
NOT_RUN = "Error: The reply was cut off here, and the call was not run. Make it again."
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

Message = dict[str, Any]


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

    def said(self, reply: object) -> list[Event]:
        """The events of a reply whose tools have not run yet."""
        self._turns += 1
        self._tokens += billed_tokens(reply)
        events: list[Event] = [Compaction(summary) for summary in compactions(reply)]
        if edits := applied_edits(reply):
            events.append(EditsApplied(edits))
        for block in _blocks(reply):
            if part(block, "type") == "text" and not self._streamed:
                events.append(Text(str(part(block, "text"))))
            elif part(block, "type") == "tool_use":
                events.append(ToolCall(_id(block), str(part(block, "name")), _input(block)))
        events.append(UsageReport(self._turns, usage(reply), iterations(reply), self._tokens))
        return events

    def record(self, reply: object, answers: object) -> list[Event]:
        """Keep a reply, with `answers`, the user message with the results of its tools; the events of these."""
        stop = part(reply, "stop_reason")
        if stop == "refusal" or not _blocks(reply):  # what was refused is refused again if it stays; empty is invalid
            return []
        calls = {_id(block): str(part(block, "name")) for block in _blocks(reply) if part(block, "type") == "tool_use"}
        results = [plain(result) for result in _list(part(answers, "content"))]
        if calls and not results and stop not in _GOES_ON:
            results = [_not_run(call_id) for call_id in calls]
        kept: list[Message] = [{"role": "assistant", "content": [plain(block) for block in _blocks(reply)]}]
        if results:
            kept.append({"role": "user", "content": results})
        self._messages.extend(kept)
        return [_reply_event(result, calls) for result in results]

    def end(self, reply: object, answers: object) -> Finished | None:
        """How the run ends with this reply, None if it goes on."""
        stop = str(part(reply, "stop_reason"))
        if stop == "pause_turn" or (stop == "tool_use" and answers is not None):
            exhausted = self._exhausted()
            return self._finished("budget", reply, exhausted) if exhausted else None
        reason = _REASONS.get(stop, "other")
        return self._finished(reason, reply, _refusal(reply) if reason == "refusal" else stop)

    def _exhausted(self) -> str:
        most = self._budget.max_total_tokens
        if self._turns >= self._budget.max_turns:
            return f"max_turns: {self._budget.max_turns:,} replies"
        if most is not None and self._tokens >= most:
            return f"max_total_tokens: {self._tokens:,} of {most:,} tokens"
        return ""

    def _finished(self, reason: Reason, reply: object, detail: str) -> Finished:
        return Finished(reason, text_of(reply), self._turns, self._tokens, "" if detail == reason else detail)


def runs_tools(reply: object) -> bool:
    """Whether the calls in a reply are to be run: in one that was cut off, the last may be incomplete."""
    return part(reply, "stop_reason") == "tool_use"


def user_message(said: str | Sequence[Mapping[str, object]]) -> Message:
    """A message of the user. Raises `InvalidInput` for an empty one."""
    content = [{"type": "text", "text": said}] if isinstance(said, str) else [plain(block) for block in said]
    if not content or said == "":
        raise InvalidInput("a message must not be empty; run() without one goes on where the conversation stands")
    return {"role": "user", "content": content}


def text_of(reply: object) -> str:
    """The texts of a message, a blank line between its blocks."""
    return "\n\n".join(str(part(block, "text")) for block in _blocks(reply) if part(block, "type") == "text")


def plain(block: object) -> Any:
    """A block as a dict that can be saved as JSON and sent back as it came."""
    dump = getattr(block, "model_dump", None)
    if dump is None:
        return block
    # As the SDK itself sends a block back: what the API did not set stays unset.
    excluded = getattr(block, "__api_exclude__", None)
    return dump(mode="json", by_alias=True, exclude_unset=True, exclude=excluded, warnings=False)


def _blocks(reply: object) -> list[object]:
    return _list(part(reply, "content"))


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _id(block: object) -> str:
    return str(part(block, "id"))


def _input(block: object) -> Mapping[str, object]:
    given = part(block, "input")
    return dict(given) if isinstance(given, Mapping) else {"input": given}


def _not_run(call_id: str) -> Message:
    return {"type": "tool_result", "tool_use_id": call_id, "content": NOT_RUN, "is_error": True}


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
