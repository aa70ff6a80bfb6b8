"""Hypothesis strategies for conversations with texts, thinking, tools and compactions, and functions that read them."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

from retentive.testing.scripted_claude.messages import Block, Message, merge_messages
from retentive.testing.scripted_claude.tokens import messages_tokens

NAMES = ("memory", "read", "edit")
TEXTS = st.text(max_size=40)


@st.composite
def histories(draw: Any, *, compacted: bool = False) -> tuple[Message, ...]:
    """A valid conversation that ends with a user message. It may contain calls of three tools and their results."""
    numbers = count()
    messages = [_user(draw)]
    for _ in range(draw(st.integers(0, 6))):
        reply = _reply_blocks(draw, numbers, compacted=compacted)
        call_ids = [block["id"] for block in reply if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use_id, "content": draw(TEXTS)} for use_id in call_ids]
        extra = [{"type": "text", "text": draw(TEXTS)}] if not call_ids or draw(st.booleans()) else []
        messages += [Message("assistant", tuple(reply)), Message("user", (*results, *extra))]
    return merge_messages(messages)


def _user(draw: Any) -> Message:
    return Message("user", ({"type": "text", "text": draw(TEXTS)},))


def _reply_blocks(draw: Any, numbers: Any, *, compacted: bool) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if compacted and draw(st.integers(0, 3)) == 0:
        blocks.append({"type": "compaction", "content": draw(st.none() | st.text(min_size=1, max_size=50))})
    if draw(st.booleans()):
        blocks.append({"type": "thinking", "thinking": draw(TEXTS), "signature": "s"})
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        number = next(numbers)
        blocks.append({"type": "tool_use", "id": f"t{number}", "name": name, "input": {"n": number, "text": "x" * 30}})
    return blocks or [{"type": "text", "text": "Well."}]


def blocks_of(messages: tuple[Message, ...], *kinds: str) -> list[Block]:
    return [block for message in messages for block in message.of_type(*kinds)]


def results_of(messages: tuple[Message, ...]) -> dict[str, object]:
    """Return the content of every tool result, by the id of its call."""
    return {str(block["tool_use_id"]): block["content"] for block in blocks_of(messages, "tool_result")}


def size(messages: tuple[Message, ...]) -> int:
    return messages_tokens(messages)
