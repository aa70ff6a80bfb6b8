"""What goes into a conversation: what the user says, what an application goes on with, what is kept of a reply.

All of it is JSON that can be sent at any moment. A text that no request can carry (a lone surrogate, nothing but white
space) would be refused with every later request too, so none gets in: from an application it is an `InvalidInput`,
from a model it is mended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.agent.applied import part
from retentive.agent.characters import check_text, mended
from retentive.agent.errors import ApiFailed
from retentive.errors import InvalidInput

UNREADABLE = "the API sent what cannot be read; run() without a message tries again"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply of the API that could be read: its blocks as JSON with whole characters, and why it ended.

    `reply` is what came, for its usage and edits.
    """

    reply: object
    blocks: tuple[Message, ...]
    stop: str

    @property
    def calls(self) -> tuple[Message, ...]:
        """The calls of tools that run here."""
        return tuple(block for block in self.blocks if block["type"] == "tool_use")

    @property
    def text(self) -> str:
        """The texts, a blank line between blocks."""
        return "\n\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def kept(self) -> list[Message]:
        """The blocks that may be sent back: the API takes no text without a word in it, though models write some."""
        return [block for block in self.blocks if block["type"] != "text" or block["text"].strip()]


def heard(reply: object) -> Heard:
    """A reply as it is understood here. Raises `ApiFailed` where it is none."""
    content, stop = part(reply, "content"), part(reply, "stop_reason")
    if not isinstance(content, list | tuple) or not isinstance(stop, str):
        raise ApiFailed(UNREADABLE)
    blocks = tuple(mended(plain(block)) for block in content)
    if not all(_is_readable(block) for block in blocks):
        raise ApiFailed(UNREADABLE)
    return Heard(reply, blocks, stop)


def user_message(said: object) -> Message:
    """A message of the user. Raises `InvalidInput` for what the API would not take, or not as JSON."""
    if isinstance(said, str):
        content: list[Any] = [{"type": "text", "text": said}]
    elif isinstance(said, Sequence) and not isinstance(said, bytes | bytearray):
        content = [plain(block) for block in said]
    else:
        raise InvalidInput("a message must be a text or a list of content blocks")
    if not content or said == "":
        raise InvalidInput("a message must not be empty; run() without one goes on where the conversation stands")
    _check_content(content, "a message")
    return {"role": "user", "content": content}


def given_messages(messages: object) -> list[Message]:
    """The conversation an application goes on with. Raises `InvalidInput` for what is none."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInput("messages must be a list of messages, as `agent.messages` is")
    listed: list[Any] = list(messages)
    for n, message in enumerate(listed):
        where = f"messages[{n}]"
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant", "system"):
            raise InvalidInput(f"{where} must be an object with a role, user or assistant, and content")
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list | tuple) or not content:
            raise InvalidInput(f"{where}: content must be a text or a list of content blocks, and not empty")
        _check_content([plain(block) for block in content], where)
    return [dict(message) for message in listed]


def plain(block: object) -> Any:
    """A block as a dict that can be saved as JSON and sent back as it came."""
    dump = getattr(block, "model_dump", None)
    if dump is None:
        return block
    # As the SDK itself sends a block back: what the API did not set stays unset.
    excluded = getattr(block, "__api_exclude__", None)
    return dump(mode="json", by_alias=True, exclude_unset=True, exclude=excluded, warnings=False)


def _is_readable(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    needed = {"text": ("type", "text"), "tool_use": ("type", "id", "name")}.get(str(block.get("type")), ("type",))
    return all(isinstance(block.get(name), str) for name in needed)


def _check_content(content: Sequence[Any], where: str) -> None:
    for block in content:
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise InvalidInput(f"{where}: each content block must be an object with a type")
        if block["type"] == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
            raise InvalidInput(f"{where}: a text must not be blank, the API takes none without a word in it")
    try:
        written = json.dumps(list(content), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"{where} must be JSON") from None
    check_text(where, written)
