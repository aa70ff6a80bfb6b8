"""The messages of a request: those of the conversation, without what the API ignores or refuses there.

The conversation is otherwise valid, because the agent records it so. Each rule quotes the API:

- Content before the newest summary: "all content blocks prior to the compaction block will be ignored".
- Thinking at the end of a response: "The final block in an assistant message cannot be `thinking`".
- A call of a server tool that has no result when its turn has ended: "`web_search` tool use with id ... was found
  without a corresponding `web_search_tool_result` block". A pause does not end a turn, and neither do results of the
  client's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retentive.agent.conversation import MessageDict, blocks_of, without_server_calls

THINKING = ("thinking", "redacted_thinking")


def sendable(messages: Sequence[Mapping[str, Any]]) -> list[MessageDict]:
    """Return the messages to send. Those before the newest summary are left out."""
    messages = _since_compaction(messages)
    sent: list[MessageDict] = []
    role, has_ended = "", False  # the role of the next message, and whether a later one ends the turn
    for at in range(len(messages) - 1, -1, -1):
        blocks = blocks_of(messages[at])
        if messages[at]["role"] == "assistant":
            blocks = without_server_calls(blocks, messages[at + 1 :]) if has_ended else blocks
            while role == "user" and blocks and blocks[-1].get("type") in THINKING:  # the response was truncated
                blocks.pop()
        elif messages[at]["role"] == "user":
            has_ended = has_ended or any(block.get("type") != "tool_result" for block in blocks)
        if blocks:
            sent.append({**messages[at], "content": blocks})
            role = messages[at]["role"]
    return sent[::-1]


def _since_compaction(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for at in range(len(messages) - 1, -1, -1):
        blocks = blocks_of(messages[at]) if messages[at]["role"] == "assistant" else []
        for start in range(len(blocks) - 1, -1, -1):
            if blocks[start].get("type") == "compaction" and blocks[start].get("content"):
                return [{**messages[at], "content": blocks[start:]}, *messages[at + 1 :]]
    return messages
