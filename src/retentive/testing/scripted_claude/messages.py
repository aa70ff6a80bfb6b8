"""Messages and conversations as immutable values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

Block = Mapping[str, object]
COMPACTION = "compaction"
THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a conversation. String content is converted to one text block."""

    role: str
    blocks: tuple[Block, ...]

    def of_type(self, *kinds: str) -> tuple[Block, ...]:
        """Return the blocks of these types, in order."""
        return tuple(block for block in self.blocks if block.get("type") in kinds)

    @property
    def text(self) -> str:
        """Texts of the text blocks, joined by newlines."""
        return "\n".join(str(block.get("text", "")) for block in self.of_type("text"))

    @property
    def only_compacts(self) -> bool:
        """True if the message contains only compaction blocks, like a reply that pauses after a compaction."""
        return self.role == "assistant" and len(self.of_type(COMPACTION)) == len(self.blocks)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All messages of a conversation, with the system prompt and the tools.

    Consecutive messages of the same role are merged into one, as the API does.
    """

    messages: tuple[Message, ...]
    system: object
    tools: tuple[Block, ...]

    @property
    def opening(self) -> str:
        """Text of the first user message. Empty if there is no user message."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def replies(self) -> tuple[Message, ...]:
        """Messages of the assistant, except those that contain only compaction blocks."""
        return tuple(m for m in self.messages if m.role == "assistant" and not m.only_compacts)


def as_blocks(content: object) -> tuple[Block, ...]:
    """Return the content of a message as blocks. A string becomes one text block."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return tuple(block for block in content if isinstance(block, Mapping)) if isinstance(content, list) else ()


def signature(thinking: str) -> str:
    """Return the signature of a thinking block from this server. It is a hash of the text."""
    return f"scripted_{hashlib.sha256(thinking.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def merge_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Drop system messages, and merge consecutive messages of the same role."""
    kept = (message for message in messages if message.role != "system")
    return tuple(
        Message(role, tuple(block for message in group for block in message.blocks))
        for role, group in groupby(kept, key=lambda message: message.role)
    )
