"""Groups the events of the demo's sessions into replies, and counts totals over all sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EventRecord = Mapping[str, Any]
"""Event as a session prints it. It has the fields of the event, and `kind`, the name of its type."""


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of Claude, the context edits that the API made before the reply, and numbers of tokens.

    - `cleared`: number of newly cleared tool results, and number of their tokens.
    - `compacted`: tokens of the prompt before a compaction, and tokens of the summary.
    - `read`: tokens of the prompt after clearing, before compaction.
    - `prompt`: tokens of the prompt after clearing and compaction.
    """

    turn: int
    prompt: int
    read: int
    cleared: tuple[int, int] | None
    compacted: tuple[int, int] | None
    texts: tuple[str, ...]
    calls: tuple[EventRecord, ...]


@dataclass(slots=True)
class Figures:
    """Totals over all sessions, in tokens and calls.

    - `whole`: tokens of both conversations without clearing and compaction.
    - `reads`: the weeks that each session read.
    """

    largest_prompt: int = 0
    whole: int = 0
    cleared_results: int = 0
    cleared_tokens: int = 0
    compactions: int = 0
    memory_calls: int = 0
    reads: list[list[int]] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Add a reply to the totals."""
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
    """Groups the events of one session into replies.

    With each reply, the API reports all results that it has cleared so far. This class counts only the newly cleared
    results.
    """

    def __init__(self) -> None:
        self._pending: list[EventRecord] = []
        self._cleared: Counter[str] = Counter()

    def add(self, event: EventRecord) -> Step | None:
        """Add an event. If it completes a reply, return the reply; otherwise return None.

        The last event of a reply is its usage report.
        """
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

    def _newly_cleared(self, events: list[EventRecord]) -> tuple[int, int] | None:
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


def _prompt(usage: EventRecord) -> int:
    return int(usage["input_tokens"] + usage["cache_read_tokens"] + usage["cache_creation_tokens"])
