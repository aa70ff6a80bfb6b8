"""Which of many texts and patterns occur in a stretch of text: in one pass with RE2, or one by one without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MEMORY_BYTES = 64 << 20  # for the automaton of RE2: with its default of 8 MiB it is thrown away and built anew


@dataclass(frozen=True, slots=True)
class Anchor:
    """Something quick to look for: a text (in lower case if any case will do), or a pattern both RE2 and `re` know."""

    text: str
    any_case: bool = False
    is_pattern: bool = False
    then: str = ""  # a pattern that follows the text wherever it matters: RE2 looks for both at no cost


Prefilter = Callable[[bytes], Sequence[int] | None]


def prefilter(anchors: Sequence[Anchor], *, with_re2: bool | None = None) -> Prefilter:
    """A function from UTF-8 to the indexes of the anchors that may occur in it: none that does is left out.

    `with_re2` picks how; the default takes RE2 if it is installed. Both serve the same finds.
    """
    if with_re2 is not False:
        try:
            return _by_re2(anchors)
        except ImportError:
            if with_re2:
                raise
    return _one_by_one(anchors)


def _by_re2(anchors: Sequence[Anchor]) -> Prefilter:
    import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: PLC0415 - an optional driver, and 20 ms

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
        small = lowered(text)
        found += [index for index, part in lower if part in small]
        found += [index for index, pattern in patterns if pattern.search(text)]
        return found

    return match


def lowered(text: str) -> str:
    """The text in lower case, every character at its place: only \u0130 would become two."""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()
