"""How many tokens a prompt is, estimated: the same prompt is always the same number, and parts add up.

It is no tokenizer. Text is counted as 4 bytes of UTF-8 to a token and JSON, which is denser, as 3; what is not in the
request but in the prompt has the number the documentation gives, or a guess where it gives none. Real counts differ by
model, and by more for scripts other than Latin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.messages import Block, Conversation, Message

TEXT_BYTES_PER_TOKEN = 4  # a rule of thumb for English
JSON_BYTES_PER_TOKEN = 3  # quotes, braces and keys are tokens of their own
MESSAGE_TOKENS = 4  # the role, and where a message begins and ends
CALL_TOKENS = 8  # what stands around the name and the input of a call; also around a result
IMAGE_TOKENS = 1_600  # of the largest image that is not scaled down. Source: Vision docs
DOCUMENT_TOKENS = 3_000  # one page at the upper end. Source: PDF support docs, 1,500-3,000 a page
TOOLS_TOKENS = 346  # the prompt the API adds for tools. Source: Tool use docs, "Pricing", tool_choice auto
TYPED_TOOL_TOKENS = 500  # a tool that the API defines itself is in the prompt, but not in the request: a guess
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would make a new one for each block


def prompt_tokens(conversation: Conversation) -> int:
    """The tokens of everything the model reads: system prompt, tools and messages; at least 1."""
    fixed = system_tokens(conversation.system) + tools_tokens(conversation.tools)
    return max(1, fixed + messages_tokens(conversation.messages))


def messages_tokens(messages: Iterable[Message]) -> int:
    """The tokens of `messages`, without system prompt and tools."""
    return sum(MESSAGE_TOKENS + blocks_tokens(message.blocks) for message in messages)


def blocks_tokens(blocks: Iterable[Block]) -> int:
    """The tokens of content blocks, whoever wrote them."""
    return sum(block_tokens(block) for block in blocks)


def block_tokens(block: Block) -> int:
    """The tokens of one content block. Signatures are not read by a model and count nothing."""
    match block.get("type"):
        case "text":
            return text_tokens(str(block.get("text", "")))
        case "thinking":
            return text_tokens(str(block.get("thinking", "")))
        case "compaction":
            return text_tokens(str(block.get("content") or ""))
        case "tool_use":
            return CALL_TOKENS + text_tokens(str(block.get("name"))) + json_tokens(block.get("input"))
        case "tool_result":
            return CALL_TOKENS + _content_tokens(block.get("content"))
        case "image":
            return IMAGE_TOKENS
        case "document":
            return _document_tokens(block.get("source"))
        case _:
            return json_tokens(block)


def system_tokens(system: object) -> int:
    """The tokens of a system prompt: a text or text blocks."""
    return 0 if system is None else MESSAGE_TOKENS + _content_tokens(system)


def tools_tokens(tools: Iterable[Block]) -> int:
    """The tokens of the tools and of what the API says about them; 0 without tools."""
    sizes = [json_tokens(tool) if "input_schema" in tool else TYPED_TOOL_TOKENS for tool in tools]
    return TOOLS_TOKENS + sum(sizes) if sizes else 0


def text_tokens(text: str) -> int:
    """The tokens of plain text, rounded up; 0 for none."""
    return _rounded_up(len(text.encode("utf-8", "surrogatepass")), TEXT_BYTES_PER_TOKEN)


def json_tokens(value: object) -> int:
    """The tokens of a value in its JSON form, rounded up."""
    data = _JSON.encode(value).encode("utf-8", "surrogatepass")
    return _rounded_up(len(data), JSON_BYTES_PER_TOKEN)


def _content_tokens(content: object) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if isinstance(content, list):
        return sum(block_tokens(part) for part in content if isinstance(part, Mapping))
    return 0


def _document_tokens(source: object) -> int:
    if isinstance(source, Mapping) and source.get("type") == "text":
        return text_tokens(str(source.get("data", "")))
    return DOCUMENT_TOKENS


def _rounded_up(count: int, divisor: int) -> int:
    return -(-count // divisor)
