"""Selects the next turn of a script, and converts it to a reply. This module does not depend on HTTP.

The number of replies in the conversation determines the next turn of a script. A script function computes the turn from
the prompt. No state of a conversation is kept between requests, so any number of conversations can run concurrently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from retentive.testing.scripted_claude.cache import UNCACHED, CacheUse
from retentive.testing.scripted_claude.context import CompactionSummary, Context
from retentive.testing.scripted_claude.messages import COMPACTION, Block, Conversation, signature
from retentive.testing.scripted_claude.prompt import Prompt, parse_result
from retentive.testing.scripted_claude.script import (
    Call,
    Raw,
    Script,
    ScriptFunction,
    Thinking,
    Turn,
    select_script,
    to_turn,
)
from retentive.testing.scripted_claude.tokens import blocks_tokens

MODEL = "scripted-claude"


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a script. `message` is the reason, such as a failed check or a tool that is not in the request.

    `turn` is the number of the turn. `request` is the number of the `POST /v1/messages` request. The first
    request has the number 1. If the number is not known, `request` is 0.
    """

    script: str
    turn: int
    message: str
    request: int = 0

    def __str__(self) -> str:
        request = f" (request {self.request})" if self.request else ""
        return f"script {self.script!r}, turn {self.turn}: {self.message}{request}"


class ScriptFailure(Exception):
    """Exception for a failure of a script. `failure` has its data."""

    def __init__(self, script: str, turn: int, message: str) -> None:
        self.failure = Failure(script, turn, message)
        super().__init__(str(self.failure))


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """Reply of the assistant, before it is converted to JSON.

    `applied` lists the applied context edits. It is None if the request has no context management.
    """

    id: str
    blocks: tuple[Block, ...]
    stop_reason: str
    input_tokens: int
    output_tokens: int
    applied: tuple[Block, ...] | None = None
    iterations: tuple[Block, ...] = ()
    cached: CacheUse = UNCACHED

    def message(self) -> dict[str, object]:
        """Return the body of a response that is not streamed."""
        message: dict[str, object] = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": list(self.blocks),
            "stop_reason": self.stop_reason,
            "stop_sequence": None,
            "usage": self.usage(self.output_tokens),
        }
        if self.applied is not None:
            message["context_management"] = {"applied_edits": list(self.applied)}
        return message

    def usage(self, output_tokens: int) -> dict[str, object]:
        """Return the token usage with this number of output tokens. At the start of a stream, the number is lower."""
        usage: dict[str, object] = {
            **_usage(self.input_tokens, output_tokens, self.cached),
            "service_tier": "standard",
        }
        return {**usage, "iterations": list(self.iterations)} if self.iterations else usage


def build_reply(turn: Turn | None, context: Context, cached: CacheUse, *, suffix: str, edited: bool) -> ScriptedReply:
    """Return the reply for a turn. `turn` is None if the reply pauses after the summary of a compaction.

    `suffix` makes the ids of the reply and of its tool calls unique. `edited` is True if the request has context edits.
    """
    content = [_block(block, f"{suffix}_{n}") for n, block in enumerate(turn.blocks)] if turn is not None else []
    blocks = [context.compaction.block, *content] if context.compaction is not None else content
    input_tokens, output_tokens = (context.tokens, max(1, blocks_tokens(content))) if turn is not None else (0, 0)
    if turn is None:
        cached = UNCACHED
    return ScriptedReply(
        id=f"msg_scripted_{suffix}",
        blocks=tuple(blocks),
        stop_reason=COMPACTION if turn is None else turn.stop_reason or ("tool_use" if turn.calls else "end_turn"),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        applied=context.applied if edited else None,
        iterations=_iterations(context.compaction, input_tokens, output_tokens, cached) if context.compaction else (),
        cached=cached,
    )


def next_turn(
    scripts: Sequence[Script | ScriptFunction], conversation: Conversation, prompt: Prompt, played: dict[int, int]
) -> Turn:
    """Return the next turn of a conversation. A script function is called with `prompt`.

    For a script, the checks of the previous turn run first. Raises `ScriptFailure` if a check fails, if the script has
    no more turns, if no script matches, or if the turn calls a tool that is not in the request. Updates `played`, which
    maps the `id()` of a script to the number of its played turns.
    """
    script = select_script(scripts, conversation.opening)
    number = _completed_turns(script, conversation) + 1
    if script is None:
        opening = conversation.opening[:200]
        raise ScriptFailure("none", 0, f"no script matches the first user message {opening!r}")
    if isinstance(script, Script):
        if 1 < number <= len(script.turns) + 1:
            _check_turn(script, number - 1, conversation)
        name, turn = script.name, script.turn(number) or _overrun(script, number, conversation)
    else:
        name = getattr(script, "__name__", "function")
        turn = _call_script(script, prompt, name, number)
    _check_tools(name, number, turn, conversation)
    played[id(script)] = max(played.get(id(script), 0), number)
    return turn


def _overrun(script: Script, number: int, conversation: Conversation) -> NoReturn:
    last = json.dumps(conversation.messages[-1].blocks, ensure_ascii=False)[:500]
    turns = f"{len(script.turns)} turns" if len(script.turns) != 1 else "1 turn"
    raise ScriptFailure(script.name, number, f"the script has only {turns}; the request ends with {last}")


def _completed_turns(script: Script | ScriptFunction | None, conversation: Conversation) -> int:
    """Return the number of turns whose replies are already in the conversation.

    If a turn has the stop reason "pause_turn", this turn and the next are one message in the API, but two turns of a
    script.
    """
    if not isinstance(script, Script):
        return len(conversation.replies)
    completed = 0
    for reply in conversation.replies:
        remaining = len(reply.blocks) - len(reply.of_type(COMPACTION))
        paused = True
        while paused:
            completed += 1
            turn = script.turn(completed)
            remaining -= len(turn.blocks) if turn is not None else 0
            paused = turn is not None and turn.stop_reason == "pause_turn" and not turn.calls and remaining > 0
    return completed


def _call_script(script: ScriptFunction, prompt: Prompt, name: str, number: int) -> Turn:
    try:
        return to_turn(script(prompt))
    except Exception as error:  # the function of a test may raise anything
        raise ScriptFailure(name, number, f"the function raised {error!r}") from error


def _check_turn(script: Script, number: int, conversation: Conversation) -> None:
    """Check the tool calls and results of the previous turn.

    Raises `ScriptFailure` if the client changed the tool calls in the history, or if a check of the turn fails.
    """
    reply, results_message = [message for message in conversation.messages if not message.only_compacts][-2:]
    turn = script.turn(number)
    calls = turn.calls if turn is not None else ()
    blocks = reply.of_type("tool_use")
    expected = [{"name": call.name, "input": dict(call.input)} for call in calls]
    sent_back = [{"name": block.get("name"), "input": block.get("input")} for block in blocks]
    if json.dumps(expected, sort_keys=True) != json.dumps(sent_back, sort_keys=True):
        message = f"the client changed the history: expected the tool calls {expected}, got {sent_back}"
        raise ScriptFailure(script.name, number, message)
    results = {str(block.get("tool_use_id")): parse_result(block) for block in results_message.of_type("tool_result")}
    for call, block in zip(calls, blocks, strict=True):
        problem = call.check.problem(results[str(block.get("id"))]) if call.check else None
        if problem is not None:
            raise ScriptFailure(script.name, number, f"{_describe(call)}: {problem}")


def _check_tools(script: str, number: int, turn: Turn, conversation: Conversation) -> None:
    """Raise `ScriptFailure` if the turn calls a tool that is not in the request. A model could not call such a tool."""
    offered = [tool.get("name") for tool in conversation.tools]
    for call in turn.calls:
        if call.name not in offered:
            message = f"{_describe(call)}: the tool {call.name!r} is not in the request, which has {offered}"
            raise ScriptFailure(script, number, message)


def _describe(call: Call) -> str:
    return f"{call.name} {json.dumps(dict(call.input), ensure_ascii=False)[:500]}"


def _block(block: str | Call | Thinking | Raw, suffix: str) -> Block:
    match block:
        case Raw():
            return dict(block.block)
        case str():
            return {"type": "text", "text": block}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": signature(block.text)}
        case Call():
            unique = hashlib.sha256(suffix.encode()).hexdigest()[
                :24
            ]  # as long as ids of the API, which count as unique
            return {
                "type": "tool_use",
                "id": f"toolu_scripted_{unique}",
                "name": block.name,
                "input": dict(block.input),
            }


def _iterations(
    compaction: CompactionSummary, input_tokens: int, output_tokens: int, cached: CacheUse
) -> tuple[Block, ...]:
    """Return the token usage of the summary and of the message.

    If the reply pauses after the summary, there is no usage of a message.

    The field `usage` of the reply does not include the tokens of the summary.
    """
    first = {"type": COMPACTION, **_usage(compaction.input_tokens, compaction.output_tokens)}
    return (
        (first,) if compaction.pauses else (first, {"type": "message", **_usage(input_tokens, output_tokens, cached)})
    )


def _usage(input_tokens: int, output_tokens: int, cached: CacheUse = UNCACHED) -> dict[str, object]:
    return {
        "input_tokens": input_tokens - cached.read - cached.written,
        "cache_creation_input_tokens": cached.written,
        "cache_read_input_tokens": cached.read,
        "output_tokens": output_tokens,
    }
