"""`Prompt`: a request as the model would see it. Script functions get a `Prompt`. Also estimates numbers of tokens.

The estimates are deterministic, but this is not a real tokenizer: text counts as one token for each 4 bytes of UTF-8,
and JSON as one for each 3 bytes. For the content that the API adds to a prompt, the documented number is used, or a
guess if no number is documented.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

Block: TypeAlias = Mapping[str, object]
COMPACTION = "compaction"
PLACEHOLDER = "[tool result cleared]"  # text of a cleared result; the text that the API uses is not documented
TEXT_BYTES_PER_TOKEN = 4  # a rule of thumb for English
JSON_BYTES_PER_TOKEN = 3  # quotes, braces and keys are separate tokens
MESSAGE_TOKENS = 4  # role and delimiters of a message
CALL_TOKENS = 8  # markup around a tool call or a tool result
IMAGE_TOKENS = 1_600  # the largest image that is not scaled down. Source: Vision docs
DOCUMENT_TOKENS = 3_000  # one page, upper bound. Source: PDF support docs, 1,500-3,000 per page
TOOLS_TOKENS = 346  # the prompt the API adds for tools. Source: Tool use docs, "Pricing", tool_choice auto
TYPED_TOOL_TOKENS = 500  # a guess. The API adds the definition of a built-in tool to the prompt


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


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a tool call: the text and the flag `is_error` of its tool_result block."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Tool call in a prompt. `result` is None if the call has no result yet.

    `cleared` is True if context editing replaced the result with a placeholder.
    """

    name: str
    input: Mapping[str, object]
    result: Result | None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """Conversation as the model would see it, after clearing and compaction, with the system prompt and the tools.

    Consecutive messages of the same role are merged into one, as the API does.
    """

    messages: tuple[Message, ...]
    system: object = None
    tools: tuple[Block, ...] = ()

    @property
    def opening(self) -> str:
        """Text of the first user message. Empty if there is no user message."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def summary(self) -> str | None:
        """Summary of an earlier compaction. None if there was no compaction."""
        first = self.messages[0].blocks[0] if self.messages and self.messages[0].blocks else {}
        content = first.get("content") if first.get("type") == COMPACTION else None
        return content if isinstance(content, str) else None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools in the request."""
        return tuple(str(tool.get("name")) for tool in self.tools)

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """Tool calls in the prompt, in order, with their results."""
        blocks = [block for message in self.messages for block in message.blocks]
        results = {block.get("tool_use_id"): parse_result(block) for block in blocks if block["type"] == "tool_result"}
        found = []
        for use in (block for block in blocks if block["type"] == "tool_use"):
            given, result = use.get("input"), results.get(use.get("id"))
            cleared = result is not None and result.text == PLACEHOLDER
            found.append(ToolUse(str(use["name"]), given if isinstance(given, Mapping) else {}, result, cleared))
        return tuple(found)

    @property
    def text(self) -> str:
        """The whole prompt as JSON text, for assertions on its content."""
        messages = [[message.role, message.blocks] for message in self.messages]
        return json.dumps([self.system, self.tools, messages], ensure_ascii=False, default=dict)

    @property
    def input_tokens(self) -> int:
        """Estimated number of tokens of the system prompt, the tools and the messages. It is at least 1."""
        sizes = [_json_tokens(tool) if "input_schema" in tool else TYPED_TOOL_TOKENS for tool in self.tools]
        system = 0 if self.system is None else MESSAGE_TOKENS + _content_tokens(self.system)
        return max(1, system + (TOOLS_TOKENS + sum(sizes) if sizes else 0) + messages_tokens(self.messages))


def as_blocks(content: object) -> tuple[Block, ...]:
    """Return the content of a message as blocks. A string becomes one text block."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return tuple(block for block in content if isinstance(block, Mapping)) if isinstance(content, list) else ()


def merge_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Drop system messages, and merge consecutive messages of the same role."""
    kept = (message for message in messages if message.role != "system")
    return tuple(
        Message(role, tuple(block for message in group for block in message.blocks))
        for role, group in groupby(kept, key=lambda message: message.role)
    )


def parse_result(block: Block) -> Result:
    """Return the text and `is_error` of a tool_result block.

    Content that is not text is replaced by its type in brackets, such as `[image]`.
    """
    parts = as_blocks(block.get("content"))
    texts = (str(each.get("text", "")) if each.get("type") == "text" else f"[{each.get('type')}]" for each in parts)
    return Result("".join(texts), block.get("is_error") is True)


def signature(thinking: str) -> str:
    """Return the signature of a thinking block from this server. It is a hash of the text."""
    return f"scripted_{hashlib.sha256(thinking.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def messages_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated number of tokens of messages."""
    return sum(MESSAGE_TOKENS + sum(map(block_tokens, message.blocks)) for message in messages)


def block_tokens(block: Block) -> int:
    """Return the estimated number of tokens of a content block. The signature of thinking is not counted."""
    match block.get("type"):
        case "text" | "thinking" as kind:
            return _text_tokens(block.get(str(kind)))
        case "compaction":
            return _text_tokens(block.get("content"))
        case "tool_use":
            return CALL_TOKENS + _text_tokens(block.get("name")) + _json_tokens(block.get("input"))
        case "tool_result":
            return CALL_TOKENS + _content_tokens(block.get("content"))
        case "image":
            return IMAGE_TOKENS
        case "document":
            source = block.get("source")
            is_text = isinstance(source, Mapping) and source.get("type") == "text"
            return _text_tokens(source.get("data")) if is_text and isinstance(source, Mapping) else DOCUMENT_TOKENS
    return _json_tokens(block)


def _content_tokens(content: object) -> int:
    return _text_tokens(content) if isinstance(content, str) else sum(map(block_tokens, as_blocks(content)))


def _text_tokens(text: object) -> int:
    return -(-len(str(text or "").encode("utf-8", "surrogatepass")) // TEXT_BYTES_PER_TOKEN)


def _json_tokens(value: object) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "surrogatepass")) // JSON_BYTES_PER_TOKEN)
