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

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Self

import anyio

from retentive.agent import sdk
from retentive.agent.conversation import Response, newest_response, parse_response
from retentive.agent.events import AgentError, Event, Finished
from retentive.agent.turns import Conversation, RunSteps, Send, UserInput, answer_of

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic


class Agent(Conversation["Anthropic", Iterator[Event]]):
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
                case dict():
                    outcome = self._tools.run(step, newest_response(self.messages) or 0)
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
                with suppress(sdk.TransportError):  # the response has ended; this lets the connection be reused
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


class AsyncAgent(Conversation["AsyncAnthropic", AsyncGenerator[Event, None]]):
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
                case dict():
                    outcome = await self._tools.run_async(step, newest_response(self.messages) or 0)
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
                with suppress(sdk.TransportError):  # the response has ended; this lets the connection be reused
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
