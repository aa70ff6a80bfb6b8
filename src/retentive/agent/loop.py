"""`Agent` and `AsyncAgent`: agent loops with a memory, on the Messages API of the SDK.

    agent = Agent(memory="./memory", system="You are a support agent.")
    for event in agent.run("My order has not arrived."):
        ...

The loop does not use the SDK's tool runner, because it does not pass the id of a call to the tool. The loop records a
response first, then runs each of its calls under the id of the call, and records each result. If the process is killed
at any point, the saved conversation can be continued and no call takes effect twice.

Each request sends the whole conversation, for two reasons: the API applies context edits only to such requests, and the
application can save or drop the conversation at any time. Importing this module imports the SDK.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import anyio

from retentive.agent import sdk
from retentive.agent.checks import replace_surrogates
from retentive.agent.context import COMPACTION_BETA, ContextManagement, default_context
from retentive.agent.conversation import MessageDict, Response, parse_messages, parse_response, user_message
from retentive.agent.errors import AgentError, ConnectionLost, RequestRefused, Stopped
from retentive.agent.events import Compaction, Event, Finished, StreamRestarted, Text
from retentive.agent.prompts import system_prompt
from retentive.agent.request import request_fields, system_blocks, tool_list
from retentive.agent.responses import compactions
from retentive.agent.sendable import sendable
from retentive.agent.tools import Tools
from retentive.agent.turns import Budget, Turns
from retentive.errors import InvalidInput
from retentive.integrations.memory import Place, SupportsExecute, open_memory
from retentive.opening import DEFAULT_LOCATION
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import origin_of

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

C = TypeVar("C")
MODEL = "claude-sonnet-5-5"
_CONTEXT = default_context()
_BUDGET = Budget()
_INVALID_REQUEST_STATUSES = (400, 413, 422)
_STREAM_INTERRUPTED = "the response of the API was interrupted; call run() without a message to retry"

UserInput: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""User message: a string or content blocks. None continues the conversation without a new message."""


class _Conversation(Generic[C]):
    """Base class of both agents: the state of the conversation, and building of requests."""

    _new_client: Callable[[], C]
    _is_async: ClassVar[bool]

    def __init__(
        self,
        client: C | None = None,
        *,
        model: str = MODEL,
        memory: Place | SupportsExecute = DEFAULT_LOCATION,
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
        messages: Iterable[Mapping[str, Any]] = (),
        stream: bool = False,
        cache: bool = True,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self._fields = request_fields(model, context, budget, stream=stream, cache=cache, request=request)
        if prompt := system_prompt(system, language=language, tidy=tidy, topic=topic):
            self._fields["system"] = system_blocks(prompt, cache=cache)
        self._budget = budget
        self._stream = stream
        given = tool_list(tools, is_async=self._is_async)
        self._start_lock = threading.Lock()
        self._current_run: weakref.ref[Any] | None = None  # refers to the generator of the run in progress
        self.origin = origin_of(source, session)
        self.actor = as_actor(actor) or Actor("session", secrets.token_hex(8))
        self.messages: list[MessageDict] = parse_messages(messages)
        if hasattr(memory, "to_dict") and hasattr(memory, "call"):
            raise InvalidInput("memory is a tool for the SDK's tool runner; pass what it uses: memory=tool.tree")
        self.memory, self._close_memory = open_memory(memory, store)
        self._tools = Tools(self.memory, self.actor, given, **self.origin)
        self._own_client = client is None
        self.client = self._new_client() if client is None else client

    def __repr__(self) -> str:
        model, count = self._fields["model"], len(self.messages)
        return f"<{type(self).__name__} of {model}, {count} messages, memory {self.memory!r}>"

    def _start_run(self, message: UserInput, run: list[weakref.ref[Any]]) -> Turns:
        """Start a run and append the user's message to the conversation. `run` gets its generator after this call."""
        with self._start_lock:
            current = self._current_run() if self._current_run is not None else None
            # A generator that has ended has no frame, even if something still refers to it.
            if current is not None and (getattr(current, "gi_frame", None) or getattr(current, "ag_frame", None)):
                raise InvalidInput("this agent already has a run in progress; close that run or use a second agent")
            if message is not None:
                self.messages.append(user_message(message))
            elif not self.messages:
                raise InvalidInput("the conversation is empty; pass a message to run()")
            self._current_run = run[0]
        return Turns(self.messages, self._budget, streamed=self._stream)

    @contextmanager
    def _rollback_if_rejected(self, message: UserInput) -> Iterator[None]:
        """Remove the message if the API rejects the request as invalid, since later requests would be rejected too."""
        newest = self.messages[-1]
        try:
            yield
        except RequestRefused as error:
            rejected = error.status in _INVALID_REQUEST_STATUSES
            if message is not None and rejected and self.messages[-1] is newest:
                self.messages.pop()
            raise

    def _request(self, methods: Any) -> dict[str, Any]:
        """Fields of the next request. Raises `InvalidInput` if the SDK does not know a field."""
        messages = sendable(self.messages)
        request = {**self._fields, "messages": messages, "tools": self._tools.definitions}
        if any(block["type"] == "compaction" for message in messages for block in message["content"]):
            request["betas"] = list(dict.fromkeys([*request.get("betas", ()), COMPACTION_BETA]))
        sdk.check_fields(methods.stream if self._stream else methods.create, request)
        return request


class Agent(_Conversation["Anthropic"]):
    """Agent with a memory: one conversation, one run at a time. A run yields events (`retentive.agent.events`).

    Arguments:

    - `client`: an `Anthropic` client with its own `max_retries`. Without one, the agent creates and closes a client.
    - `memory`: a location as for `retentive.open`, opened and closed by the agent, an opened location, or a
      `MemoryStore` or `Mounts`. `store`: key or id of a memory store in the location.
    - `tools`: additional tools: functions decorated with the SDK's `beta_tool`, or definitions of server tools.
    - `context`: context edits for each request. None disables context management.
    - `system`: system prompt of the application. `language`, `tidy` and `topic` are passed to `system_prompt`.
    - `actor`: actor recorded with each change of the memory. The default is a new session. `source` and `session` are
      recorded in its provenance.
    - `messages`: an earlier conversation to continue: the `agent.messages` of another agent, which is JSON.
    - `stream`: yield text in pieces as it arrives.
    - `cache`: cache the prompt (`cache_control`): the system prompt, and the conversation so far.
    - `request`: extra fields for each request, such as `thinking`.

    Raises `InvalidInput`, errors of storage when it opens the memory, and `AgentError` during a run. After an error or
    an abandoned run the conversation is still valid, and `run()` without a message continues it. A message that the API
    rejects is removed from the conversation.
    """

    _new_client: Callable[[], Anthropic] = staticmethod(sdk.new_client)
    _is_async = False

    def run(self, message: UserInput = None) -> Iterator[Event]:
        """Start a run and return an iterator over its events. The last event is a `Finished`.

        The run advances as the iterator is read, and ends early if the iterator is closed. `message` is a string or
        content blocks; None continues the conversation. The first read raises `InvalidInput` for an invalid message, or
        if another run of this agent is in progress.
        """
        run: list[weakref.ref[Any]] = []
        events = self._run(message, run)
        run.append(weakref.ref(events))
        return events

    def _run(self, message: UserInput, run: list[weakref.ref[Any]]) -> Iterator[Event]:
        turns = self._start_run(message, run)
        with self._rollback_if_rejected(message):
            yield from turns.resume()
            yield from self._run_calls(turns)
            finished = turns.answered()
            while finished is None:
                response = yield from self._receive_whole()
                yield from turns.receive(response)
                yield from self._run_calls(turns)
                finished = turns.finish(response)
        yield finished

    def _run_calls(self, turns: Turns) -> Iterator[Event]:
        for call in turns.unanswered():
            yield turns.record(call, self._tools.run(call))

    def _receive_whole(self) -> Generator[Event, None, Response]:
        """Return the response.

        If the stream breaks, the request is sent again, as often as the client retries other requests.
        """
        retries = retry_pauses(self.client.max_retries)
        while True:
            has_begun: list[bool] = []
            try:
                return (yield from self._receive(has_begun))
            except AgentError as error:
                pause_s = next(retries, None) if has_begun and error.retryable else None
                if pause_s is None:
                    raise
                yield StreamRestarted(str(error))
                time.sleep(pause_s)

    def _receive(self, has_begun: list[bool]) -> Generator[Event, None, Response]:
        """Send the conversation and return the response. With streaming, yield its text in pieces.

        The SDK retries a request until its stream begins. An item is added to `has_begun` when it begins.
        """
        messages: Any = self.client.beta.messages  # the overloads of its methods accept no dict
        request = self._request(messages)
        with sdk.api_errors():
            if not self._stream:
                with sdk.send_errors():
                    found = messages.create(**request)
                with sdk.read_errors():
                    return parse_response(found)
            with contextlib.ExitStack() as stack:
                with sdk.send_errors():
                    stream = stack.enter_context(messages.stream(**request))
                has_begun.append(True)
                while (event := _next_event(stream)) is not None:
                    yield event
                with sdk.read_errors():
                    return parse_response(stream.get_final_message())

    def ask(self, message: UserInput = None) -> str:
        """Run to the end and return Claude's last text. Raises `Stopped` if the run ends before Claude has finished."""
        return _answer([event for event in self.run(message) if isinstance(event, Finished)])

    def close(self) -> None:
        """Close the client and the memory if the agent opened them. No data is lost without this call."""
        self._close_memory()
        if self._own_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AsyncAgent(_Conversation["AsyncAnthropic"]):
    """Async version of `Agent`, with an `AsyncAnthropic` client. Memory commands run in a worker thread.

    If the loop over the events can end early, use `async with aclosing(agent.run("...")) as events`, so that the run
    ends at once.
    """

    _new_client: Callable[[], AsyncAnthropic] = staticmethod(sdk.new_async_client)
    _is_async = True

    def run(self, message: UserInput = None) -> AsyncGenerator[Event, None]:
        """Async version of `Agent.run`."""
        run: list[weakref.ref[Any]] = []
        events = self._run(message, run)
        run.append(weakref.ref(events))
        return events

    async def _run(self, message: UserInput, run: list[weakref.ref[Any]]) -> AsyncGenerator[Event, None]:
        turns = self._start_run(message, run)
        with self._rollback_if_rejected(message):
            for event in turns.resume():
                yield event
            response = None
            while True:
                for call in turns.unanswered():
                    yield turns.record(call, await self._tools.run_async(call))
                if (finished := turns.answered() if response is None else turns.finish(response)) is not None:
                    break
                async with aclosing(self._receive_whole()) as received:
                    async for item in received:
                        if isinstance(item, Response):
                            response = item
                        else:
                            yield item
                assert response is not None
                for event in turns.receive(response):
                    yield event
        yield finished

    async def _receive_whole(self) -> AsyncGenerator[Event | Response, None]:
        """Async version of `Agent._receive_whole`. The last item is the response."""
        retries = retry_pauses(self.client.max_retries)
        while True:
            has_begun: list[bool] = []
            try:
                async with aclosing(self._receive(has_begun)) as received:
                    async for item in received:
                        yield item
            except AgentError as error:
                pause_s = next(retries, None) if has_begun and error.retryable else None
                if pause_s is None:
                    raise
                yield StreamRestarted(str(error))
                await anyio.sleep(pause_s)
            else:
                return

    async def _receive(self, has_begun: list[bool]) -> AsyncGenerator[Event | Response, None]:
        """Async version of `Agent._receive`. The last item is the response."""
        messages: Any = self.client.beta.messages  # the overloads of its methods accept no dict
        request = self._request(messages)
        with sdk.api_errors():
            if not self._stream:
                with sdk.send_errors():
                    found = await messages.create(**request)
                with sdk.read_errors():
                    response = parse_response(found)
                yield response
                return
            async with contextlib.AsyncExitStack() as stack:
                with sdk.send_errors():
                    stream = await stack.enter_async_context(messages.stream(**request))
                has_begun.append(True)
                while (event := await _anext_event(stream)) is not None:
                    yield event
                with sdk.read_errors():
                    yield parse_response(await stream.get_final_message())

    async def ask(self, message: UserInput = None) -> str:
        """Async version of `Agent.ask`."""
        async with aclosing(self.run(message)) as events:
            return _answer([event async for event in events if isinstance(event, Finished)])

    async def close(self) -> None:
        """Close the client and the memory if the agent opened them. No data is lost without this call."""
        self._close_memory()
        if self._own_client:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def retry_pauses(retries: int) -> Iterator[float]:
    """Seconds to wait before each retry, with the SDK's values: 0.5, doubled up to 8, with jitter."""
    for number in range(retries):
        yield min(0.5 * 2**number, 8.0) * random.uniform(0.75, 1.0)  # noqa: S311 - spreads retries


def _next_event(stream: Any) -> Text | Compaction | None:
    """Read the next piece of text or summary. Returns None at the end, and raises if the stream ends early."""
    while True:
        with sdk.read_errors():
            event = _checked(next(stream, None))
        if event.type == "message_stop":
            return None
        if (found := _event_of(event)) is not None:
            return found


async def _anext_event(stream: Any) -> Text | Compaction | None:
    """Async version of `_next_event`."""
    while True:
        with sdk.read_errors():
            event = _checked(await anext(stream, None))
        if event.type == "message_stop":
            return None
        if (found := _event_of(event)) is not None:
            return found


def _event_of(event: Any) -> Text | Compaction | None:
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        return Text(replace_surrogates(event.delta.text))
    if event.type == "content_block_stop" and event.content_block.type == "compaction":
        return Compaction(*compactions({"content": [event.content_block]}))
    return None


def _checked(event: Any) -> Any:
    """Raise `ConnectionLost` if the stream ended early. A proxy that gives up closes a stream without an error."""
    if event is None:
        raise ConnectionLost(_STREAM_INTERRUPTED)
    return event


def _answer(finished: list[Finished]) -> str:
    last = finished[-1]
    if last.reason != "end_turn":
        detail = f" ({last.detail})" if last.detail else ""
        raise Stopped(f"the run ended without an answer: {last.reason}{detail}", reason=last.reason)
    return last.text
