"""Repairs the messages of a request so that the API accepts them. The saved messages are not changed.

Each rule quotes the error of the API for a request that breaks the rule:

- Content before the newest summary is left out: "all content blocks prior to the compaction block will be ignored".
- Blank text blocks are left out: "text content blocks must be non-empty".
- Messages without content are left out: "all messages must have non-empty content".
- An error result without text gets a text: "content cannot be empty if `is_error` is true".
- A result without its call, and a second result for a call, are left out: "unexpected `tool_use_id` found in
  `tool_result` blocks", "each tool_use must have a single result".
- Results come first in their message, and messages of the user in a row are one: "`tool_use` ids were found without
  `tool_result` blocks immediately after".
- A call without a result gets an error result. The API reports the same error as in the previous rule.
- Thinking at the end of a response is left out: "The final block in an assistant message cannot be `thinking`".
- A call of a server tool is left out if it has no result and its turn has ended. The API would have sent the result in
  that turn. The error is "`web_search` tool use with id ... was found without a corresponding `web_search_tool_result`
  block". A pause does not end a turn, and neither do results of the client's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retentive.agent.conversation import MessageDict, blocks_of, is_blank, tool_result, without_server_calls

THINKING = ("thinking", "redacted_thinking")
UNKNOWN_OUTCOME = "Error: It is not known whether this call ran. Check before you make it again."


def sendable(messages: Sequence[Mapping[str, Any]]) -> list[MessageDict]:
    """Return a repaired copy of the messages. Messages before the newest summary are left out."""
    sent: list[MessageDict] = []
    messages = _since_compaction(messages)
    turn_start = 0  # position of the newest user message that has content other than tool results
    for at, message in enumerate(messages):
        if message["role"] == "user" and any(block.get("type") != "tool_result" for block in blocks_of(message)):
            turn_start = at
    for at, message in enumerate(messages):
        blocks = [block for block in blocks_of(message) if not is_blank(block)]
        if message["role"] == "assistant":
            if at < turn_start:  # the turn of this response has ended
                blocks = without_server_calls(blocks, messages[at + 1 :])
            _answer_calls(sent)
        else:
            if sent and sent[-1]["role"] == message["role"]:  # the API takes both for one message
                blocks = [*sent.pop()["content"], *blocks]
            blocks = _results_first(blocks, sent)
            if blocks:
                _leave_out_final_thinking(sent)
        if blocks:
            sent.append({**message, "content": blocks})
    _answer_calls(sent)
    return sent


def _since_compaction(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the messages from the newest summary on, because the API ignores all content before it."""
    for at in range(len(messages) - 1, -1, -1):
        blocks = blocks_of(messages[at]) if messages[at]["role"] == "assistant" else []
        for start in range(len(blocks) - 1, -1, -1):
            if blocks[start].get("type") == "compaction" and blocks[start].get("content"):
                return [{**messages[at], "content": blocks[start:]}, *messages[at + 1 :]]
    return messages


def _results_first(blocks: Sequence[MessageDict], sent: Sequence[MessageDict]) -> list[MessageDict]:
    """Order the blocks of a user message: one result for each call in Claude's last response, then all other blocks."""
    open_ids = {call["id"] for call in _open_calls(sent)}
    results: dict[str, MessageDict] = {}
    for block in blocks:
        call_id = str(block.get("tool_use_id"))
        if block.get("type") == "tool_result" and call_id in open_ids and call_id not in results:
            mended = tool_result(call_id, block.get("content"), is_error=block.get("is_error") is True)
            results[call_id] = {**block, **mended}
    return [*results.values(), *(block for block in blocks if block.get("type") != "tool_result")]


def _leave_out_final_thinking(sent: list[MessageDict]) -> None:
    """Remove thinking from the end of the last response. A response ends with thinking if it was truncated."""
    while sent and sent[-1]["role"] == "assistant" and sent[-1]["content"][-1].get("type") in THINKING:
        last = sent.pop()
        if len(last["content"]) > 1:
            sent.append({**last, "content": last["content"][:-1]})


def _answer_calls(sent: list[MessageDict]) -> None:
    """If a tool call in the last response has no result, add an error result for the call."""
    missing = [tool_result(call["id"], UNKNOWN_OUTCOME, is_error=True) for call in _open_calls(sent)]
    if not missing:
        return
    at = next(at for at in range(len(sent) - 1, -1, -1) if sent[at]["role"] == "assistant")
    after = sent[at + 1] if at + 1 < len(sent) else None
    if after is None:
        _leave_out_final_thinking(sent)
        sent.append({"role": "user", "content": missing})
    else:
        sent[at + 1] = {**after, "content": [*missing, *after["content"]]}


def _open_calls(sent: Sequence[MessageDict]) -> list[MessageDict]:
    after: list[MessageDict] = []
    for message in reversed(sent):
        if message["role"] == "assistant":
            answered = {block.get("tool_use_id") for block in after if block.get("type") == "tool_result"}
            calls = [block for block in message["content"] if block.get("type") == "tool_use"]
            return [call for call in calls if call["id"] not in answered]
        after += message["content"]
    return []
