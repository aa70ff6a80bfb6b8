"""What a scripted Claude answers to a conversation: decided here, rendered and sent elsewhere.

Which turn comes next follows from the conversation alone, from the number of replies in it. So nothing is
remembered between requests, and any number of conversations may run at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonplace.testing.scripted_script import Call, Result, Script, Turn, pick

if TYPE_CHECKING:
    from commonplace.testing.scripted_requests import Block, Conversation

MODEL = "scripted-claude"
THE_END = "[scripted Claude] The script ends here; a real model would go on."
CHARS_PER_TOKEN = 4  # a rule of thumb for English; usage is there to be shaped right, not to be right


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
    """One message of the assistant, before it has a form."""

    id: str
    blocks: tuple[Block, ...]
    stop_reason: str
    input_tokens: int
    output_tokens: int
    edits_context: bool = False

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
        if self.edits_context:
            message["context_management"] = {"applied_edits": []}
        return message

    def usage(self, output_tokens: int) -> dict[str, object]:
        """The usage of this reply, with so many tokens written."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }


def answer(scripts: Sequence[Script], conversation: Conversation, *, suffix: str, edits_context: bool = False) -> Reply:
    """The next reply in `conversation`, which the API would take; raises `PlayError`.

    First the results of the last turn meet its checks, then the next turn is said. After the script's end it
    is one closing text, so that no loop runs for ever. `suffix` makes the ids of the reply unique.
    """
    script = pick(scripts, conversation.opening)
    if script is None:
        opening = conversation.opening[:200]
        raise PlayError(Failure("none", 0, f"no script is for a conversation that opens with {opening!r}"))
    number = len(conversation.replies)
    if 0 < number <= len(script.turns):
        _check_turn(script, number, conversation)
    turn = script.turns[number] if number < len(script.turns) else Turn((THE_END,))
    _check_tools(script, number + 1, turn, conversation)
    blocks = tuple(_blocks(turn, suffix))
    return Reply(
        id=f"msg_scripted_{suffix}",
        blocks=blocks,
        stop_reason=turn.stop_reason or ("tool_use" if turn.calls else "end_turn"),
        input_tokens=rough_tokens(conversation),
        output_tokens=max(1, len(json.dumps(blocks)) // CHARS_PER_TOKEN),
        edits_context=edits_context,
    )


def rough_tokens(conversation: Conversation) -> int:
    """About how many tokens `conversation` is: its JSON, four characters to a token."""
    messages = [{"role": message.role, "content": message.blocks} for message in conversation.messages]
    chars = len(json.dumps([messages, conversation.system, conversation.tools]))
    return max(1, chars // CHARS_PER_TOKEN)


def result_of(block: Block) -> Result:
    """What a tool_result block says; blocks other than text show as `[type]`."""
    content = block.get("content")
    if isinstance(content, list):
        content = "".join(_shown(part) for part in content)
    return Result(content if isinstance(content, str) else "", block.get("is_error") is True)


def _shown(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"


def _check_turn(script: Script, number: int, conversation: Conversation) -> None:
    """Raise `PlayError` unless the last turn stands in the history as it was said, and its checks hold."""
    said, answered = conversation.messages[-2:]
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


def _check_tools(script: Script, number: int, turn: Turn, conversation: Conversation) -> None:
    """Raise `PlayError` if the turn calls a tool the request did not offer: no model could."""
    offered = [tool.get("name") for tool in conversation.tools]
    for call in turn.calls:
        if call.name not in offered:
            message = f"{_named(call)}: the request's tools are {offered}, and {call.name!r} is not among them"
            raise PlayError(Failure(script.name, number, message))


def _named(call: Call) -> str:
    return f"{call.name} {json.dumps(dict(call.input), ensure_ascii=False)[:500]}"


def _blocks(turn: Turn, suffix: str) -> list[Block]:
    blocks: list[Block] = []
    for n, block in enumerate(turn.blocks):
        if isinstance(block, str):
            blocks.append({"type": "text", "text": block})
        else:
            tool_use_id = f"toolu_scripted_{suffix}_{n}"
            blocks.append({"type": "tool_use", "id": tool_use_id, "name": block.name, "input": dict(block.input)})
    return blocks
