"""Token estimates: deterministic and additive, but not a real tokenizer.

Text counts as one token for each 4 bytes of UTF-8, and JSON as one token for each 3 bytes. For content that the API
adds to the prompt, the number comes from the documentation if it is stated there, otherwise it is a guess. Real counts
differ by model, and differ most for non-Latin scripts.
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
TYPED_TOOL_TOKENS = 500  # a guess: the prompt contains the definition of a built-in tool, but the request does not
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would create an encoder for each block


def prompt_tokens(conversation: Conversation) -> int:
    """Count the tokens of a prompt: system prompt, tools and messages. At least 1."""
    fixed = system_tokens(conversation.system) + tools_tokens(conversation.tools)
    return max(1, fixed + messages_tokens(conversation.messages))


def messages_tokens(messages: Iterable[Message]) -> int:
    """Count the tokens of messages, without system prompt and tools."""
    return sum(MESSAGE_TOKENS + blocks_tokens(message.blocks) for message in messages)


def blocks_tokens(blocks: Iterable[Block]) -> int:
    """Count the tokens of content blocks."""
    return sum(block_tokens(block) for block in blocks)


def block_tokens(block: Block) -> int:
    """Count the tokens of a content block. Signatures count as 0, since they are not part of the prompt."""
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
    """Count the tokens of a system prompt, given as a string or as text blocks."""
    return 0 if system is None else MESSAGE_TOKENS + _content_tokens(system)


def tools_tokens(tools: Iterable[Block]) -> int:
    """Count the tokens of the tools and of the prompt that the API adds for tools. 0 if there are no tools."""
    sizes = [json_tokens(tool) if "input_schema" in tool else TYPED_TOOL_TOKENS for tool in tools]
    return TOOLS_TOKENS + sum(sizes) if sizes else 0


def text_tokens(text: str) -> int:
    """Count the tokens of plain text, rounded up. 0 for an empty text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // TEXT_BYTES_PER_TOKEN)


def json_tokens(value: object) -> int:
    """Count the tokens of a value serialized as JSON, rounded up."""
    return -(-len(_JSON.encode(value).encode("utf-8", "surrogatepass")) // JSON_BYTES_PER_TOKEN)


def _content_tokens(content: object) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if isinstance(content, list):
        return sum(block_tokens(part) for part in content if isinstance(part, Mapping))
    return 0
