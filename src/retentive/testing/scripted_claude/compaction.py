"""Compaction blocks: their effect on the history, and the default summary.

Source: "Compaction". A block with a summary replaces everything before it. A block without one marks a failed
compaction and has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retentive.testing.scripted_claude.messages import COMPACTION, Block, Message, merge_messages

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.prompt import Prompt

SUMMARY_CHARS = 2_000  # per part of the default summary


def after_compaction(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages from the last compaction block with a summary onwards."""
    left: list[Message] = []
    for message in messages:
        blocks: tuple[Block, ...] = ()
        for block in message.blocks:
            if block.get("type") != COMPACTION:
                blocks = (*blocks, block)
            elif block.get("content"):
                left, blocks = [], (block,)
        if blocks:
            left.append(Message(message.role, blocks))
    return merge_messages(left)


def compaction_block(summary: str | None) -> Block:
    """Build a compaction block. None or an empty summary marks a failed compaction."""
    return {"type": COMPACTION, "content": summary or None}


def default_summary(prompt: Prompt) -> str:
    """Build the default summary: the earlier summary, the task, the number of tool calls and the last texts."""
    parts = [
        prompt.summary or "",
        f"Task: {prompt.opening}" if prompt.opening else "",
        f"{len(prompt.calls)} tool calls were made.",
        *[f"Last: {message.text}" for message in prompt.messages[-2:] if message.text],
    ]
    return "\n".join(part[:SUMMARY_CHARS] for part in parts if part)
