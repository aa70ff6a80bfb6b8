"""Guard that flags text in the form of instructions to the model. The guard never changes a text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from retentive.engine.trust.instruction_rules import RULES, InstructionRule

KIND = "instructions"
"""Kind of the flags that this guard adds to the provenance of a text and to findings."""
_MAX_LINE_CHARS = 2_000  # a longer line is examined in pieces of this length
_NEAR = 200  # characters of a neighbouring line that are examined together with a line
_SPACES = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def flagged_lines(text: str) -> list[int]:
    """Return the numbers of the lines that have the form of instructions to the model, in ascending order.

    A sentence that spans two lines is found too.
    """
    lines = fold(text).split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    folded, found = "\n".join(lines), set[int]()
    for rule, pattern in _compiled():
        for number in sorted({bisect_right(starts, at) for word in rule.words for at in _places(folded, word)}):
            if number in found:
                continue
            line = lines[number - 1]
            before, after = (lines[each] if 0 <= each < len(lines) else "" for each in (number - 2, number))
            if _fits(pattern, line) or _spans(pattern, line, after):
                found.add(number)
            elif _spans(pattern, before, line):
                found.add(number - 1)
    return sorted(found)


def _spans(pattern: re.Pattern[str], first: str, second: str) -> bool:
    """Return whether a pattern matches across two lines but matches neither of the lines alone."""
    if not first or not second or not pattern.search(f"{first[-_NEAR:]} {second[:_NEAR]}"):
        return False
    return not _fits(pattern, first) and not _fits(pattern, second)


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the positions of a word in a text, at most one for each line."""
    at = text.find(word)
    while at >= 0:
        yield at
        end = text.find("\n", at)
        at = text.find(word, end) if end >= 0 else -1


def flags_of(text: str, before: str) -> tuple[list[tuple[int, str]], list[str]]:
    """For each flagged line of `text`, return its line number and the kind of its flag.

    `before` is the previous text. The second result lists the kinds of the new flags. A flag is new if `before` does
    not contain the flagged line.
    """
    lines, found = text.split("\n"), flagged_lines(text)
    known = set(before.split("\n")) if found else set[str]()
    return [(number, KIND) for number in found], [KIND] if any(lines[each - 1] not in known for each in found) else []


def fold(text: str) -> str:
    """Return a text in lower case and NFKC, without invisible characters. Line breaks are kept."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("\u2019", "'")
    return _SPACES.sub(" ", text.casefold())


def _fits(pattern: re.Pattern[str], line: str) -> bool:
    return any(pattern.search(line, at, at + _MAX_LINE_CHARS) for at in range(0, len(line), _MAX_LINE_CHARS - _NEAR))


@cache
def _compiled() -> list[tuple[InstructionRule, re.Pattern[str]]]:
    return [(rule, re.compile(rule.pattern.replace("...", "[^\n]{0,40}?"))) for rule in RULES]
