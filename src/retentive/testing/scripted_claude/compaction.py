"""Compaction blocks: what they leave of a history, and the summary that stands where none was scripted.

Source: "Compaction". A block with a summary stands for everything before it; one without failed and stands for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retentive.testing.scripted_claude.messages import COMPACTION, Block, Message, merged

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.observations import Seen

SUMMARY_CHARS = 2_000  # of what was said last, in the default summary


def after_compaction(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What is left of `messages`: from the last compaction block on that has a summary."""
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
    return merged(left)


def compaction_block(summary: str | None) -> Block:
    """The block a compaction is answered with; without a summary it says that the compaction failed."""
    return {"type": COMPACTION, "content": summary or None}


def default_summary(seen: Seen) -> str:
    """A summary that no model wrote: an earlier one, the task, the number of tool calls, and the last words."""
    parts = [
        seen.summary or "",
        f"Task: {seen.opening}" if seen.opening else "",
        f"{len(seen.calls)} tool calls were made.",
        *[f"Last: {message.text}" for message in seen.messages[-2:] if message.text],
    ]
    return "\n".join(part[:SUMMARY_CHARS] for part in parts if part)
