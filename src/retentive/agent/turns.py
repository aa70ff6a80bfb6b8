"""A conversation with Claude, without I/O: its state, and the steps of its runs.

A response is recorded in the conversation before its tool calls run, and each result is recorded before the next call
runs. So a conversation that was saved at any time can be continued: calls without a result run first.
"""

from __future__ import annotations

import random
import secrets
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from retentive.agent.conversation import (
    MessageDict,
    Response,
    add_result,
    blocks_of,
    parse_saved,
    saved_name,
    to_json,
    tool_result,
    unanswered_calls,
    user_message,
    without_server_calls,
)
from retentive.agent.events import (
    AgentError,
    EditsApplied,
    Event,
    Finished,
    Reason,
    Stopped,
    StreamRestarted,
    TokenUsage,
    UsageReport,
    block_event,
    items,
    reply_event,
    usage,
)
from retentive.agent.prompts import system_prompt
from retentive.agent.request import (
    Budget,
    betas_of,
    check_fields,
    memory_context,
    request_fields,
    request_of,
    tool_list,
)
from retentive.agent.sendable import sendable
from retentive.agent.tools import Tools
from retentive.errors import InvalidInput
from retentive.integrations.memory import MemoryLocation, open_memory
from retentive.integrations.messages import attribute
from retentive.mounts import MemoryTree
from retentive.opening import DEFAULT_LOCATION
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import origin_of
from retentive.values.text import plain_name

C = TypeVar("C")
R = TypeVar("R")
MODEL = "claude-sonnet-5-5"
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
_INVALID_REQUEST_STATUSES = (400, 413, 422)
_CONTEXT = memory_context()
_BUDGET = Budget()

UserInput: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""User message: a string or content blocks. None means no new message; the conversation continues."""


@dataclass(slots=True)
class Send:
    """Step of a run: wait for some seconds, then send the conversation.

    The outcome of the step is the response or an `AgentError`.
    """

    pause_s: float = 0.0
    has_begun: bool = False  # the stream of the response has begun, so the SDK does not retry the request


RunSteps: TypeAlias = Generator[Event | Send | MessageDict, Any, None]
"""Generator of a run. It yields events, which the agent yields to the application, and steps, which the agent executes.

A step is a `Send`, or a tool call, whose outcome is the tool_result block.

The agent sends the outcome of each step back into the generator.
"""


class Conversation(Generic[C, R]):
    """Base class of `Agent` and `AsyncAgent`: state of the conversation, and steps of its runs."""

    _new_client: Callable[[], C]
    _is_async: ClassVar[bool]
    _events: Callable[[RunSteps], R]

    def __init__(
        self,
        client: C | None = None,
        *,
        model: str = MODEL,
        memory: MemoryLocation | MemoryTree = DEFAULT_LOCATION,
        store: str | None = None,
        tools: Iterable[Any] = (),
        context: Mapping[str, Any] | None = _CONTEXT,
        system: str = "",
        language: str = "en",
        tidy: bool = True,
        topic: str | None = None,
        budget: Budget = _BUDGET,
        actor: Actor | str | None = None,
        source: str | None = None,
        session: str | None = None,
        run: str | None = None,
        messages: Iterable[Mapping[str, Any]] | Mapping[str, Any] = (),
        stream: bool = False,
        cache: bool = True,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        prompt = system_prompt(system, language=language, tidy=tidy, topic=topic)
        self._fields = request_fields(model, budget, prompt, stream=stream, cache=cache, request=request)
        self._context = context
        if context is not None:
            betas_of(context)  # checks it
        self._budget = budget
        self._stream = stream
        given = tool_list(tools, is_async=self._is_async)
        self._start_lock = threading.Lock()
        self._current_run: Callable[[], Any] = lambda: None  # weak reference to the generator of the newest run
        self.origin = origin_of(source, session)
        saved_actor = as_actor(saved_name(messages, "actor"))
        self.actor = as_actor(actor) or saved_actor or Actor("session", secrets.token_hex(8))
        self._run_name = plain_name("a run", run or saved_name(messages, "run") or secrets.token_hex(8))
        self.messages: list[MessageDict]
        self.messages, self.used, self._stop_reason = parse_saved(messages)
        if hasattr(memory, "to_dict") and hasattr(memory, "call"):
            raise InvalidInput(
                "`memory` is a tool for the SDK's tool runner; pass the tree of the tool instead: memory=tool.tree"
            )
        self.memory, self._close_memory = open_memory(memory, store)
        self._tools = Tools(self.memory, self.actor, given, run=self._run_name, **self.origin)
        self._own_client = client is None
        self.client = self._new_client() if client is None else client

    def __repr__(self) -> str:
        model, count = self._fields["model"], len(self.messages)
        return f"<{type(self).__name__} of {model}, {count} messages, memory {self.memory!r}>"

    def saved(self) -> dict[str, Any]:
        """Return the conversation as JSON. A new agent can continue the conversation: `Agent(messages=saved)`.

        The JSON contains the messages, the usage that counts against the `Budget`, and the stop reason of the last
        response, which shows whether the API paused a turn. It also contains the actor and the run: with them, a tool
        call that runs again after a crash changes the memory only once.
        """
        return {
            "messages": list(self.messages),
            "used": asdict(self.used),
            "stop_reason": self._stop_reason,
            "actor": str(self.actor),
            "run": self._run_name,
        }

    def run(self, message: UserInput = None) -> R:
        """Start a run and return an iterator over its events. The last event is a `Finished`.

        `message` is a string or content blocks; None continues the conversation without a new message. The run advances
        only while the iterator is read, and ends if the iterator is closed.

        Raises `InvalidInput` if another run of this agent is in progress. Reading the first event raises it if the
        message is invalid.
        """
        with self._start_lock:
            current = self._current_run()
            # A generator that has ended has no frame, even if the application still holds it.
            if current is not None and (getattr(current, "gi_frame", None) or getattr(current, "ag_frame", None)):
                raise InvalidInput("this agent already has a run in progress; close that run or use a second agent")
            events = self._events(self._steps(message))
            self._current_run = weakref.ref(events)
        return events

    def _steps(self, message: UserInput) -> RunSteps:
        if message is not None:
            self.messages.append(user_message(message))
        elif not self.messages:
            raise InvalidInput("the conversation is empty; pass a message to run()")
        newest = self.messages[-1]
        turns = tokens = 0
        stop_reason, detail = self._stop_reason, self._stop_reason
        inputs: Mapping[str, object] = {}  # as the model sent them, by the ids of the calls
        paused = [_last_text(self.messages)] if stop_reason == _PAUSE else []  # texts before the pauses of this turn
        # After a crash, the conversation may already end with an answer. The API would refuse to continue it without a
        # new message. It does continue a turn that it paused, and one that ends with a server tool or a compaction.
        last, calls = blocks_of(newest) if newest.get("role") == "assistant" else [], unanswered_calls(self.messages)
        is_over = bool(last) and last[-1].get("type") in _LAST and stop_reason != _PAUSE and not calls
        text = _last_text(self.messages) if is_over else ""
        yield from map(block_event, calls)
        while True:
            for call in unanswered_calls(self.messages):
                result = yield {**call, "input": inputs.get(call["id"], call.get("input"))}
                add_result(self.messages, result)
                yield reply_event(result, call["name"])
            if is_over:
                reason = _REASONS.get(stop_reason, "other")
                yield Finished(reason, text, turns, tokens, "" if detail == reason else detail)
                return
            if limit := self._exceeded_limit(turns):
                yield Finished("budget", text, turns, tokens, limit)
                return
            try:
                response = yield from self._respond()
            except AgentError as error:
                # If the message stayed in the conversation, later requests would be rejected too.
                is_rejected = error.code == "request_refused" and error.status in _INVALID_REQUEST_STATUSES
                if message is not None and is_rejected and self.messages[-1] is newest:
                    self.messages.pop()
                raise
            turns, tokens = turns + 1, tokens + TokenUsage().after(response.raw).total_tokens
            stop_reason, inputs = response.stop_reason, response.inputs
            detail = _refusal(response) if stop_reason == "refusal" else stop_reason
            is_paused = stop_reason == _PAUSE and not response.calls
            is_over = not is_paused and not (runs_tools(response) and response.calls)
            text = "\n\n".join(part for part in (*paused, response.text) if part)
            paused = [*paused, response.text] if is_paused else []
            yield from self._record(response, UsageReport(turns, usage(response.raw), tokens))

    def _record(self, response: Response, report: UsageReport) -> list[Event]:
        """Record a response in the conversation and return its events. The tool calls in the response do not run yet.

        If the response was truncated or refused, its calls must not run, so they get an error result. A refusal is not
        recorded, because the API would refuse again if the conversation contained a refusal.
        """
        is_refusal = response.stop_reason == "refusal"
        if not is_refusal:
            self._stop_reason = response.stop_reason
            content = response.content if runs_tools(response) else without_server_calls(response.content)
            if content:  # the API rejects empty messages
                self.messages.append({"role": "assistant", "content": content})
        edits = items(attribute(attribute(response.raw, "context_management"), "applied_edits"))
        events: list[Event] = [EditsApplied(tuple(map(to_json, edits)))] if edits else []
        # With streaming, all other events were yielded as they arrived. A tool call is yielded after it is recorded.
        events += (block_event(each) for each in response.blocks if each["type"] == "tool_use" or not self._stream)
        events.append(report)
        for call in () if runs_tools(response) else response.calls:
            result = tool_result(call["id"], DECLINED if is_refusal else NOT_RUN, is_error=True)
            if not is_refusal:
                add_result(self.messages, result)
            events.append(reply_event(result, call["name"]))
        return events

    def _respond(self) -> Generator[Event | Send, Any, Response]:
        """Return the response to a request. Its tokens are added to the usage of the conversation.

        If the stream is interrupted, the request is sent again. The setting `max_retries` of the client limits the
        number of retries.
        """
        retries = retry_pauses(self.client.max_retries)  # type: ignore[attr-defined] # both clients have it
        send = Send()
        while True:
            outcome: Response | AgentError = yield send
            if isinstance(outcome, Response):
                self.used = self.used.after(outcome.raw)
                return outcome
            pause_s = next(retries, None) if send.has_begun and outcome.retryable else None
            if pause_s is None:
                raise outcome
            yield StreamRestarted(str(outcome))
            send = Send(pause_s)

    def _request(self, methods: Any) -> dict[str, Any]:
        """Return the fields of the next request. Raises `InvalidInput` if the SDK does not know a field."""
        request = request_of(self._fields, self._context, sendable(self.messages))
        request["tools"] = self._tools.definitions
        check_fields(methods.stream if self._stream else methods.create, request)
        return request

    def _exceeded_limit(self, turns: int) -> str:
        limits = (
            ("max_turns", turns, self._budget.max_turns, "replies"),
            ("max_total_turns", self.used.turns, self._budget.max_total_turns, "replies"),
            ("max_total_tokens", self.used.total_tokens, self._budget.max_total_tokens, "tokens"),
        )
        for name, count, limit, unit in limits:
            if limit is not None and count >= limit:
                return f"{name}: {count:,} of {limit:,} {unit}"
        return ""


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


def retry_pauses(retries: int) -> Iterator[float]:
    """Yield the seconds to wait before each retry. As in the SDK, the pauses double from 0.5 up to 8, with jitter."""
    for number in range(retries):
        yield min(0.5 * 2**number, 8.0) * random.uniform(0.75, 1.0)  # noqa: S311 - spreads retries


def _last_text(messages: Sequence[MessageDict]) -> str:
    """Text of Claude's last turn. A turn that the API paused consists of several messages."""
    last = list(takewhile(lambda message: message.get("role") == "assistant", reversed(messages)))
    blocks = [block for message in reversed(last) for block in blocks_of(message)]
    return "\n\n".join(block["text"] for block in blocks if block.get("type") == "text")


def _refusal(response: Response) -> str:
    details = attribute(response.raw, "stop_details")
    texts = [attribute(details, name) for name in ("category", "explanation")]
    return ": ".join(text for text in texts if isinstance(text, str))
