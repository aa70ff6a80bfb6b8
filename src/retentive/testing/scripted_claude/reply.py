"""What a scripted Claude answers to a conversation: decided here, rendered and sent elsewhere.

Which turn of a fixed script comes next follows from the conversation alone, from the number of replies in it; a
function is asked with what the model sees. So nothing is remembered between requests, and any number of
conversations may run at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retentive.testing.scripted_claude.messages import COMPACTION
from retentive.testing.scripted_claude.observations import result_of
from retentive.testing.scripted_claude.script import Answering, Call, Script, Thinking, Turn, pick, turn_of
from retentive.testing.scripted_claude.tokens import blocks_tokens

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.context import Compaction, Context
    from retentive.testing.scripted_claude.messages import Block, Conversation
    from retentive.testing.scripted_claude.observations import Seen

MODEL = "scripted-claude"
THE_END = "[scripted Claude] The script ends here; a real model would go on."


@dataclass(frozen=True, slots=True)
class Failure:
    """A script that could not be played on, and why: a check that failed, a tool that is not there, ..."""

    script: str
    turn: int
    message: str

    def __str__(self) -> str:
        return f"script {self.script!r}, turn {self.turn}: {self.message}"


class PlayError(Exception):
    """Raised instead of a reply; carries the `Failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Reply:
    """One message of the assistant, before it has a form. `applied` is None where no context editing was asked for."""

    id: str
    blocks: tuple[Block, ...]
    stop_reason: str
    input_tokens: int
    output_tokens: int
    applied: tuple[Block, ...] | None = None
    iterations: tuple[Block, ...] = ()

    def message(self) -> dict[str, object]:
        """The body of the response when it is not streamed."""
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
        """The usage of this reply, with so many tokens written."""
        usage: dict[str, object] = {**_usage(self.input_tokens, output_tokens), "service_tier": "standard"}
        return {**usage, "iterations": list(self.iterations)} if self.iterations else usage


def reply_of(turn: Turn | None, context: Context, *, suffix: str, edited: bool) -> Reply:
    """`turn` as the reply to `context`; None where a compaction pauses. `suffix` makes its ids unique."""
    said = _blocks(turn, suffix) if turn is not None else []
    blocks = [context.compaction.block, *said] if context.compaction is not None else said
    read, written = (context.tokens, max(1, blocks_tokens(said))) if turn is not None else (0, 0)
    return Reply(
        id=f"msg_scripted_{suffix}",
        blocks=tuple(blocks),
        stop_reason=COMPACTION if turn is None else turn.stop_reason or ("tool_use" if turn.calls else "end_turn"),
        input_tokens=read,
        output_tokens=written,
        applied=context.applied if edited else None,
        iterations=_iterations(context.compaction, read, written) if context.compaction is not None else (),
    )


def next_turn(scripts: Sequence[Script | Answering], conversation: Conversation, seen: Seen) -> Turn:
    """What is said next in `conversation`, which the API would take; raises `PlayError`.

    A function gets `seen`. Of a fixed script, first the results of the last turn meet its checks, then the next turn
    is said. After the script's end it is one closing text, so that no loop runs for ever.
    """
    script = pick(scripts, conversation.opening)
    number = _turns_said(script, conversation) + 1
    if script is None:
        opening = conversation.opening[:200]
        raise PlayError(Failure("none", 0, f"no script is for a conversation that opens with {opening!r}"))
    if isinstance(script, Script):
        if 1 < number <= len(script.turns) + 1:
            _check_turn(script, number - 1, conversation)
        name, turn = script.name, script.turns[number - 1] if number <= len(script.turns) else Turn((THE_END,))
    else:
        name = getattr(script, "__name__", "function")
        turn = _asked(script, seen, name, number)
    _check_tools(name, number, turn, conversation)
    return turn


def _turns_said(script: Script | Answering | None, conversation: Conversation) -> int:
    """How many turns the replies are: what was paused and what it went on with are one message of the API."""
    if not isinstance(script, Script):
        return len(conversation.replies)
    said = 0
    for reply in conversation.replies:
        left = len(reply.blocks) - len(reply.of_type(COMPACTION))
        paused = True
        while paused:
            turn = script.turns[said] if said < len(script.turns) else Turn((THE_END,))
            said, left = said + 1, left - len(turn.blocks)
            paused = turn.stop_reason == "pause_turn" and not turn.calls and left > 0
    return said


def _asked(script: Answering, seen: Seen, name: str, number: int) -> Turn:
    try:
        return turn_of(script(seen))
    except Exception as error:  # somebody's own function may raise anything; that is its answer
        raise PlayError(Failure(name, number, f"the function raised {error!r}")) from error


def _check_turn(script: Script, number: int, conversation: Conversation) -> None:
    """Raise `PlayError` unless the last turn stands in the history as it was said, and its checks hold."""
    said, answered = [message for message in conversation.messages if not message.only_compacts][-2:]
    calls = script.turns[number - 1].calls
    blocks = said.of_type("tool_use")
    expected = [{"name": call.name, "input": dict(call.input)} for call in calls]
    sent_back = [{"name": block.get("name"), "input": block.get("input")} for block in blocks]
    if json.dumps(expected, sort_keys=True) != json.dumps(sent_back, sort_keys=True):
        message = f"the history was changed: expected the tool calls {expected}, got {sent_back}"
        raise PlayError(Failure(script.name, number, message))
    results = {str(block.get("tool_use_id")): result_of(block) for block in answered.of_type("tool_result")}
    for call, block in zip(calls, blocks, strict=True):
        problem = call.check.problem(results[str(block.get("id"))]) if call.check else None
        if problem is not None:
            raise PlayError(Failure(script.name, number, f"{_named(call)}: {problem}"))


def _check_tools(script: str, number: int, turn: Turn, conversation: Conversation) -> None:
    """Raise `PlayError` if the turn calls a tool the request did not offer: no model could."""
    offered = [tool.get("name") for tool in conversation.tools]
    for call in turn.calls:
        if call.name not in offered:
            message = f"{_named(call)}: the request's tools are {offered}, and {call.name!r} is not among them"
            raise PlayError(Failure(script, number, message))


def _named(call: Call) -> str:
    return f"{call.name} {json.dumps(dict(call.input), ensure_ascii=False)[:500]}"


def _blocks(turn: Turn, suffix: str) -> list[Block]:
    return [_block(block, f"{suffix}_{n}") for n, block in enumerate(turn.blocks)]


def _block(block: str | Call | Thinking, suffix: str) -> Block:
    match block:
        case str():
            return {"type": "text", "text": block}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": f"scripted_{suffix}"}
        case Call():
            return {
                "type": "tool_use",
                "id": f"toolu_scripted_{suffix}",
                "name": block.name,
                "input": dict(block.input),
            }


def _iterations(compaction: Compaction, read: int, written: int) -> tuple[Block, ...]:
    """The summary and, unless it pauses, the message; the usage of the reply is that of the message alone."""
    first = {"type": COMPACTION, **_usage(compaction.input_tokens, compaction.output_tokens)}
    return (first,) if compaction.pauses else (first, {"type": "message", **_usage(read, written)})


def _usage(read: int, written: int) -> dict[str, object]:
    return {
        "input_tokens": read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": written,
    }
