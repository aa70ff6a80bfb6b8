"""`ScriptedClaude`: answers and records requests of the Messages API.

The number of replies in the conversation determines the next turn of a script. A script function computes the turn from
the prompt. Only message threads keep a state between requests, so any number of conversations can run concurrently.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from retentive.testing.scripted_claude.context import Managed, Summarize, default_summary, edits_of, manage_context
from retentive.testing.scripted_claude.http import Site
from retentive.testing.scripted_claude.prompt import (
    COMPACTION,
    Block,
    Message,
    Prompt,
    as_blocks,
    block_tokens,
    merge_messages,
    parse_result,
    signature,
)
from retentive.testing.scripted_claude.requests import check_conversation, check_request, fingerprint, parse_json
from retentive.testing.scripted_claude.script import (
    ApiError,
    Call,
    Content,
    Disconnect,
    ErrorResponse,
    Fault,
    FaultPlan,
    Raw,
    Script,
    ScriptFunction,
    StreamError,
    Thinking,
    Turn,
    refuse_if,
    to_turn,
)

MODEL = "scripted-claude"


class Failure(Exception):
    """Failure of a script. `message` is the reason, such as a failed check or a tool that is not in the request.

    `turn` is the number of the turn. `request` is the number of the `POST /v1/messages` request. The first
    request has the number 1.
    """

    def __init__(self, script: str, turn: int, message: str) -> None:
        super().__init__(script, turn, message)
        self.script = script
        self.turn = turn
        self.message = message
        self.request = 0

    def __str__(self) -> str:
        return f"script {self.script!r}, turn {self.turn}: {self.message} (request {self.request})"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Recorded request and its response.

    `headers` and `body` are those of the request. `reply` is the body of the response: a message or an error. For a
    streamed response, `reply` is the message that would be sent without streaming. `status` is 0 if no response was
    sent. `prompt` is None if the request was rejected before its prompt was built. `fault` is the simulated fault of
    this request, if it has one.
    """

    headers: Mapping[str, str]
    body: object
    status: int
    reply: Mapping[str, object]
    prompt: Prompt | None = None
    fault: Fault | None = None

    @property
    def is_streamed(self) -> bool:
        """True if the request asks for a stream."""
        return isinstance(self.body, dict) and self.body.get("stream") is True


class ScriptedClaude:
    """Plays scripts, and records requests and failures. In a `with` block, it is served over HTTP at `url`.

    `failures`, `requests` and `largest_prompt` are updated while the server runs. Any thread can read them.
    `largest_prompt` is the size of the largest prompt, in tokens. The size of a prompt is counted after context edits.
    Prompts that were rejected because of their length are included.

    Options:

    - `threads=False` rejects message threads, as the API does for some organisations.
    - `context_window` is the maximum size of a prompt, in tokens. A request with a longer prompt is rejected.
    - `summarize` is a function that returns the summary of a compaction. If it returns None, the compaction fails.
    - `faults` defines which requests fail, and how they fail.
    - `port` is the port on 127.0.0.1. 0 selects a free one.
    """

    def __init__(
        self,
        *scripts: Script | ScriptFunction,
        threads: bool = True,
        context_window: int | None = None,
        summarize: Summarize = default_summary,
        faults: FaultPlan = MappingProxyType({}),
        port: int = 0,
    ) -> None:
        self.url = ""
        self.failures: list[Failure] = []
        self.requests: list[Exchange] = []
        self.largest_prompt = 0
        self._scripts = scripts
        self._supports_threads = threads
        self._threads: dict[object, Prompt] = {}  # complete conversations, by the id of their last reply
        self._continued: set[object] = set()
        self._paused: set[str] = set()  # fingerprints of the last blocks of paused replies
        self._context_window = context_window
        self._summarize = summarize
        self._faults = faults
        self._port = port
        self._count = 0
        self._played: dict[int, int] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._site = Site(self.answer, self._port)
        self.url = self._site.url
        return self

    def __exit__(self, *_error: object) -> None:
        self._site.stop()

    def verify(self) -> None:
        """Raise `AssertionError` if there were failures or unplayed turns.

        The message contains all failures, and the first unplayed turn of each script.
        """
        found = [str(failure) for failure in self.failures]
        scripts = [script for script in self._scripts if isinstance(script, Script)]
        unplayed = [(script.name, script.unplayed(self._played.get(id(script), 0))) for script in scripts]
        if found := found + [f"script {name!r}: {missing}" for name, missing in unplayed if missing]:
            raise AssertionError("\n".join(["the conversation did not follow the script:", *found]))

    def answer(self, headers: Mapping[str, str], data: bytes) -> Exchange:
        """Answer and record a `POST /v1/messages`. Thread-safe: requests are answered one after the other."""
        with self._lock:
            self._count += 1
            plan = self._faults
            fault = plan.get(self._count) if isinstance(plan, Mapping) else plan(self._count)
            exchange = Exchange(dict(headers), None, 200, {}, fault=fault)
            try:
                exchange = replace(exchange, body=parse_json(data))
                _raise_fault(fault, is_streamed=exchange.is_streamed)
                reply, prompt = self._reply(check_request(headers, data))
                exchange = replace(exchange, reply=reply, prompt=prompt)
            except ApiError as error:
                exchange = replace(exchange, status=error.status, reply=error.body())
            except Failure as failure:
                failure.request = self._count
                self.failures.append(failure)
                exchange = replace(exchange, status=400, reply=ApiError(400, f"[scripted Claude] {failure}").body())
            if fault == Disconnect(None):
                exchange = replace(exchange, status=0, reply={})
            self.requests.append(exchange)
            return exchange

    def _reply(self, body: Mapping[str, object]) -> tuple[dict[str, object], Prompt]:
        conversation = self._threaded(body)
        check_conversation(conversation.messages, self._paused)
        edits = edits_of(body)
        managed = manage_context(conversation, edits or (), self._summary)
        size = managed.prompt.input_tokens
        for tokens in [managed.summarized_tokens] + [size] * (not managed.pauses):
            self.largest_prompt = max(self.largest_prompt, tokens)
            is_over = self._context_window is not None and tokens > self._context_window
            refuse_if(is_over, f"prompt is too long: {tokens} tokens > {self._context_window} maximum")
        turn = None if managed.pauses else self._next_turn(conversation, managed.prompt)
        suffix = secrets.token_hex(8)
        content = [_block(block, f"{suffix}_{n}") for n, block in enumerate(turn.blocks)] if turn is not None else []
        message = _message(turn, content, managed, f"msg_scripted_{suffix}")
        if edits is not None:
            message["context_management"] = {"applied_edits": list(managed.applied)}
        blocks = as_blocks(message["content"])
        thread = body.get("thread")
        if isinstance(thread, Mapping):
            self._continued.add(thread.get("previous_message_id"))
            messages = (*conversation.messages, Message("assistant", blocks))
            self._threads[message["id"]] = replace(conversation, messages=messages)
        if message["stop_reason"] == "pause_turn":
            # Clients do not send blank texts back, because the API refuses them in requests.
            kept = [block for block in blocks if block["type"] != "text" or str(block["text"]).strip()]
            self._paused.update(map(fingerprint, kept[-1:]))
        return message, managed.prompt

    def _threaded(self, body: Mapping[str, object]) -> Prompt:
        """Return the complete conversation of a request. If it continues a thread, the stored messages come first.

        Raises `ApiError` if the thread is unknown or was already continued, or if the request cannot use a thread.
        """
        thread, edited = body.get("thread"), edits_of(body) is not None
        if thread is not None and (edited or not self._supports_threads):
            details = {"error_code": "thread_unsupported_request"}
            message = "This request cannot be threaded; send the full conversation without `thread`."
            raise ApiError(400, message, {**details, "unsupported": ["context_management"]} if edited else details)
        prompt = _prompt_of(body)
        if not isinstance(thread, Mapping) or thread.get("type") != "continue":
            return prompt
        previous = thread.get("previous_message_id")
        past = self._threads.get(previous)
        if past is None:
            details = {"error_code": "thread_not_found"}
            raise ApiError(404, f"No thread was found for previous_message_id '{previous}'.", details)
        if previous in self._continued:
            details = {"error_code": "thread_already_continued"}
            raise ApiError(400, f"The response '{previous}' has already been continued.", details)
        return replace(past, messages=merge_messages((*past.messages, *prompt.messages)))

    def _summary(self, prompt: Prompt) -> str | None:
        try:
            summary = self._summarize(prompt)
        except Exception as error:  # the function of a test may raise anything
            raise Failure("summarize", 0, f"the function raised {error!r}") from error
        if summary is not None and not isinstance(summary, str):
            raise Failure("summarize", 0, f"`summarize` must return a string or None, got {summary!r}")
        return summary

    def _next_turn(self, conversation: Prompt, prompt: Prompt) -> Turn:
        """Return the next turn of a conversation. A script function is called with `prompt`.

        For a script, the checks of the previous turn run first. Raises `Failure` if a check fails, if the script
        has no more turns, if no script matches, or if the turn calls a tool that is not in the request.
        """
        opening = conversation.opening
        scripts = (each for each in self._scripts if not isinstance(each, Script) or each.when in opening)
        script = next(scripts, None)
        if script is None:
            raise Failure("none", 0, f"no script matches the first user message {opening[:200]!r}")
        replies = [
            message for message in conversation.messages if message.role == "assistant" and not _compacts(message)
        ]
        number = (_completed(script, replies) if isinstance(script, Script) else len(replies)) + 1
        if isinstance(script, Script):
            name = script.name
            if 1 < number <= len(script.turns) + 1:
                _check_turn(script, number - 1, conversation)
            found = script.turn(number)
            if found is None:
                last = json.dumps(conversation.messages[-1].blocks, ensure_ascii=False)[:500]
                turns = f"{len(script.turns)} turns" if len(script.turns) != 1 else "1 turn"
                raise Failure(name, number, f"the script has only {turns}; the request ends with {last}")
            turn = found
        else:
            name = getattr(script, "__name__", "function")
            try:
                turn = to_turn(script(prompt))
            except Exception as error:  # the function of a test may raise anything
                raise Failure(name, number, f"the function raised {error!r}") from error
        for call in turn.calls:
            if call.name not in prompt.tool_names:
                offered = f"the tool {call.name!r} is not in the request, which has {list(prompt.tool_names)}"
                raise Failure(name, number, f"{_described(call)}: {offered}")
        self._played[id(script)] = max(self._played.get(id(script), 0), number)
        return turn


def _raise_fault(fault: Fault | None, *, is_streamed: bool) -> None:
    """Raise `ApiError` if a fault replaces the reply. The HTTP layer simulates the other faults, and `Disconnect`."""
    if isinstance(fault, ErrorResponse):
        raise fault.error()
    if isinstance(fault, StreamError) and not is_streamed:
        raise ErrorResponse(fault.status).error()
    if fault == Disconnect(None):
        raise ApiError(500, "never sent, because the connection is closed instead")


def _prompt_of(body: Mapping[str, object]) -> Prompt:
    messages = (Message(str(each["role"]), as_blocks(each.get("content"))) for each in as_blocks(body["messages"]))
    return Prompt(merge_messages(messages), body.get("system"), as_blocks(body.get("tools")))


def _compacts(message: Message) -> bool:
    """Return whether a reply contains only compaction blocks, as one that pauses after a compaction."""
    return message.role == "assistant" and len(message.of_type(COMPACTION)) == len(message.blocks)


def _completed(script: Script, replies: Sequence[Message]) -> int:
    """Return the number of turns whose replies are already in the conversation.

    If a turn has the stop reason "pause_turn", this turn and the next are one message in the API, but two turns of a
    script.
    """
    completed = 0
    for reply in replies:
        remaining = len(reply.blocks) - len(reply.of_type(COMPACTION))
        paused = True
        while paused:
            completed += 1
            turn = script.turn(completed)
            remaining -= len(turn.blocks) if turn is not None else 0
            paused = turn is not None and turn.stop_reason == "pause_turn" and not turn.calls and remaining > 0
    return completed


def _check_turn(script: Script, number: int, conversation: Prompt) -> None:
    """Check the tool calls and results of the previous turn.

    Raises `Failure` if the client changed the tool calls in the history, or if a check of the turn fails.
    """
    reply, results_message = [message for message in conversation.messages if not _compacts(message)][-2:]
    turn = script.turn(number)
    calls = turn.calls if turn is not None else ()
    blocks = reply.of_type("tool_use")
    expected = [{"name": call.name, "input": dict(call.input)} for call in calls]
    sent_back = [{"name": block.get("name"), "input": block.get("input")} for block in blocks]
    if json.dumps(expected, sort_keys=True) != json.dumps(sent_back, sort_keys=True):
        message = f"the client changed the history: expected the tool calls {expected}, got {sent_back}"
        raise Failure(script.name, number, message)
    results = {block.get("tool_use_id"): parse_result(block) for block in results_message.of_type("tool_result")}
    for call, block in zip(calls, blocks, strict=True):
        problem = call.check.problem(results[block.get("id")]) if call.check else None
        if problem is not None:
            raise Failure(script.name, number, f"{_described(call)}: {problem}")


def _described(call: Call) -> str:
    return f"{call.name} {json.dumps(dict(call.input), ensure_ascii=False)[:500]}"


def _block(block: Content, suffix: str) -> Block:
    match block:
        case Raw():
            return dict(block.block)
        case str():
            return {"type": "text", "text": block}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": signature(block.text)}
        case Call():
            unique = hashlib.sha256(suffix.encode()).hexdigest()[:24]  # as long as ids of the API, which are unique
            use_id = f"toolu_scripted_{unique}"
            return {"type": "tool_use", "id": use_id, "name": block.name, "input": dict(block.input)}


def _message(turn: Turn | None, content: list[Block], managed: Managed, message_id: str) -> dict[str, object]:
    """Return the body of a reply. `turn` is None if the reply pauses after the summary of a compaction.

    The field `usage` does not include the tokens of a summary, which has an entry of its own in `iterations`.
    """
    compaction = managed.compaction
    output = 0 if turn is None else max(1, sum(map(block_tokens, content)))
    usage = _usage(0 if turn is None else managed.prompt.input_tokens, output)
    steps: list[dict[str, object]] = []
    if compaction is not None:
        steps.append({"type": COMPACTION, **_usage(managed.summarized_tokens, max(1, block_tokens(compaction)))})
        if turn is not None:
            steps.append({"type": "message", **usage})
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content if compaction is None else [compaction, *content],
        "stop_reason": COMPACTION if turn is None else turn.stop_reason or ("tool_use" if turn.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {**usage, "service_tier": "standard", **({"iterations": steps} if steps else {})},
    }


def _usage(input_tokens: int, output_tokens: int) -> dict[str, object]:
    cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, **cache}
