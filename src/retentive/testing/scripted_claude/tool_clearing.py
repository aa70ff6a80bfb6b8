"""Clears tool uses and thinking in messages. The functions are pure.

Every request contains the complete conversation, so each request applies all edits again. Source: "Context editing".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from retentive.testing.scripted_claude.edits import ClearToolUsesEdit
from retentive.testing.scripted_claude.messages import THINKING, Block, Message, merge_messages
from retentive.testing.scripted_claude.tokens import messages_tokens

PLACEHOLDER = "[tool result cleared]"  # text of a cleared result; the text that the API uses is not documented


@dataclass(frozen=True, slots=True)
class Cleared:
    """Messages after an edit.

    `count` is the number of cleared tool uses, or of turns with cleared thinking. `tokens` is the number of tokens by
    which the messages became shorter.
    """

    messages: tuple[Message, ...]
    count: int = 0
    tokens: int = 0


def clear_tool_uses(messages: tuple[Message, ...], edit: ClearToolUsesEdit, *, size: int) -> Cleared:
    """Replace the oldest tool results with placeholders if the prompt exceeds the trigger.

    `size` is the size of the prompt in tokens. Nothing is cleared if fewer than `clear_at_least` tokens would be freed.
    """
    if measure(messages, edit, size=size) <= edit.trigger:
        return Cleared(messages)
    selected = _selected_uses(messages, edit)
    after = tuple(
        Message(message.role, tuple(_clear_block(block, selected, edit) for block in message.blocks))
        for message in messages
    )
    changed = {_use_id(new) for old, new in zip(_blocks(messages), _blocks(after), strict=True) if old != new}
    # A result can be shorter than the placeholder. Then the messages become longer, and the difference is negative.
    tokens = max(0, messages_tokens(messages) - messages_tokens(after))
    if not changed or tokens < edit.clear_at_least:
        return Cleared(messages)
    return Cleared(after, len(changed), tokens)


def measure(messages: tuple[Message, ...], edit: ClearToolUsesEdit, *, size: int) -> int:
    """Return the value that is compared with the trigger: `size` in tokens, or the number of tool uses."""
    if edit.unit == "input_tokens":
        return size
    return len(_tool_uses(messages))


def clear_thinking(messages: tuple[Message, ...], keep: int | None) -> Cleared:
    """Remove thinking from all but the newest `keep` turns that contain thinking.

    If `keep` is None, nothing is removed.
    """
    turns = [turn for turn in _turns(messages) if any(messages[n].of_type(*THINKING) for n in turn)]
    old = turns[: max(0, len(turns) - keep)] if keep is not None else []
    positions = set(chain.from_iterable(old))
    if not positions:
        return Cleared(messages)
    kept = [_without_thinking(message) if n in positions else message for n, message in enumerate(messages)]
    after = merge_messages(message for message in kept if message.blocks)
    return Cleared(after, len(old), messages_tokens(messages) - messages_tokens(after))


def _selected_uses(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> dict[str, str]:
    """Return the tool uses to clear, as a map from the id of each use to the name of its tool.

    All tool uses except the newest `keep` are cleared.
    """
    uses = [(str(use.get("id")), str(use.get("name"))) for use in _tool_uses(messages)]
    clearable = [use for use in uses if use[1] not in edit.exclude_tools]
    return dict(clearable[: max(0, len(clearable) - edit.keep)])


def _clear_block(block: Block, selected: dict[str, str], edit: ClearToolUsesEdit) -> Block:
    use_id = _use_id(block)
    if use_id not in selected:
        return block
    if block.get("type") == "tool_result":
        return {**block, "content": PLACEHOLDER}
    clears = edit.clear_inputs if isinstance(edit.clear_inputs, bool) else selected[use_id] in edit.clear_inputs
    return {**block, "input": {}} if clears else block


def _turns(messages: tuple[Message, ...]) -> list[list[int]]:
    """Return the positions of the assistant messages of each turn.

    A user message ends a turn, unless it contains only tool results.
    """
    turns: list[list[int]] = []
    ended = True
    for n, message in enumerate(messages):
        if message.role != "assistant":
            ended = len(message.of_type("tool_result")) < len(message.blocks)
        elif ended or not turns:
            turns.append([n])
            ended = False
        else:
            turns[-1].append(n)
    return turns


def _without_thinking(message: Message) -> Message:
    return Message(message.role, tuple(block for block in message.blocks if block.get("type") not in THINKING))


def _tool_uses(messages: tuple[Message, ...]) -> list[Block]:
    return [block for block in _blocks(messages) if block.get("type") == "tool_use"]


def _use_id(block: Block) -> str | None:
    name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
    return str(block.get(name)) if name else None


def _blocks(messages: tuple[Message, ...]) -> list[Block]:
    return [block for message in messages for block in message.blocks]
