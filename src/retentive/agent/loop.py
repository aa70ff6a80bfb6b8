"""Agent loops with a memory, on the Messages API of the SDK: `Agent` and `AsyncAgent`.

    agent = Agent(memory="./memory", system="You are a support agent.")
    for event in agent.run("My order has not arrived."):
        ...

The loop does not use the SDK's tool runner, because the runner does not pass the id of a tool call to the tool. This
loop records each response before it runs the tool calls of the response. The loop passes the id of each call
to the memory, and records the result of the call. If the process is killed at any point, the saved conversation can be
continued: a command that runs again with the same id changes the memory only once.

Each request contains the whole conversation. There are two reasons: the API applies context edits only to whole
conversations, and the application can save or drop the conversation at any time.

Importing this module imports the SDK.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import anyio

from retentive.agent import sdk
from retentive.agent.context import ContextManagement, default_context
from retentive.agent.conversation import (
    MessageDict,
    Response,
    newest_response,
    parse_response,
    parse_saved,
    saved_name,
    user_message,
)
from retentive.agent.errors import AgentError, RequestRefused
from retentive.agent.events import Event, Finished, StreamRestarted
from retentive.agent.prompts import system_prompt
from retentive.agent.request import request_fields, request_of, system_blocks, tool_list
from retentive.agent.sendable import sendable
from retentive.agent.tools import Tools
from retentive.agent.turns import Budget, RunSteps, RunTool, Send, Turns, answer_of
from retentive.errors import InvalidInput
from retentive.integrations.memory import MemoryLocation, SupportsExecute, open_memory
from retentive.opening import DEFAULT_LOCATION
from retentive.storage.contract import Actor, as_actor
from retentive.values.names import plain_name
from retentive.values.provenance import origin_of

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

C = TypeVar("C")
R = TypeVar("R")
MODEL = "claude-sonnet-5-5"
_CONTEXT = default_context()
_BUDGET = Budget()
_INVALID_REQUEST_STATUSES = (400, 413, 422)

UserInput: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""User message: a string or content blocks. None means no new message; the conversation continues."""
_Run: TypeAlias = list[weakref.ref[Any]]
"""Weak reference to the generator of a run, in a list that is empty until the generator exists."""


class _Conversation(Generic[C, R]):
    """Base class of `Agent` and `AsyncAgent`: state of the conversation, and steps of its runs."""

    _new_client: Callable[[], C]
    _is_async: ClassVar[bool]
    _events: Callable[[RunSteps], R]

    def __init__(
        self,
        client: C | None = None,
        *,
        model: str = MODEL,
        memory: MemoryLocation | SupportsExecute = DEFAULT_LOCATION,
        store: str | None = None,
        tools: Iterable[Any] = (),
        context: ContextManagement | None = _CONTEXT,
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
        self._fields = request_fields(model, budget, stream=stream, cache=cache, request=request)
        self._context = context
        if prompt := system_prompt(system, language=language, tidy=tidy, topic=topic):
            self._fields["system"] = system_blocks(prompt, cache=cache)
        self._budget = budget
        self._stream = stream
        given = tool_list(tools, is_async=self._is_async)
        self._start_lock = threading.Lock()
        self._current_run: weakref.ref[Any] | None = None  # refers to the generator of the run in progress
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

        Reading the first event raises `InvalidInput` if the message is invalid, or if another run of this agent is in
        progress.
        """
        run: _Run = []
        events = self._events(self._answer(message, run))
        run.append(weakref.ref(events))
        return events

    def _start_run(self, message: UserInput, run: _Run) -> Turns:
        """Append the user's message to the conversation, and reserve the agent for this run."""
        with self._start_lock:
            current = self._current_run() if self._current_run is not None else None
            # A generator that has ended has no frame, even if the application still holds it.
            if current is not None and (getattr(current, "gi_frame", None) or getattr(current, "ag_frame", None)):
                raise InvalidInput("this agent already has a run in progress; close that run or use a second agent")
            if message is not None:
                self.messages.append(user_message(message))
            elif not self.messages:
                raise InvalidInput("the conversation is empty; pass a message to run()")
            self._current_run = run[0]
        return Turns(self.messages, self._budget, self._stop_reason, streamed=self._stream)

    def _answer(self, message: UserInput, run: _Run) -> RunSteps:
        turns = self._start_run(message, run)
        newest = self.messages[-1]
        yield from turns.resume()
        yield from self._run_calls(turns)
        finished = turns.answered() or turns.over_budget(self.used)
        while finished is None:
            try:
                response = yield from self._respond()
            except RequestRefused as error:
                # If the message stayed in the conversation, later requests would be rejected too.
                rejected = error.status in _INVALID_REQUEST_STATUSES
                if message is not None and rejected and self.messages[-1] is newest:
                    self.messages.pop()
                raise
            if response.stop_reason != "refusal":  # a refusal is not recorded
                self._stop_reason = response.stop_reason
            yield from turns.receive(response)
            yield from self._run_calls(turns)
            finished = turns.finish(response, self.used)
        yield finished

    def _run_calls(self, turns: Turns) -> RunSteps:
        for call in turns.unanswered():
            yield turns.record(call, (yield RunTool(call)))

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
        sdk.check_fields(methods.stream if self._stream else methods.create, request)
        return request


class Agent(_Conversation["Anthropic", Iterator[Event]]):
    """Agent with a memory: one conversation, one run at a time. A run yields events (`retentive.agent.events`).

    Arguments:

    - `client`: an `Anthropic` client, whose `max_retries` the agent uses. By default, the agent creates a client and
      closes it.
    - `memory`: a `MemoryStore`, `Mounts`, an opened location, or a location as for `retentive.open`. The agent opens
      and closes such a location itself.
    - `store`: key or id of a memory store in the location.
    - `tools`: additional tools: functions decorated with the SDK's `beta_tool`, or definitions of server tools.
    - `context`: context edits for each request. None disables context management.
    - `system`: system prompt of the application. `language`, `tidy` and `topic` are passed to `system_prompt`.
    - `budget`: limits of a run and of the conversation.
    - `actor`: actor recorded with each change to the memory. The default is the actor of the saved conversation or, for
      a new one, a session with a random id. `source` and `session` are recorded with each change too.
    - `run`: name of the run in which the ids of tool calls are unique. The default is the run of the saved conversation
      or, for a new one, a random name. Only models that use the id of a call again need it.
    - `messages`: an earlier conversation to continue: the result of `saved()`, or only the messages.
    - `stream`: yield text in pieces as it arrives.
    - `cache`: cache the system prompt and the conversation so far (`cache_control`).
    - `request`: extra fields for each request, such as `thinking`.

    Raises `InvalidInput` if an argument is invalid. Raises storage errors if the memory cannot be opened, and
    `AgentError` during a run. After an error or an abandoned run, the conversation is still valid, and `run()` without
    a message continues it. If the API rejects a message, the message is removed from the conversation.
    """

    _new_client: Callable[[], Anthropic] = staticmethod(sdk.new_client)
    _is_async = False

    def _events(self, steps: RunSteps) -> Iterator[Event]:
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            outcome = None
            match step:
                case RunTool(call):
                    outcome = self._tools.run(call, newest_response(self.messages) or 0)
                case Send():
                    try:
                        outcome = yield from self._receive(step)
                    except AgentError as error:
                        outcome = error
                case event:
                    yield event

    def _receive(self, send: Send) -> Generator[Event, None, Response]:
        """Send the conversation and return the response. With streaming, yield its events as they arrive."""
        time.sleep(send.pause_s)
        messages: Any = self.client.beta.messages  # the typed overloads of its methods do not accept a dict
        request = self._request(messages)
        with sdk.api_errors():
            if not self._stream:
                return parse_response(messages.create(**request))
            with messages.stream(**request) as stream:
                send.has_begun = True
                ended = False
                while not ended:
                    events, ended = sdk.stream_events(next(stream, None))
                    yield from events
                with sdk.lost_after_the_end():
                    stream.until_done()
                return parse_response(stream.current_message_snapshot)

    def ask(self, message: UserInput = None) -> str:
        """Run to the end and return Claude's last text. Raises `Stopped` if the run ends before Claude has finished."""
        return answer_of([event for event in self.run(message) if isinstance(event, Finished)])

    def close(self) -> None:
        """Close the client and the memory, if the agent opened them. No data is lost if you omit this call."""
        self._close_memory()
        if self._own_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AsyncAgent(_Conversation["AsyncAnthropic", AsyncGenerator[Event, None]]):
    """Async version of `Agent`, with an `AsyncAnthropic` client. Memory commands run in a worker thread.

    If your loop over the events may end early, use `async with aclosing(agent.run("...")) as events`. The run then ends
    together with the loop.
    """

    _new_client: Callable[[], AsyncAnthropic] = staticmethod(sdk.new_async_client)
    _is_async = True

    async def _events(self, steps: RunSteps) -> AsyncGenerator[Event, None]:
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            outcome = None
            match step:
                case RunTool(call):
                    outcome = await self._tools.run_async(call, newest_response(self.messages) or 0)
                case Send():
                    try:
                        async with aclosing(self._receive(step)) as received:
                            async for item in received:
                                if isinstance(item, Response):
                                    outcome = item
                                else:
                                    yield item
                    except AgentError as error:
                        outcome = error
                case event:
                    yield event

    async def _receive(self, send: Send) -> AsyncGenerator[Event | Response, None]:
        if send.pause_s:
            await anyio.sleep(send.pause_s)
        messages: Any = self.client.beta.messages  # the typed overloads of its methods do not accept a dict
        request = self._request(messages)
        with sdk.api_errors():
            if not self._stream:
                yield parse_response(await messages.create(**request))
                return
            async with messages.stream(**request) as stream:
                send.has_begun = True
                ended = False
                while not ended:
                    events, ended = sdk.stream_events(await anext(stream, None))
                    for event in events:
                        yield event
                with sdk.lost_after_the_end():
                    await stream.until_done()
                yield parse_response(stream.current_message_snapshot)

    async def ask(self, message: UserInput = None) -> str:
        """Async version of `Agent.ask`."""
        async with aclosing(self.run(message)) as events:
            return answer_of([event async for event in events if isinstance(event, Finished)])

    async def close(self) -> None:
        """Close the client and the memory, if the agent opened them. No data is lost if you omit this call."""
        self._close_memory()
        if self._own_client:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def retry_pauses(retries: int) -> Iterator[float]:
    """Yield the seconds to wait before each retry. As in the SDK, the pauses double from 0.5 up to 8, with jitter."""
    for number in range(retries):
        yield min(0.5 * 2**number, 8.0) * random.uniform(0.75, 1.0)  # noqa: S311 - spreads retries
