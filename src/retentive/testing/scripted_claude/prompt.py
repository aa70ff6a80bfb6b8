"""`Prompt`: a request as the model would see it. Script functions get a `Prompt`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from retentive.testing.scripted_claude.messages import COMPACTION, Block, Conversation


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
class Prompt(Conversation):
    """Conversation as the model would see it, after clearing and compaction.

    `input_tokens` is the size of the prompt. `warning` is the text that warns the model that tool results will soon be
    cleared, or None if there is no warning. `placeholder` is the text that replaces a cleared tool result.
    `instructions` is the request's own prompt for the summary. It is None if the request has no such prompt. It
    is also None in every `Prompt` that is not for `summarize`.
    """

    input_tokens: int
    warning: str | None = None
    placeholder: str = ""
    instructions: str | None = None

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
        results = {str(b.get("tool_use_id")): parse_result(b) for b in blocks if b.get("type") == "tool_result"}
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        return tuple(self._call(use, results.get(str(use.get("id")))) for use in uses)

    @property
    def text(self) -> str:
        """The whole prompt as JSON text, for assertions on its content."""
        messages = [[message.role, message.blocks] for message in self.messages]
        return json.dumps([self.system, self.tools, messages, self.warning], ensure_ascii=False, default=dict)

    def _call(self, use: Block, result: Result | None) -> ToolUse:
        input_ = use.get("input")
        cleared = result is not None and result.text == self.placeholder
        return ToolUse(str(use.get("name")), input_ if isinstance(input_, Mapping) else {}, result, cleared)


def parse_result(block: Block) -> Result:
    """Return the text and `is_error` of a tool_result block.

    Content that is not text is replaced by its type in brackets, such as `[image]`.
    """
    content = block.get("content")
    if isinstance(content, list):
        content = "".join(_part_text(part) for part in content)
    return Result(content if isinstance(content, str) else "", block.get("is_error") is True)


def _part_text(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"
