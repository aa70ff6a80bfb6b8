"""Estimates numbers of tokens. The estimates are deterministic, but this is not a real tokenizer.

Text counts as one token for each 4 bytes of UTF-8, and JSON as one token for each 3 bytes. The API adds content of its
own to a prompt. For this content, the documented number of tokens is used, or a guess if no number is documented. The
real numbers depend on the model. The estimates are least accurate for texts in non-Latin writing systems.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from retentive.testing.scripted_claude.messages import Block, Conversation, Message

TEXT_BYTES_PER_TOKEN = 4  # a rule of thumb for English
JSON_BYTES_PER_TOKEN = 3  # quotes, braces and keys are separate tokens
MESSAGE_TOKENS = 4  # role and delimiters of a message
CALL_TOKENS = 8  # markup around a tool call or a tool result
IMAGE_TOKENS = 1_600  # the largest image that is not scaled down. Source: Vision docs
DOCUMENT_TOKENS = 3_000  # one page, upper bound. Source: PDF support docs, 1,500-3,000 per page
TOOLS_TOKENS = 346  # the prompt the API adds for tools. Source: Tool use docs, "Pricing", tool_choice auto
TYPED_TOOL_TOKENS = 500  # a guess. The API adds the definition of a built-in tool to the prompt
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would create an encoder for each block


def prompt_tokens(conversation: Conversation) -> int:
    """Return the number of tokens of a prompt: system prompt, tools and messages. It is at least 1."""
    fixed = system_tokens(conversation.system) + tools_tokens(conversation.tools)
    return max(1, fixed + messages_tokens(conversation.messages))


def messages_tokens(messages: Iterable[Message]) -> int:
    """Return the number of tokens of messages."""
    return sum(MESSAGE_TOKENS + blocks_tokens(message.blocks) for message in messages)


def blocks_tokens(blocks: Iterable[Block]) -> int:
    """Return the number of tokens of content blocks."""
    return sum(block_tokens(block) for block in blocks)


def block_tokens(block: Block) -> int:
    """Return the number of tokens of a content block. The signature of a thinking block is not counted."""
    match block.get("type"):
        case "text" | "thinking" as kind:
            return text_tokens(str(block.get(str(kind), "")))
        case "compaction":
            return text_tokens(str(block.get("content") or ""))
        case "tool_use":
            return CALL_TOKENS + text_tokens(str(block.get("name"))) + json_tokens(block.get("input"))
        case "tool_result":
            return CALL_TOKENS + _content_tokens(block.get("content"))
        case "image":
            return IMAGE_TOKENS
        case "document":
            source = block.get("source")
            if isinstance(source, Mapping) and source.get("type") == "text":
                return text_tokens(str(source.get("data", "")))
            return DOCUMENT_TOKENS
        case _:
            return json_tokens(block)


def system_tokens(system: object) -> int:
    """Return the number of tokens of a system prompt, which is a string or a list of text blocks."""
    return 0 if system is None else MESSAGE_TOKENS + _content_tokens(system)


def tools_tokens(tools: Iterable[Block]) -> int:
    """Return the number of tokens of the tools.

    If there are tools, the API adds a text to the prompt. The tokens of this text are included.
    """
    sizes = [json_tokens(tool) if "input_schema" in tool else TYPED_TOOL_TOKENS for tool in tools]
    return TOOLS_TOKENS + sum(sizes) if sizes else 0


def text_tokens(text: str) -> int:
    """Return the number of tokens of a plain text, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // TEXT_BYTES_PER_TOKEN)


def json_tokens(value: object) -> int:
    """Return the number of tokens of a value serialized as JSON, rounded up."""
    return -(-len(_JSON.encode(value).encode("utf-8", "surrogatepass")) // JSON_BYTES_PER_TOKEN)


def _content_tokens(content: object) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if isinstance(content, list):
        return sum(block_tokens(part) for part in content if isinstance(part, Mapping))
    return 0
