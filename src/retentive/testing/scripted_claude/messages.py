"""Messages and conversations as values, of which every part of the scripted Claude reads the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Block = Mapping[str, object]
COMPACTION = "compaction"
THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; a plain string as content has become one text block."""

    role: str
    blocks: tuple[Block, ...]

    def of_type(self, *kinds: str) -> tuple[Block, ...]:
        """The blocks of these types, in order."""
        return tuple(block for block in self.blocks if block.get("type") in kinds)

    @property
    def text(self) -> str:
        """Its text blocks, a line each."""
        return "\n".join(str(block.get("text", "")) for block in self.of_type("text"))

    @property
    def only_compacts(self) -> bool:
        """Whether it is what a paused compaction leaves: compaction blocks and nothing else."""
        return self.role == "assistant" and len(self.of_type(COMPACTION)) == len(self.blocks)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole history, whoever held it, with the system prompt and the tools.

    Messages of one role in a row are one message, as in the API.
    """

    messages: tuple[Message, ...]
    system: object
    tools: tuple[Block, ...]

    @property
    def opening(self) -> str:
        """The text of the first user message; empty where there is none any more."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def replies(self) -> tuple[Message, ...]:
        """What the assistant has said so far; a paused compaction is not said."""
        return tuple(m for m in self.messages if m.role == "assistant" and not m.only_compacts)


def merged(messages: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` with those of one role in a row as one; mid-conversation system messages are left out."""
    turns: list[Message] = []
    for message in messages:
        if message.role == "system":
            continue
        if turns and turns[-1].role == message.role:
            turns[-1] = Message(message.role, (*turns[-1].blocks, *message.blocks))
        else:
            turns.append(message)
    return tuple(turns)
