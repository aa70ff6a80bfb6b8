"""Prefilter: reports which anchors occur in a text, in one pass with RE2 or one by one without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MEMORY_BYTES = 64 << 20  # for the RE2 automaton; with the default of 8 MiB it is repeatedly discarded and rebuilt


@dataclass(frozen=True, slots=True)
class Anchor:
    """A cheap thing to search for: a text (lower-case if `any_case`) or a pattern valid in both RE2 and `re`."""

    text: str
    any_case: bool = False
    is_pattern: bool = False
    then: str = ""  # pattern after the text; RE2 searches for both at no extra cost


Prefilter = Callable[[bytes], Sequence[int] | None]


def prefilter(anchors: Sequence[Anchor], *, with_re2: bool | None = None) -> Prefilter:
    """Return a function from UTF-8 text to the indexes of anchors that may occur in it. It never misses one.

    `with_re2` selects the implementation; by default RE2 is used if installed. The finds are the same with both.
    """
    if with_re2 is not False:
        try:
            return _by_re2(anchors)
        except ImportError:
            if with_re2:
                raise
    return _one_by_one(anchors)


def _by_re2(anchors: Sequence[Anchor]) -> Prefilter:
    import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: PLC0415 - an optional dependency that takes 20 ms to import

    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    patterns = re2.Set.SearchSet(options)
    for anchor in anchors:
        pattern = anchor.text if anchor.is_pattern else re2.escape(anchor.text) + anchor.then
        patterns.Add(f"(?i){pattern}" if anchor.any_case else pattern)
    patterns.Compile()

    match: Prefilter = patterns.Match
    return match


def _one_by_one(anchors: Sequence[Anchor]) -> Prefilter:
    texts = [(index, anchor.text) for index, anchor in enumerate(anchors) if not (anchor.is_pattern or anchor.any_case)]
    lower = [(index, anchor.text) for index, anchor in enumerate(anchors) if anchor.any_case and not anchor.is_pattern]
    patterns = [
        (index, re.compile(anchor.text.replace(r"\x{a0}", "\u00a0"), re.IGNORECASE if anchor.any_case else 0))
        for index, anchor in enumerate(anchors)
        if anchor.is_pattern
    ]

    def match(data: bytes) -> Sequence[int]:
        text = data.decode()
        found = [index for index, part in texts if part in text]
        lower_case = lowered(text)
        found += [index for index, part in lower if part in lower_case]
        found += [index for index, pattern in patterns if pattern.search(text)]
        return found

    return match


def lowered(text: str) -> str:
    """Text in lower case with every character at its position. Only \u0130 would become two characters."""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()
