"""Recall: the best lines for a question within a budget of tokens, as a block for a prompt.

The block is meant to stay the same from call to call, since a changed prompt is read anew at full price. So scores are
coarse, the older of two equally good lines stays, and the block has no line numbers, times or scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import ceil, log
from typing import Unpack

from retentive.search.index import Index
from retentive.search.query import Query
from retentive.search.ranking import Which, heading, headings_above, scored
from retentive.search.results import Document
from retentive.values.paths import visible_path

LEAST_TOKENS = 50
"""Least budget of a recall."""
_FROM_MEMORY = 0.5  # share of the score of its memory that a line has
_BESIDE = 0.5  # share of the score of a line that the lines beside it have, since answers follow questions
_STEP = log(1.15)  # scores within 15 % are equal
_LEAST = 0.2  # share of the best score that a line needs
_MEMORIES = 50
_LINE_CHARS = 400
_QUIET = {"trusted", "", "fresh", "unverified"}
_CHARS_PER_TOKEN, _BYTES_PER_TOKEN = 3, 2


@dataclass(frozen=True, slots=True)
class Passage:
    """Line of a memory, with the number of the line (counted from 1), and the headings above it, outermost first.

    A long line is cut. `trust` is the level of the memory, `freshness` the worst state of its citations. Passages with
    a higher `level` are clearly better.
    """

    path: str
    line: int
    text: str = field(repr=False)
    headings: tuple[str, ...] = field(repr=False)
    memory_id: str
    version_id: str
    trust: str = "trusted"
    level: int = 0
    freshness: str = ""


@dataclass(frozen=True, slots=True)
class Recall:
    """Passages in byte order of their paths. `text` is the block for a prompt; it is empty if nothing matches.

    `tokens` is an estimate of the tokens of the block. It is rather too high: 3 characters of ASCII or 2 bytes of other
    UTF-8 are a token.
    """

    passages: tuple[Passage, ...]
    text: str = field(repr=False)
    tokens: int

    def __str__(self) -> str:
        return self.text


def tokens_of(text: str) -> int:
    """Return an estimate of the tokens of a text, which is rather too high."""
    return ceil(_cost(text))


def _cost(text: str) -> float:
    plain = sum(map(str.isascii, text))
    return plain / _CHARS_PER_TOKEN + (len(text.encode("utf-8", "replace")) - plain) / _BYTES_PER_TOKEN


def recall_index(
    index: Index, query: Query, budget: int, marks_of: Callable[[Document], tuple[str, str]], **which: Unpack[Which]
) -> list[Passage]:
    """Return the best lines whose block has at most `budget` tokens. `marks_of` returns trust and freshness."""
    found = scored(index, query, limit=_MEMORIES, is_coarse=True, **which)
    texts = {number: index.documents[number].text.split("\n") for number in found.order[:_MEMORIES]}
    scores: dict[tuple[int, int], float] = {}
    for number, rows in texts.items():
        whole = _FROM_MEMORY * found.scores[number]
        lines = [at for at, row in enumerate(rows) if row.strip() and at not in index.rows[number].headings] or [0]
        for row, score in (found.lines[number] or {0: 0.0}).items():  # only the path matches: the first line
            here = min(bisect_left(lines, row), len(lines) - 1)  # of a heading, the line below it
            for at in range(max(here - 1, 0), min(here + 2, len(lines))):
                value = whole + (score if at == here else _BESIDE * score)
                scores[number, lines[at]] = max(scores.get((number, lines[at]), 0.0), value)
    least = max(scores.values(), default=0.0) * _LEAST
    levels = {at: round(log(score) / _STEP) for at, score in scores.items() if score >= least > 0}
    ordered = sorted(levels, key=lambda at: (-levels[at], index.documents[at[0]].memory_id, at[1]))

    def passages() -> Iterator[Passage]:
        for number, row in ordered:
            document, text = index.documents[number], texts[number][row].strip()[:_LINE_CHARS]
            headings = tuple(heading(texts[number][at]) for at in headings_above(index.rows[number], row))
            ids, (trust, freshness) = (document.memory_id, document.version_id), marks_of(document)
            yield Passage(document.path, row + 1, text, headings, *ids, trust, levels[number, row], freshness)

    return fitting(passages(), budget)


def fitting(passages: Iterable[Passage], budget: int) -> list[Passage]:
    """Return the passages whose block has at most `budget` tokens. The first that fits is cut if it is too long."""
    chosen, left, known = list[Passage](), float(budget), set[tuple[str, ...]]()
    for whole in passages:
        passage = whole
        parts = {(passage.path,): _title(passage), (passage.path, *passage.headings, ""): _section(passage)}
        costs = {part: _cost(text) for part, text in parts.items() if part not in known}
        room = left - sum(costs.values())
        if _cost(_line(passage)) > room:
            if chosen:
                continue
            passage = replace(passage, text=passage.text[: max(int(room / _BYTES_PER_TOKEN) - 1, 0)])
        if passage.text:
            chosen.append(passage)
            known |= costs.keys()
            left = room - _cost(_line(passage))
    return chosen


def recalled(passages: Iterable[Passage]) -> Recall:
    """Return the result with these passages, in byte order of their paths."""
    ordered = sorted(passages, key=lambda each: (each.path.encode(), each.line))
    parts = list[str]()
    for _, of_memory in groupby(ordered, key=lambda each: each.path):
        for at, (_, of_section) in enumerate(groupby(of_memory, key=lambda each: each.headings)):
            lines = list(of_section)
            parts += [*([] if at else [_title(lines[0])]), _section(lines[0]), *map(_line, lines)]
    text = "".join(parts)
    return Recall(tuple(ordered), text, tokens_of(text))


def _title(passage: Passage) -> str:
    marks = ", ".join(mark for mark in (passage.trust, passage.freshness) if mark not in _QUIET)
    return f"{visible_path(passage.path)}{f' ({marks})' if marks else ''}\n"


def _section(passage: Passage) -> str:
    return f"  [{' > '.join(passage.headings)}]\n" if passage.headings else ""


def _line(passage: Passage) -> str:
    return f"  {passage.text}\n"
