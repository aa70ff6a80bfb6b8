"""Histories that hypothesis makes up: texts, thinking, tools, compactions; and how to read them in a test."""

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
    """A conversation the API would take, ended by the user, with results of tools of three names."""
    numbers = count()
    messages = [_user(draw)]
    for _ in range(draw(st.integers(0, 6))):
        said = _said(draw, numbers, compacted=compacted)
        asked = [block["id"] for block in said if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use_id, "content": draw(TEXTS)} for use_id in asked]
        extra = [{"type": "text", "text": draw(TEXTS)}] if not asked or draw(st.booleans()) else []
        messages += [Message("assistant", tuple(said)), Message("user", (*results, *extra))]
    return merge_messages(messages)


def _user(draw: Any) -> Message:
    return Message("user", ({"type": "text", "text": draw(TEXTS)},))


def _said(draw: Any, numbers: Any, *, compacted: bool) -> list[dict[str, Any]]:
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
    """The content of every result, by the id of its call."""
    return {str(block["tool_use_id"]): block["content"] for block in blocks_of(messages, "tool_result")}


def size(messages: tuple[Message, ...]) -> int:
    return messages_tokens(messages)
