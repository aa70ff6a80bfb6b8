"""Context management: applies the context edits of a request to its conversation, in the order of the request.

The functions keep no state between requests, because every request contains the complete conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from retentive.testing.scripted_claude.edits import (
    ClearThinkingEdit,
    ClearToolUsesEdit,
    CompactEdit,
    ContextEdit,
)
from retentive.testing.scripted_claude.messages import COMPACTION, Block, Conversation, Message, merge_messages
from retentive.testing.scripted_claude.prompt import Prompt
from retentive.testing.scripted_claude.tokens import block_tokens, prompt_tokens
from retentive.testing.scripted_claude.tool_clearing import (
    PLACEHOLDER,
    Cleared,
    clear_thinking,
    clear_tool_uses,
    measure,
)

SUMMARY_CHARS = 2_000  # maximum length of each part of the default summary
Summarize = Callable[[Prompt], str | None]
MEMORY = "memory"
WARN_AT = 0.8  # fraction of the trigger at which the prompt gets the warning. A guess: the docs give no number
WARNING = "The context is close to being cleared. Save anything you still need to memory now."


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """Summary that a request created, with its token usage. `pauses` is True if the reply ends after the summary."""

    block: Block
    input_tokens: int
    output_tokens: int
    pauses: bool


@dataclass(frozen=True, slots=True)
class Context:
    """Conversation after context management.

    `original_tokens` is the size of the prompt before the edits, and `tokens` the size after them. `applied` has the
    entries of the response field `applied_edits`. `compaction` is the summary, if this request created one.
    """

    conversation: Conversation
    tokens: int
    original_tokens: int
    applied: tuple[Block, ...] = ()
    warning: str | None = None
    compaction: CompactionSummary | None = None

    @property
    def prompts(self) -> tuple[int, ...]:
        """Sizes, in tokens, of the prompts that the model would get for this request.

        Without a compaction, there is one size. With a compaction, the first size is for the prompt that asks for the
        summary, and the second for the prompt of the reply. If the reply pauses after the summary, there is no second
        size.
        """
        summarized = (self.compaction.input_tokens,) if self.compaction else ()
        return summarized if self.compaction and self.compaction.pauses else (*summarized, self.tokens)

    def prompt(self, *, instructions: str | None = None) -> Prompt:
        """Return the prompt that a script function gets."""
        view = self.conversation
        return Prompt(view.messages, view.system, view.tools, self.tokens, self.warning, PLACEHOLDER, instructions)


def manage_context(
    conversation: Conversation, edits: tuple[ContextEdit, ...], *, summarize: Summarize | None
) -> Context:
    """Apply earlier compactions, and then the edits of the request. Returns the conversation after all edits.

    If `summarize` is None, edits of the type `CompactEdit` are skipped.
    """
    original = prompt_tokens(conversation)
    context = _with(Context(conversation, original, original), after_compaction(conversation.messages))
    for edit in edits:
        match edit:
            case ClearToolUsesEdit():
                context = _tool_uses_cleared(context, edit)
            case ClearThinkingEdit():
                context = _thinking_cleared(context, edit)
            case CompactEdit() if summarize is not None:
                context = _compacted(context, edit, summarize)
    return context


def _tool_uses_cleared(context: Context, edit: ClearToolUsesEdit) -> Context:
    messages = context.conversation.messages
    cleared = clear_tool_uses(messages, edit, size=context.tokens)
    share = measure(messages, edit, size=context.tokens) / edit.trigger
    warns = _warns(context.conversation, share, cleared=cleared.count > 0)
    context = replace(context, warning=WARNING if warns else context.warning)
    return _applied(context, cleared, "clear_tool_uses_20250919", "cleared_tool_uses")


def _thinking_cleared(context: Context, edit: ClearThinkingEdit) -> Context:
    cleared = clear_thinking(context.conversation.messages, None if edit.keep == "all" else edit.keep)
    return _applied(context, cleared, "clear_thinking_20251015", "cleared_thinking_turns")


def _applied(context: Context, cleared: Cleared, kind: str, what: str) -> Context:
    if not cleared.count:
        return context
    entry = {"type": kind, what: cleared.count, "cleared_input_tokens": cleared.tokens}
    return replace(_with(context, cleared.messages), applied=(*context.applied, entry))


def _compacted(context: Context, edit: CompactEdit, summarize: Summarize) -> Context:
    size = context.tokens
    if size < edit.trigger:
        return context
    summary = summarize(context.prompt(instructions=edit.instructions))
    failed = not summary
    block = {"type": COMPACTION, "content": summary or None}
    compaction = CompactionSummary(block, size, max(1, block_tokens(block)), edit.pause and not failed)
    if failed:
        return replace(context, compaction=compaction)
    return replace(_with(context, (Message("assistant", (block,)),)), compaction=compaction, warning=None)


def _warns(conversation: Conversation, share: float, *, cleared: bool) -> bool:
    """Return whether the prompt gets the warning that tool results will soon be cleared.

    `share` is the size of the prompt as a fraction of the trigger. Only requests with the memory tool get the warning.
    """
    remembers = any(tool.get("name") == MEMORY for tool in conversation.tools)
    return remembers and not cleared and share >= WARN_AT


def _with(context: Context, messages: tuple[Message, ...]) -> Context:
    """Replace the messages of the context, and count its tokens again."""
    if messages == context.conversation.messages:
        return context
    conversation = replace(context.conversation, messages=messages)
    return replace(context, conversation=conversation, tokens=prompt_tokens(conversation))


def after_compaction(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Drop the messages and blocks before the last compaction block that has a summary.

    Compaction blocks without a summary are dropped too.
    """
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
    """Return the default summary: the earlier summary, the task, the number of tool calls, and the latest texts."""
    parts = [
        prompt.summary or "",
        f"Task: {prompt.opening}" if prompt.opening else "",
        f"{len(prompt.calls)} tool calls were made.",
        *[f"Last: {message.text}" for message in prompt.messages[-2:] if message.text],
    ]
    return "\n".join(part[:SUMMARY_CHARS] for part in parts if part)
