"""Oracle of a run: compares acknowledged changes with the answers read later, and counts lost, torn and stale ones.

lost   an acknowledged note or line is missing, or an acknowledged change has no effect at the end
torn   a text that nobody wrote: a part, a mix of two texts, or a line twice
stale  an answer older than a change acknowledged before the question; also a listed note that is deleted

An operation that raises is not acknowledged. Its notes may be in either state, so they are not judged any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workloads.operations import Operation, Turn

PREFIX = "writer-"


@dataclass(frozen=True)
class Outcome:
    """One finished operation: its time, its answer, and the error if it was not acknowledged."""

    took_ns: int
    answer: object
    error: str = ""


def same(text: str) -> str:
    """Text without final newlines: some systems add or drop one."""
    return text.rstrip("\n")


@dataclass
class Oracle:
    """State that the acknowledged operations of one system lead to, and the faults found so far."""

    faults: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    error: str = ""
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _marks: dict[str, set[str]] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _unknown: set[str] = field(default_factory=set)

    @property
    def keys(self) -> list[str]:
        """Keys of all notes that exist."""
        return list(self._texts)

    def filled(self, notes: Mapping[str, str]) -> None:
        """Record the notes before the first operation."""
        for key, text in notes.items():
            self._set(key, text)

    def play(self, turn: Turn, outcomes: Sequence[Sequence[Outcome]]) -> None:
        """Record and judge the operations of one turn. With several callers only marked lines are judged."""
        is_shared = len(turn) > 1
        for operations, done in zip(turn, outcomes, strict=True):
            own: dict[str, set[str]] = {}
            for operation, outcome in zip(operations, done, strict=False):  # a slice can end early
                if outcome.error:
                    self._refused(operation, outcome.error)
                elif is_shared:
                    self._play_shared(operation, outcome.answer, own)
                else:
                    self._play_alone(operation, outcome.answer)

    def _refused(self, operation: Operation, error: str) -> None:
        self.errors += 1
        self.error = self.error or error
        if operation[0] not in {"session", "browse", "read"}:
            self._unknown |= {str(key) for key in operation[1 : 3 if operation[0] == "rename" else 2]}

    def _play_alone(self, operation: Operation, answer: object) -> None:
        changed = {str(key) for key in operation[1 : 3 if operation[0] == "rename" else 2]}
        match operation:
            case ["append" | "replace" | "rename" | "delete", *_] if changed & self._unknown:
                self._unknown |= changed
            case ["session", [*keys]]:
                names, texts = _pair(answer)
                self._judge_names(names)
                for key, text in zip(keys, texts, strict=True):
                    self._judge_text(str(key), text)
            case ["browse", [*pages]]:
                names, found = _pair(answer)
                self._judge_names(names)
                for page, lines in zip(pages, found, strict=True):
                    self._judge_page(page, lines)
            case ["create" | "replace", str(key), str(text)]:
                self._set(key, text)
            case ["append", str(key), str(line)]:
                self._set(key, f"{same(self._texts[key][-1])}\n{line}\n")
            case ["rename", str(old), str(new)]:
                self._texts[new] = self._texts.pop(old)
                self._gone.add(old)
            case ["delete", str(key)]:
                self._texts.pop(key)
                self._gone.add(key)
            case _:
                raise ValueError(f"unknown operation: {operation[0]}")

    def _play_shared(self, operation: Operation, answer: object, own: dict[str, set[str]]) -> None:
        match operation:
            case ["append" | "amend", str(key), str(line)]:
                own.setdefault(key, set()).add(line)
                self._marks.setdefault(key, set()).add(line)
            case ["read", str(key)]:
                found = set(str(answer or "").split("\n"))
                self.faults["stale"] += len(own.get(key, set()) - found)
            case _:
                raise ValueError(f"unknown operation: {operation[0]}")

    def check(self, names: Sequence[str], texts: Mapping[str, str | None], *, again: bool = False) -> None:
        """Judge the stored notes at the end. `again` is for a second process, which repeats no fault of the first."""
        before = self.faults.copy()
        self._judge_names(names)
        for key in self._texts:
            if self._marks:
                self._judge_marks(key, texts.get(key))
            else:
                self._judge_text(key, texts.get(key), at_end=not again)
        if again:
            self.faults = before | Counter({kind: self.faults[kind] - before[kind] for kind in self.faults})

    def _set(self, key: str, text: str) -> None:
        self._texts.setdefault(key, []).append(same(text))

    def _judge_text(self, key: str, answer: object, *, at_end: bool = False) -> None:
        if key in self._unknown:
            return
        if not isinstance(answer, str):
            self.faults["lost"] += 1
        elif same(answer) != self._texts[key][-1]:
            is_older = same(answer) in self._texts[key]
            self.faults[("lost" if at_end else "stale") if is_older else "torn"] += 1

    def _judge_names(self, answer: object) -> None:
        assert isinstance(answer, list)
        found = set(answer)
        self.faults["lost"] += len(self._texts.keys() - found - self._unknown)
        self.faults["stale"] += len((self._gone & found) - self._unknown - self._texts.keys())

    def _judge_page(self, page: object, lines: object) -> None:
        assert isinstance(page, list)
        key, first, last = page
        expected = self._texts[key][-1].split("\n")[first - 1 : last]
        if not lines:
            self.faults["lost"] += 1
        elif lines != expected:
            self.faults["torn"] += 1

    def _judge_marks(self, key: str, answer: str | None) -> None:
        """Each acknowledged line must be there once, and the text from before unchanged."""
        acknowledged = self._marks.get(key, set())
        if answer is None:
            self.faults["lost"] += 1 + len(acknowledged)
            return
        lines = same(answer).split("\n")
        marked = Counter(line for line in lines if line.startswith(PREFIX))
        self.faults["lost"] += len(acknowledged - marked.keys())
        unknown = 0 if key in self._unknown else len(marked.keys() - acknowledged)
        self.faults["torn"] += unknown + _repeated(marked.values())
        if "\n".join(line for line in lines if not line.startswith(PREFIX)) != self._texts[key][-1]:
            self.faults["torn"] += 1

    def verdict(self) -> str:
        """`valid`, or `VOID` with the counts; then the operations that raised, which are not counted as done."""
        found = [f"{self.faults[kind]:,} {kind}" for kind in ("lost", "torn", "stale") if self.faults[kind]]
        told = f"VOID: {', '.join(found)}" if found else "valid"
        return f"{told}; {self.errors:,} refused" if self.errors else told

    @property
    def is_valid(self) -> bool:
        """No acknowledged change is lost, torn or stale."""
        return not any(self.faults.values())


def _pair(answer: object) -> tuple[object, list[object]]:
    assert isinstance(answer, list)
    names, rest = answer
    assert isinstance(rest, list)
    return names, rest


def _repeated(counts: Iterable[int]) -> int:
    return sum(count - 1 for count in counts)
