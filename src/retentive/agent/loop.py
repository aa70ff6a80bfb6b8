"""`Agent` and `AsyncAgent`: agent loops with a memory, built on the SDK's tool runner.

    agent = Agent(memory="./memory", system="You are a support agent.")
    for event in agent.run("My order has not arrived."):
        ...

Each request sends the whole conversation (`thread=False`), for two reasons: the API applies context edits only to
such requests, and the application can save or drop the conversation at any time. Importing this module imports the SDK.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from retentive.agent import sdk
from retentive.agent.checks import replace_surrogates
from retentive.agent.context import ContextManagement, memory_context
from retentive.agent.conversation import Message, Response, parse_messages, parse_response, user_message
from retentive.agent.errors import ConnectionLost, RequestRefused, Stopped
from retentive.agent.events import Event, Finished, Text
from retentive.agent.prompts import system_prompt
from retentive.agent.request import request_fields, tool_list
from retentive.agent.turns import Budget, Turns, runs_tools
from retentive.errors import InvalidInput
from retentive.integrations.memory import Place, SupportsExecute, open_memory
from retentive.integrations.messages import TOOL
from retentive.opening import DEFAULT_LOCATION
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import origin_of

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

C = TypeVar("C")
MODEL = "claude-sonnet-5-5"
_CONTEXT = memory_context()
_BUDGET = Budget()
_INVALID_REQUEST_STATUSES = (400, 413, 422)
_STREAM_INTERRUPTED = "the response of the API was interrupted; call run() without a message to retry"

UserInput: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""User message: a string or content blocks. None continues the conversation without a new message."""


class _Conversation(Generic[C]):
    """State and request building shared by both agents."""

    _new_client: Callable[[], C]

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
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self._fields = request_fields(model, context, budget, stream=stream, request=request)
        if prompt := system_prompt(system, language=language, tidy=tidy, topic=topic):
            self._fields["system"] = prompt
        self._budget = budget
        self._stream = stream
        self._tools = tool_list(tools)
        self._start_lock = threading.Lock()
        self._current_run: weakref.ref[Any] | None = None  # refers to the generator of the run in progress
        self.origin = origin_of(source, session)
        self.actor = as_actor(actor) or Actor("session", secrets.token_hex(8))
        self.messages: list[Message] = parse_messages(messages)
        self.memory, self._close_memory = open_memory(memory, store)
        self._own_client = client is None
        self.client = self._new_client() if client is None else client

    def _start_run(self, message: UserInput, run: list[weakref.ref[Any]]) -> Turns:
        """Start a run and append the user's message to the conversation. `run` will have the generator of the run."""
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
        length = len(self.messages)
        try:
            yield
        except RequestRefused as error:
            rejected = error.status in _INVALID_REQUEST_STATUSES
            if message is not None and rejected and len(self.messages) == length:
                self.messages.pop()
            raise

    def _request(self, memory_tool: object) -> dict[str, Any]:
        return {**self._fields, "messages": list(self.messages), "tools": [memory_tool, *self._tools]}

    def _has_tools_to_run(self, response: Response) -> bool:
        """Return True if tool calls of the response should run. Silences the SDK's warning about unknown tools."""
        names = {call["name"] for call in response.calls}
        if not names or not runs_tools(response):
            return False
        if names - {TOOL["name"], *(str(getattr(tool, "name", "")) for tool in self._tools)}:
            sdk.ignore_unknown_tool_warnings()
        return True


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
    - `request`: extra fields for each request, such as `thinking`.

    Raises `InvalidInput`, errors of storage when it opens the memory, and `AgentError` during a run. After an error or
    an abandoned run the conversation is still valid, and `run()` without a message continues it. A message that the API
    rejects is removed from the conversation.
    """

    _new_client: Callable[[], Anthropic] = staticmethod(sdk.new_client)

    def run(self, message: UserInput = None) -> Iterator[Event]:
        """Start a run and return an iterator over its events. The last event is a `Finished`.

        The run advances as the iterator is read and ends when the loop is left. `message` is a string or content
        blocks; None continues the conversation. The first read raises `InvalidInput` for an invalid message, or if
        another run of this agent is in progress.
        """
        run: list[weakref.ref[Any]] = []
        events = self._run(message, run)
        run.append(weakref.ref(events))
        return events

    def _run(self, message: UserInput, run: list[weakref.ref[Any]]) -> Iterator[Event]:
        turns = self._start_run(message, run)
        finished = None
        with self._rollback_if_rejected(message):
            while finished is None:
                finished = yield from self._turn(turns)
        yield finished

    def _turn(self, turns: Turns) -> Generator[Event, None, Finished | None]:
        """Run one turn: a response and its tool calls.

        Each turn gets a new runner, so that requests contain exactly the messages kept here.
        """
        with self._runner() as runner:
            with sdk.send_errors():
                item = next(runner)
            while (text := self._next_text(item)) is not None:
                yield text
            with sdk.read_errors():
                response = parse_response(item.get_final_message() if self._stream else item)
            yield from turns.receive(response)
            results = runner.generate_tool_call_response() if self._has_tools_to_run(response) else None
            yield from turns.record(response, results)
            return turns.finish(response, results)

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

    @contextmanager
    def _runner(self) -> Iterator[Any]:
        make: Any = self.client.beta.messages.tool_runner  # the overloads of tool_runner accept no dict
        with sdk.api_errors():
            with sdk.build_errors():
                runner = make(**self._request(sdk.MemoryCommands(self.memory, self.actor, **self.origin)))
            try:
                yield runner
            finally:
                runner.close()

    def _next_text(self, item: Any) -> Text | None:
        """Read the next streamed text. None marks the end of the response; a stream that ends early raises."""
        while self._stream:
            with sdk.read_errors():
                event = _checked(next(item, None))
            if event.type == "message_stop":
                return None
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                return Text(replace_surrogates(event.delta.text))
        return None


class AsyncAgent(_Conversation["AsyncAnthropic"]):
    """Async version of `Agent`, with an `AsyncAnthropic` client. Memory commands run in a worker thread.

    To end a run immediately when its loop is left early, use `async with aclosing(agent.run("...")) as events`.
    """

    _new_client: Callable[[], AsyncAnthropic] = staticmethod(sdk.new_async_client)

    def run(self, message: UserInput = None) -> AsyncGenerator[Event, None]:
        """Async version of `Agent.run`."""
        run: list[weakref.ref[Any]] = []
        events = self._run(message, run)
        run.append(weakref.ref(events))
        return events

    async def _run(self, message: UserInput, run: list[weakref.ref[Any]]) -> AsyncGenerator[Event, None]:
        turns = self._start_run(message, run)
        finished = None
        with self._rollback_if_rejected(message):
            while finished is None:
                async with aclosing(self._turn(turns)) as events:
                    async for event in events:
                        if isinstance(event, Finished):
                            finished = event
                        else:
                            yield event
        yield finished

    async def _turn(self, turns: Turns) -> AsyncGenerator[Event, None]:
        """Async version of `Agent._turn`. If the run ends with this turn, the last event is a `Finished`."""
        async with self._runner() as runner:
            with sdk.send_errors():
                item = await anext(runner)
            while (text := await self._next_text(item)) is not None:
                yield text
            with sdk.read_errors():
                response = parse_response(await item.get_final_message() if self._stream else item)
            for event in turns.receive(response):
                yield event
            results = await runner.generate_tool_call_response() if self._has_tools_to_run(response) else None
            for event in turns.record(response, results):
                yield event
            if (finished := turns.finish(response, results)) is not None:
                yield finished

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

    @asynccontextmanager
    async def _runner(self) -> AsyncIterator[Any]:
        make: Any = self.client.beta.messages.tool_runner  # the overloads of tool_runner accept no dict
        with sdk.api_errors():
            with sdk.build_errors():
                runner = make(**self._request(sdk.AsyncMemoryCommands(self.memory, self.actor, **self.origin)))
            try:
                yield runner
            finally:
                await runner.close()

    async def _next_text(self, item: Any) -> Text | None:
        """Async version of `Agent._next_text`."""
        while self._stream:
            with sdk.read_errors():
                event = _checked(await anext(item, None))
            if event.type == "message_stop":
                return None
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                return Text(replace_surrogates(event.delta.text))
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
