"""Context management: applies the context edits of a request to its prompt, in the order of the request.

No state is kept between requests: each contains the complete conversation, so each applies all edits again. Sources:
"Context editing", "Compaction".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from retentive.testing.scripted_claude.prompt import (
    COMPACTION,
    PLACEHOLDER,
    Block,
    Message,
    Prompt,
    as_blocks,
    merge_messages,
    messages_tokens,
)

CLEAR_TOOL_USES, CLEAR_THINKING, COMPACT = "clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"
THINKING = ("thinking", "redacted_thinking")
SUMMARY_CHARS = 2_000  # maximum length of each part of the default summary
Summarize: TypeAlias = Callable[[Prompt], str | None]


@dataclass(frozen=True, slots=True)
class Managed:
    """Prompt of a request after context management.

    `applied` has the entries of the response field `applied_edits`. If this request created a summary, `compaction` is
    its block, and `summarized_tokens` the size of the prompt that asked for it. `pauses` is True if the reply ends
    after the summary.
    """

    prompt: Prompt
    applied: tuple[Block, ...] = ()
    compaction: Block | None = None
    summarized_tokens: int = 0
    pauses: bool = False


def edits_of(body: Mapping[str, object]) -> tuple[Block, ...] | None:
    """Return the context edits of a request, in order. Returns None if it has no field `context_management`."""
    given = body.get("context_management")
    return as_blocks(given.get("edits")) if isinstance(given, Mapping) else None


def manage_context(prompt: Prompt, edits: Sequence[Block], summarize: Summarize | None) -> Managed:
    """Apply earlier compactions, and then the edits of the request. If `summarize` is None, none is compacted."""
    found = Managed(replace(prompt, messages=_after_compaction(prompt.messages)))
    for edit in edits:
        if edit["type"] == CLEAR_TOOL_USES:
            found = _tool_uses_cleared(found, edit)
        elif edit["type"] == CLEAR_THINKING:
            found = _thinking_cleared(found, edit)
        elif summarize is not None and found.prompt.input_tokens >= _value(edit.get("trigger"), 150_000):
            found = _compacted(found, edit, summarize)
    return found


def _tool_uses_cleared(found: Managed, edit: Block) -> Managed:
    """Replace the oldest tool results with placeholders if the prompt exceeds the trigger."""
    prompt, trigger = found.prompt, edit.get("trigger")
    uses = [use for message in prompt.messages for use in message.of_type("tool_use")]
    counts_uses = isinstance(trigger, Mapping) and trigger.get("type") == "tool_uses"
    size, limit = len(uses) if counts_uses else prompt.input_tokens, _value(trigger, 100_000)
    excluded, inputs = edit.get("exclude_tools"), edit.get("clear_tool_inputs")
    clearable = [use for use in uses if not (isinstance(excluded, list) and use["name"] in excluded)]
    old = clearable[: max(0, len(clearable) - _value(edit.get("keep"), 3))] if size > limit else []
    names = {use["id"]: use["name"] for use in old}

    def cleared(block: Block) -> Block:
        if block.get("type") == "tool_result" and block["tool_use_id"] in names:
            return {**block, "content": PLACEHOLDER}
        if block.get("type") == "tool_use" and block["id"] in names:
            clears_input = names[block["id"]] in inputs if isinstance(inputs, list) else inputs is True
            return {**block, "input": {}} if clears_input else block
        return block

    after = tuple(Message(each.role, tuple(map(cleared, each.blocks))) for each in prompt.messages)
    blocks = ([block for message in messages for block in message.blocks] for messages in (prompt.messages, after))
    changed = {new.get("id") or new["tool_use_id"] for old, new in zip(*blocks, strict=True) if old != new}
    # A result can be shorter than the placeholder. Then the messages become longer, and nothing is freed.
    freed = max(0, messages_tokens(prompt.messages) - messages_tokens(after))
    if changed and freed >= _value(edit.get("clear_at_least"), 0):
        return _applied(found, after, {"cleared_tool_uses": len(changed), "cleared_input_tokens": freed}, edit)
    return found


def _thinking_cleared(found: Managed, edit: Block) -> Managed:
    """Remove thinking from all but the newest turns that contain thinking. Tool results do not end a turn."""
    keep, messages = edit.get("keep"), found.prompt.messages
    if keep == "all" or (isinstance(keep, Mapping) and keep["type"] == "all"):
        return found
    turns: list[list[int]] = []
    ended = True
    for at, message in enumerate(messages):
        if message.role != "assistant":
            ended = len(message.of_type("tool_result")) < len(message.blocks)
        elif ended:
            turns.append([at])
            ended = False
        else:
            turns[-1].append(at)
    thoughtful = [turn for turn in turns if any(messages[at].of_type(*THINKING) for at in turn)]
    old = thoughtful[: max(0, len(thoughtful) - _value(keep, 1))]
    if not old:
        return found
    places = {at for turn in old for at in turn}
    kept = (
        Message(each.role, tuple(block for block in each.blocks if at not in places or block["type"] not in THINKING))
        for at, each in enumerate(messages)
    )
    after = merge_messages(each for each in kept if each.blocks)
    freed = messages_tokens(messages) - messages_tokens(after)
    return _applied(found, after, {"cleared_thinking_turns": len(old), "cleared_input_tokens": freed}, edit)


def _applied(found: Managed, messages: tuple[Message, ...], counts: Block, edit: Block) -> Managed:
    prompt = replace(found.prompt, messages=messages)
    return replace(found, prompt=prompt, applied=(*found.applied, {"type": edit["type"], **counts}))


def _compacted(found: Managed, edit: Block, summarize: Summarize) -> Managed:
    prompt = found.prompt
    summary = summarize(prompt)
    block = {"type": COMPACTION, "content": summary or None}
    if summary:
        prompt = replace(prompt, messages=(Message("assistant", (block,)),))
    pauses = bool(summary) and edit.get("pause_after_compaction") is True
    return replace(found, prompt=prompt, compaction=block, summarized_tokens=found.prompt.input_tokens, pauses=pauses)


def _after_compaction(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Drop everything before the last compaction block that has a summary, and compaction blocks without a summary."""
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
    return merge_messages(left)


def default_summary(prompt: Prompt) -> str:
    """Return the default summary: the earlier summary, the task, and the number of tool calls."""
    parts = [prompt.summary or f"Task: {prompt.opening}", f"{len(prompt.calls)} tool calls were made."]
    return "\n".join(part[:SUMMARY_CHARS] for part in parts)


def _value(amount: object, default: int) -> int:
    """Return the value in an object such as `{"type": "tool_uses", "value": 3}`, or `default` if there is none."""
    value = amount.get("value") if isinstance(amount, Mapping) else None
    return value if isinstance(value, int) else default
