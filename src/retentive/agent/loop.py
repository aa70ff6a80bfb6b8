"""`Agent` and `AsyncAgent`: Claude with a memory, over the SDK's tool runner.

    agent = Agent(memory="./memory", system="You are a support agent.")
    for event in agent.run("My order has not arrived."):
        ...

The runner sends the whole conversation with each request (`thread=False`): the API edits contexts only then, and a
conversation that is kept here alone can be dropped or saved at any moment. Importing this imports the SDK.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, Unpack

from retentive.agent import sdk
from retentive.agent.characters import mended
from retentive.agent.context import ContextManagement, memory_context
from retentive.agent.conversation import Heard, Message, given_messages, heard, user_message
from retentive.agent.errors import ConnectionLost, RequestRefused, Stopped
from retentive.agent.events import Event, Finished, Text
from retentive.agent.memory import opened
from retentive.agent.prompts import system_prompt
from retentive.agent.request import check_actor, request_fields, tool_list
from retentive.agent.turns import Budget, Turns, runs_tools
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import Executes
from retentive.integrations.messages import TOOL
from retentive.opening import DEFAULT_LOCATION
from retentive.storage.contract import Actor, as_actor

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

MODEL = "claude-sonnet-5-5"
_CONTEXT = memory_context()
_BUDGET = Budget()
_UNTAKEN = (400, 413, 422)  # statuses that say that the request itself is wrong
_BROKE_OFF = "the answer of the API broke off; run() without a message tries again"


Said: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""What the user says: a text, content blocks, or None to go on where the conversation stands."""


class Options(TypedDict, total=False):
    """What an agent is made of, besides its client. All may be left out; `Agent` tells what they are."""

    model: str
    memory: Executes | str | os.PathLike[str]
    tools: Iterable[Any]
    context: ContextManagement | None
    system: str
    language: str
    tidy: bool
    topic: str | None
    budget: Budget
    actor: Actor | str | None
    messages: Iterable[Mapping[str, Any]]
    stream: bool
    request: Mapping[str, Any] | None


class _Conversation:
    """What both agents share: what they are made of, and the request that follows from it."""

    def __init__(
        self,
        *,
        model: str = MODEL,
        memory: Executes | str | os.PathLike[str] = DEFAULT_LOCATION,
        tools: Iterable[Any] = (),
        context: ContextManagement | None = _CONTEXT,
        system: str = "",
        language: str = "en",
        tidy: bool = True,
        topic: str | None = None,
        budget: Budget = _BUDGET,
        actor: Actor | str | None = None,
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
        self._entering = threading.Lock()
        self._present: weakref.ref[Any] | None = None  # the run there is: its generator
        check_actor(actor)
        self.actor = as_actor(actor) or Actor("session", secrets.token_hex(8))
        self.messages: list[Message] = given_messages(messages)
        self.memory, self._close_memory = opened(memory)

    def _begin(self, said: Said, own: list[weakref.ref[Any]]) -> Turns:
        """A new run, with what the user said in the conversation. `own` has its generator."""
        with self._entering:
            present = self._present() if self._present is not None else None
            # One that ended has no frame any more, whoever still holds it.
            if present is not None and (getattr(present, "gi_frame", None) or getattr(present, "ag_frame", None)):
                raise InvalidInput("one run at a time: another one of this agent has not ended; close it, or use two")
            if said is not None:
                self.messages.append(user_message(said))
            elif not self.messages:
                raise InvalidInput("there is no conversation to go on with; give run() a message")
            self._present = own[0]
        return Turns(self.messages, self._budget, streamed=self._stream)

    @contextmanager
    def _taking_back(self, said: Said) -> Iterator[None]:
        """What was said leaves the conversation if the API does not take it: nor would it with the next message."""
        length = len(self.messages)
        try:
            yield
        except RequestRefused as error:
            if said is not None and error.status in _UNTAKEN and len(self.messages) == length:
                self.messages.pop()
            raise

    def _request(self, memory_tool: object) -> dict[str, Any]:
        return {**self._fields, "messages": list(self.messages), "tools": [memory_tool, *self._tools]}

    def _runs(self, reply: Heard) -> bool:
        """Whether there are calls to run. The SDK is told before that some may be of tools that are not there."""
        names = {call["name"] for call in reply.calls}
        if not names or not runs_tools(reply):
            return False
        if names - {TOOL["name"], *(str(getattr(tool, "name", "")) for tool in self._tools)}:
            sdk.expect_unknown_tools()
        return True


class Agent(_Conversation):
    """Claude with a memory: one conversation, one run at a time. Each run yields events (`retentive.agent.events`).

    `client` is an `Anthropic` client, made and closed here if there is none; its `max_retries` hold. `memory` is a
    place as for `retentive.open`, opened and closed here, or what answers commands: a `MemoryStore`, `Mounts`.
    `tools` are more tools: functions with the SDK's `beta_tool`, or entries for server tools. `context` None leaves
    contexts alone. `system` is the application's prompt; `language`, `tidy` and `topic` are those of `system_prompt`.
    `actor` is who is recorded with changes of the memory, a new session unless given. `messages` go on with a
    conversation: `agent.messages` of an earlier one, which is JSON. With `stream` texts come in pieces. `request` has
    more fields for each request, such as `thinking`.

    Raises `InvalidInput`, the errors of storage when the memory is opened, and `AgentError` while it runs. After an
    error or a loop that was left, the conversation can be sent as it stands: `run()` without a message goes on. A
    message that the API does not take is taken out of it again.
    """

    def __init__(self, client: Anthropic | None = None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._own_client = client is None
        self.client = sdk.new_client() if client is None else client

    def run(self, said: Said = None) -> Iterator[Event]:
        """The events of one run, the last a `Finished`. It runs as it is read; leaving the loop ends it.

        `said` is a text or content blocks; None goes on where the conversation stands. Raises, once it is read,
        `InvalidInput` for a message that cannot be sent, and while another run of this agent has not ended.
        """
        own: list[weakref.ref[Any]] = []
        events = self._run(said, own)
        own.append(weakref.ref(events))
        return events

    def _run(self, said: Said, own: list[weakref.ref[Any]]) -> Iterator[Event]:
        turns = self._begin(said, own)
        finished = None
        with self._taking_back(said):
            while finished is None:
                finished = yield from self._turn(turns)
        yield finished

    def _turn(self, turns: Turns) -> Generator[Event, None, Finished | None]:
        """One reply and its tools. The runner is a new one each time, so that what is sent is what is kept here."""
        with self._runner() as runner:
            with sdk.asking():
                item = next(runner)
            while (piece := self._piece(item)) is not None:
                yield piece
            with sdk.reading():
                reply = heard(item.get_final_message() if self._stream else item)
            yield from turns.said(reply)
            answers = runner.generate_tool_call_response() if self._runs(reply) else None
            yield from turns.record(reply, answers)
            return turns.end(reply, answers)

    def ask(self, said: Said = None) -> str:
        """The text Claude ends with. Raises `Stopped` if the run ends for another reason."""
        return _answer([event for event in self.run(said) if isinstance(event, Finished)])

    def close(self) -> None:
        """Close what was opened here. Not closing loses nothing."""
        self._close_memory()
        if self._own_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _runner(self) -> Iterator[Any]:
        make: Any = self.client.beta.messages.tool_runner  # its overloads take no dict
        with sdk.api_errors():
            with sdk.making():
                runner = make(**self._request(sdk.MemoryCommands(self.memory, self.actor)))
            try:
                yield runner
            finally:
                runner.close()

    def _piece(self, item: Any) -> Text | None:
        """The next piece of a streamed text, None at the end of the reply. Raises `ConnectionLost` before that."""
        while self._stream:
            with sdk.reading():
                event = _checked(next(item, None))
            if event.type == "message_stop":
                return None
            if _is_text(event):
                return Text(mended(event.delta.text))
        return None


class AsyncAgent(_Conversation):
    """As `Agent`, with an `AsyncAnthropic` client; commands of the memory run in a worker thread.

    `async with aclosing(agent.run("...")) as events` ends a run at once where its loop is left early.
    """

    def __init__(self, client: AsyncAnthropic | None = None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._own_client = client is None
        self.client = sdk.new_async_client() if client is None else client

    def run(self, said: Said = None) -> AsyncGenerator[Event, None]:
        """As `Agent.run`."""
        own: list[weakref.ref[Any]] = []
        events = self._run(said, own)
        own.append(weakref.ref(events))
        return events

    async def _run(self, said: Said, own: list[weakref.ref[Any]]) -> AsyncGenerator[Event, None]:
        turns = self._begin(said, own)
        finished = None
        with self._taking_back(said):
            while finished is None:
                async with aclosing(self._turn(turns)) as events:
                    async for event in events:
                        if isinstance(event, Finished):
                            finished = event
                        else:
                            yield event
        yield finished

    async def _turn(self, turns: Turns) -> AsyncGenerator[Event, None]:
        """As `Agent._turn`; a `Finished` is its last event."""
        async with self._runner() as runner:
            with sdk.asking():
                item = await anext(runner)
            while (piece := await self._piece(item)) is not None:
                yield piece
            with sdk.reading():
                reply = heard(await item.get_final_message() if self._stream else item)
            for event in turns.said(reply):
                yield event
            answers = await runner.generate_tool_call_response() if self._runs(reply) else None
            for event in turns.record(reply, answers):
                yield event
            if (finished := turns.end(reply, answers)) is not None:
                yield finished

    async def ask(self, said: Said = None) -> str:
        """As `Agent.ask`."""
        async with aclosing(self.run(said)) as events:
            return _answer([event async for event in events if isinstance(event, Finished)])

    async def close(self) -> None:
        """Close what was opened here. Not closing loses nothing."""
        self._close_memory()
        if self._own_client:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _runner(self) -> AsyncIterator[Any]:
        make: Any = self.client.beta.messages.tool_runner  # its overloads take no dict
        with sdk.api_errors():
            with sdk.making():
                runner = make(**self._request(sdk.AsyncMemoryCommands(self.memory, self.actor)))
            try:
                yield runner
            finally:
                await runner.close()

    async def _piece(self, item: Any) -> Text | None:
        """As `Agent._piece`."""
        while self._stream:
            with sdk.reading():
                event = _checked(await anext(item, None))
            if event.type == "message_stop":
                return None
            if _is_text(event):
                return Text(mended(event.delta.text))
        return None


def _is_text(event: Any) -> bool:
    return bool(event.type == "content_block_delta" and event.delta.type == "text_delta")


def _checked(event: Any) -> Any:
    """An event of a stream; it must not be over before its last event, which a proxy that gives up does in silence."""
    if event is None:
        raise ConnectionLost(_BROKE_OFF)
    return event


def _answer(finished: list[Finished]) -> str:
    last = finished[-1]
    if last.reason != "end_turn":
        detail = f" ({last.detail})" if last.detail else ""
        raise Stopped(f"the run ended without an answer: {last.reason}{detail}", reason=last.reason)
    return last.text
