"""What a script that is a function gets: the request as the model sees it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retentive.testing.scripted_claude.messages import COMPACTION
from retentive.testing.scripted_claude.script import Result

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.messages import Block, Message


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One tool call of the conversation with what came back; `cleared` if that is a placeholder by now."""

    name: str
    input: Mapping[str, object]
    result: Result | None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """One request after clearing and compaction.

    `input_tokens` is the counted size of just this. `warning` is what the API tells Claude when the context is
    close to being cleared, else None. `instructions` is there for a summary only: the request's own prompt for it.
    """

    messages: tuple[Message, ...]
    system: object
    tools: tuple[Block, ...]
    input_tokens: int
    warning: str | None = None
    placeholder: str = ""
    instructions: str | None = None

    @property
    def opening(self) -> str:
        """The text of the first user message that is left; empty if none is."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def summary(self) -> str | None:
        """What an earlier compaction left, if there was one."""
        first = self.messages[0].blocks[0] if self.messages and self.messages[0].blocks else {}
        content = first.get("content") if first.get("type") == COMPACTION else None
        return content if isinstance(content, str) else None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools it may call."""
        return tuple(str(tool.get("name")) for tool in self.tools)

    @property
    def calls(self) -> tuple[SeenCall, ...]:
        """Every tool call that is left, in order, with its result."""
        blocks = [block for message in self.messages for block in message.blocks]
        results = {str(b.get("tool_use_id")): result_of(b) for b in blocks if b.get("type") == "tool_result"}
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        return tuple(self._call(use, results.get(str(use.get("id")))) for use in uses)

    @property
    def text(self) -> str:
        """All of it in one text, as JSON: what does not occur here, the script cannot know from this request."""
        messages = [[message.role, message.blocks] for message in self.messages]
        return json.dumps([self.system, self.tools, messages, self.warning], ensure_ascii=False, default=dict)

    def _call(self, use: Block, result: Result | None) -> SeenCall:
        given = use.get("input")
        cleared = result is not None and result.text == self.placeholder
        return SeenCall(str(use.get("name")), given if isinstance(given, Mapping) else {}, result, cleared)


def result_of(block: Block) -> Result:
    """What a tool_result block says; blocks other than text show as `[type]`."""
    content = block.get("content")
    if isinstance(content, list):
        content = "".join(_shown(part) for part in content)
    return Result(content if isinstance(content, str) else "", block.get("is_error") is True)


def _shown(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"
