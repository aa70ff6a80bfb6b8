"""The events of the sessions of `retentive demo`, read back from a process: one reply at a time, and sums of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Told = Mapping[str, Any]
"""An event as a session tells it: `kind`, the name of its type, and its fields."""


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of Claude: what was left out before it, what it said and called, and the tokens it read.

    `cleared` are the tool results newly left out and their tokens. `compacted` are the tokens of the prompt that a
    summary took the place of, and of the summary. `read` are the tokens of the prompt after clearing, `prompt` of that
    after both.
    """

    turn: int
    prompt: int
    read: int
    cleared: tuple[int, int] | None
    compacted: tuple[int, int] | None
    texts: tuple[str, ...]
    calls: tuple[Told, ...]


@dataclass(slots=True)
class Figures:
    """What is counted over all sessions, in tokens and calls.

    `whole` are the tokens of both conversations had nothing been left out; `reads` the weeks that each session read.
    """

    largest_prompt: int = 0
    whole: int = 0
    cleared_results: int = 0
    cleared_tokens: int = 0
    compactions: int = 0
    memory_calls: int = 0
    reads: list[list[int]] = field(default_factory=list)

    def enter(self, step: Step) -> None:
        """Add a reply."""
        self.largest_prompt = max(self.largest_prompt, step.read, step.prompt)
        results, tokens = step.cleared or (0, 0)
        self.cleared_results += results
        self.cleared_tokens += tokens
        self.compactions += step.compacted is not None
        for call in step.calls:
            self.memory_calls += call["name"] == "memory"
            if call["name"] == "read_week" and isinstance(week := call["input"].get("week"), int):
                self.reads[-1].append(week)


class Steps:
    """Puts the events of one session together to replies.

    The API tells with each reply all that is cleared, so that what was cleared before must be taken off.
    """

    def __init__(self) -> None:
        self._pending: list[Told] = []
        self._cleared: Counter[str] = Counter()

    def take(self, event: Told) -> Step | None:
        """The reply that is complete with this event, if one is: its tokens come last."""
        if event["kind"] != "UsageReport":
            self._pending.append(event)
            return None
        pending, self._pending = self._pending, []
        cleared = self._newly_cleared(pending)
        compacted = None
        if any(each["kind"] == "Compaction" and each["summary"] is not None for each in pending):
            steps = [each for each in event["iterations"] if each["kind"] == "compaction"]
            compacted = (sum(map(_prompt, steps)), sum(each["output_tokens"] for each in steps))
            self._cleared.clear()
        prompt = _prompt(event["usage"])
        texts = tuple(each["text"] for each in pending if each["kind"] == "Text")
        calls = tuple(each for each in pending if each["kind"] == "ToolCall")
        read = compacted[0] if compacted else prompt
        return Step(event["turn"], prompt, read, cleared, compacted, texts, calls)

    def _newly_cleared(self, events: list[Told]) -> tuple[int, int] | None:
        edits = [edit for event in events if event["kind"] == "EditsApplied" for edit in event["edits"]]
        now = Counter(
            results=sum(edit.get("tool_uses", 0) for edit in edits),
            tokens=sum(edit.get("input_tokens", 0) for edit in edits if "tool_uses" in edit),
        )
        if now["results"] <= self._cleared["results"]:
            return None
        new = now - self._cleared
        self._cleared = now
        return new["results"], new["tokens"]


def _prompt(usage: Told) -> int:
    """The tokens of a prompt, those from a cache included."""
    return int(usage["input_tokens"] + usage["cache_read_tokens"] + usage["cache_creation_tokens"])
