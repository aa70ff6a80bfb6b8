"""`ScriptedClaude`: answers and records requests of the Messages API. The module `http` serves it over HTTP."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypedDict

from retentive.testing.scripted_claude.cache import PromptCache
from retentive.testing.scripted_claude.checks import check_request, parse_json
from retentive.testing.scripted_claude.context import Context, Summarize, default_summary, manage_context
from retentive.testing.scripted_claude.errors import ApiError, invalid
from retentive.testing.scripted_claude.faults import Disconnect, ErrorResponse, Fault, FaultPlan, StreamError, fault_for
from retentive.testing.scripted_claude.messages import Conversation, merge_messages
from retentive.testing.scripted_claude.prompt import Prompt
from retentive.testing.scripted_claude.reply import Failure, ScriptedReply, ScriptFailure, build_reply, next_turn
from retentive.testing.scripted_claude.requests import PausedReplies, Request, Threads, check_conversation
from retentive.testing.scripted_claude.script import Script, ScriptFunction


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """Response to a request: a reply or an error.

    `stream` is True if the request asks for a stream. `fault` is the simulated fault of this request, if it has one.
    """

    reply: ScriptedReply | ApiError
    stream: bool = False
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Recorded request and its response.

    `headers` and `body` are those of the request. `reply` is the body of the response: a message or an error. For a
    streamed response, `reply` is the message that would be sent without streaming. `status` is 0 if no response was
    sent. `prompt` is None if the request was rejected before its prompt was built.
    """

    headers: Mapping[str, str]
    body: object
    status: int
    reply: Mapping[str, object]
    prompt: Prompt | None = None


class Options(TypedDict, total=False):
    """Options of `scripted_claude`, described in the docstring of `ScriptedClaude`."""

    threads: bool
    context_window: int | None
    summarize: Summarize
    faults: FaultPlan
    keep_requests: bool


class ScriptedClaude:
    """Plays scripts, and records requests and failures. `scripted_claude` creates it and serves it over HTTP.

    `failures`, `requests` and `largest_prompt` are updated while the server runs. Any thread can read them.
    `largest_prompt` is the size of the largest prompt, in tokens. The size of a prompt is counted after context edits.
    Prompts that were rejected because of their length are included.

    Options:

    - `threads=False` rejects message threads, as the API does for some organisations.
    - `context_window` is the maximum size of a prompt, in tokens. A request with a longer prompt is rejected.
    - `summarize` is a function that returns the summary of a compaction. If it returns None, the compaction fails.
    - `faults` defines which requests fail, and how they fail.
    - `keep_requests=False` turns off recording of requests.
    - `new_suffix` creates the unique part of each id.
    """

    def __init__(
        self,
        *scripts: Script | ScriptFunction,
        threads: bool = True,
        context_window: int | None = None,
        summarize: Summarize = default_summary,
        faults: FaultPlan = MappingProxyType({}),
        keep_requests: bool = True,
        new_suffix: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.url = ""
        self.failures: list[Failure] = []
        self.requests: list[Exchange] = []
        self.largest_prompt = 0
        self._scripts = scripts
        self._threads = Threads(supported=threads)
        self._paused = PausedReplies()
        self._thoughtless: set[object] = set()  # ids of the calls in replies without thinking
        self._cache = PromptCache()
        self._context_window = context_window
        self._summarize = summarize
        self._faults = faults
        self._keep_requests = keep_requests
        self._new_suffix = new_suffix
        self._tally: Counter[str] = Counter()
        self._played: dict[int, int] = {}

    def verify(self) -> None:
        """Raise `AssertionError` if there were failures or unplayed turns.

        The message contains all failures, and the first unplayed turn of each script.
        """
        found = [str(failure) for failure in self.failures]
        scripts = [script for script in self._scripts if isinstance(script, Script)]
        unplayed = [(script.name, script.unplayed(self._played.get(id(script), 0))) for script in scripts]
        if found := found + [f"script {name!r}: {missing}" for name, missing in unplayed if missing]:
            raise AssertionError("\n".join(["the conversation did not follow the script:", *found]))

    def answer(self, headers: Mapping[str, str], data: bytes) -> ScriptedResponse:
        """Answer and record a `POST /v1/messages`."""
        self._tally["requests"] += 1
        fault = fault_for(self._faults, self._tally["requests"])
        body: object = None
        prompt: Prompt | None = None
        stream = False
        answered: ScriptedReply | ApiError
        try:
            body = _body(data)
            stream = isinstance(body, dict) and body.get("stream") is True
            self._raise_fault(fault, stream=stream)
            answered, prompt = self._reply(Request.of(check_request(headers, data, count=False)))
        except ApiError as error:
            answered = error
        except ScriptFailure as failed:
            failure = replace(failed.failure, request=self._tally["requests"])
            self.failures.append(failure)
            answered = invalid(f"[scripted Claude] {failure}")
        status, reply = _rendered(answered, fault)
        if self._keep_requests:
            self.requests.append(Exchange(dict(headers), body, status, reply, prompt))
        return ScriptedResponse(answered, stream, fault)

    def count(self, headers: Mapping[str, str], data: bytes) -> dict[str, object] | ApiError:
        """Answer a `POST /v1/messages/count_tokens`.

        Before the tokens are counted, tool uses and thinking are cleared, and earlier compactions are applied. No new
        compaction starts.
        """
        try:
            request = Request.of(check_request(headers, data, count=True))
            conversation = Conversation(merge_messages(request.messages), request.system, request.tools)
            self._check_conversation(request, conversation)
        except ApiError as error:
            return error
        context = manage_context(conversation, request.edits or (), summarize=None)
        counted: dict[str, object] = {"input_tokens": context.tokens}
        if request.edits is not None:
            counted["context_management"] = {"original_input_tokens": context.original_tokens}
        return counted

    def state(self) -> dict[str, object]:
        """Return a JSON object with the failures, and with the numbers of requests, context edits and warnings."""
        names = ("requests", "cleared_tool_uses", "cleared_thinking_turns", "compactions", "warnings")
        counts: dict[str, object] = {name: self._tally[name] for name in names}
        return {**counts, "largest_prompt": self.largest_prompt, "failures": [str(failed) for failed in self.failures]}

    def _reply(self, request: Request) -> tuple[ScriptedReply, Prompt]:
        conversation = self._threads.join(request)
        self._check_conversation(request, conversation)
        context = manage_context(conversation, request.edits or (), summarize=self._summary)
        self._check_sizes(context)
        prompt = context.prompt()
        pauses = context.compaction is not None and context.compaction.pauses
        turn = None if pauses else next_turn(self._scripts, conversation, prompt, self._played)
        cached = self._cache.use(context.conversation, request.cache_control)
        reply = build_reply(turn, context, cached, suffix=self._new_suffix(), edited=request.edits is not None)
        self._threads.keep(request, conversation, reply.id, reply.blocks)
        self._paused.keep(reply.stop_reason, reply.blocks)
        if not any(block["type"] == "thinking" for block in reply.blocks):
            self._thoughtless.update(block["id"] for block in reply.blocks if block["type"] == "tool_use")
        self._record_counts(context)
        return reply, prompt

    def _check_conversation(self, request: Request, conversation: Conversation) -> None:
        last = [use.get("id") for message in conversation.messages[-2:] for use in message.of_type("tool_use")]
        thinks = request.thinks and self._thoughtless.isdisjoint(last)
        check_conversation(conversation.messages, thinks=thinks, paused=self._paused)

    def _summary(self, prompt: Prompt) -> str | None:
        try:
            summary = self._summarize(prompt)
        except Exception as error:  # the function of a test may raise anything
            raise ScriptFailure("summarize", 0, f"the function raised {error!r}") from error
        if summary is not None and not isinstance(summary, str):
            raise ScriptFailure("summarize", 0, f"`summarize` must return a string or None, got {summary!r}")
        return summary

    def _check_sizes(self, context: Context) -> None:
        for size in context.prompts:
            self.largest_prompt = max(self.largest_prompt, size)
            if self._context_window is not None and size > self._context_window:
                raise invalid(f"prompt is too long: {size} tokens > {self._context_window} maximum")

    def _record_counts(self, context: Context) -> None:
        for edit in context.applied:
            for name in ("cleared_tool_uses", "cleared_thinking_turns"):
                self._tally[name] += int(str(edit.get(name, 0)))
        self._tally["compactions"] += context.compaction is not None
        self._tally["warnings"] += context.warning is not None

    def _raise_fault(self, fault: Fault | None, *, stream: bool) -> None:
        """Raise `ApiError` if a fault replaces the reply. The HTTP layer simulates the other faults.

        The error that is raised for a `Disconnect` is never sent, because the HTTP layer closes the connection instead.
        """
        match fault:
            case ErrorResponse():
                raise fault.error()
            case StreamError(status=status) if not stream:
                raise ErrorResponse(status).error()
            case Disconnect(None):
                raise ErrorResponse(500).error()


def _body(data: bytes) -> object:
    """Parse the body of a request so that it can be recorded. Returns None if it is not JSON."""
    try:
        return parse_json(data)
    except ApiError:
        return None


def _rendered(answered: ScriptedReply | ApiError, fault: Fault | None) -> tuple[int, dict[str, object]]:
    if fault == Disconnect(None):
        return 0, {}
    if isinstance(answered, ApiError):
        return answered.status, answered.body()
    return 200, answered.message()
