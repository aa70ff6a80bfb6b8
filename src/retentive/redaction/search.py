"""Search for one pattern in linear time: with RE2 if it is installed, otherwise with `re` and bounded repetitions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from retentive.values.extras import pip_install

_MEMORY_BYTES = 64 << 20  # for the RE2 automaton; with the default of 8 MiB it is repeatedly discarded and rebuilt
PART_CHARS = 2_048  # minimum characters of a part of a text; each search reads only the parts that may have a match
# Repetitions of a character class in `re`. Without a limit, `re` could read the whole text from each position.
_MAX_REPEATS = 200
MAX_TOKENS = 1_000  # tokens in a text that are checked one by one
MAX_CERTAIN = 2_000  # candidates for private keys, URLs and headers that are checked one by one
MAX_JUDGED = 700  # candidates after words and signs; a memory has far fewer, unless it is a dump of secrets

DOTTED = "\u0130"  # capital I with a dot


class Budget:
    """Number of candidates that may still be checked one by one in a text.

    Later candidates are checked in bulk, to limit the time for the text.
    """

    def __init__(self, places: float = MAX_JUDGED) -> None:
        self._places = places

    def take(self) -> bool:
        """Use the budget for one candidate. Return False if the budget is used up."""
        self._places -= 1
        return self._places >= 0


class Limits:
    """Budgets for the candidates in one text.

    There is one budget for tokens, one for tokens across two lines, one for the values in `forms.FORMS`, and one for
    all other candidates.
    """

    def __init__(self, *, bounded: bool = True) -> None:
        self.tokens, self.wraps, self.certain, self.places = (
            Budget(limit if bounded else math.inf) for limit in (MAX_TOKENS, MAX_TOKENS, MAX_CERTAIN, MAX_JUDGED)
        )


@lru_cache(maxsize=1)
def has_re2() -> bool:
    """Return whether google-re2 is installed.

    If it is not, checks take about 20 times as long. `doctor` reports this.
    """
    try:
        import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: F401, PLC0415 - optional, takes 20 ms to import
    except ImportError:
        import logging  # noqa: PLC0415 - importing it here keeps startup fast

        logging.getLogger("retentive").info(  # a warning would be printed by every command
            "google-re2 is not installed; checks for sensitive values take longer (%s)", pip_install("guards")
        )
        return False
    return True


def lowered(text: str) -> str:
    r"""Return the text in lower case, with each character at its old position.

    Only \u0130 needs care, because its lower case has two characters.
    """
    return text.lower() if text.isascii() else text.replace(DOTTED, "I").lower()


@dataclass(eq=False)
class Scanned:
    """A text that is prepared for searches: in lower case, and divided into parts.

    A part consists of whole lines. For each search, `regions` lists the ranges of consecutive parts in which the search
    may match. A range is a pair: its first part and its last part. If `regions` is None, any search may match anywhere.
    """

    text: str
    regions: Mapping[Search, Sequence[tuple[int, int]]] | None = None
    _pieces: dict[tuple[int, int, bool], TextPart] = field(default_factory=dict)

    @cached_property
    def lower(self) -> str:
        """The text in lower case."""
        return lowered(self.text)

    @cached_property
    def cuts(self) -> list[int]:
        """Start positions of the parts and the end of the text. Each part after the first starts at a line end."""
        text, cuts = self.text, [0]
        while (cut := text.find("\n", cuts[-1] + PART_CHARS)) >= 0:
            cuts.append(cut)
        return [*cuts, len(text)]

    def regions_of(self, search: Search) -> Sequence[tuple[int, int]]:
        """Return the runs of parts in which a search may match."""
        return [(0, len(self.cuts) - 2)] if self.regions is None else self.regions[search]

    def piece(self, first: int, last: int, *, lower: bool) -> TextPart:
        """Return the text of the parts from `first` to `last`, including the line end after them. Cached."""
        known = self._pieces.get((first, last, lower))
        if known is None:
            start = self.cuts[first]
            known = self._pieces[first, last, lower] = TextPart(
                self.text[start : self.cuts[last + 1] + 1], start, lower
            )
        return known


class TextPart:
    """Lines of a text in UTF-8, in lower case if `lower` is True. `start` is their position in the text.

    A lone surrogate becomes `?`.
    """

    __slots__ = ("chars", "data", "is_ascii", "start")

    def __init__(self, text: str, start: int, lower: bool) -> None:
        self.data = (lowered(text) if lower else text).encode("utf-8", "replace")
        self.start, self.chars, self.is_ascii = start, len(text), len(self.data) == len(text)


def alternatives(texts: Iterable[str] | Mapping[str, str]) -> str:
    """Return a pattern that matches any of the texts.

    If `texts` is a mapping, its keys are the texts, and each value is a pattern that must match right after its text.
    Common beginnings are merged, because `re` tries one alternative after the other.
    """
    rests = texts if isinstance(texts, Mapping) else dict.fromkeys(texts, "")
    by_first: dict[str, dict[str, str]] = {}
    for text, rest in rests.items():
        if text:
            by_first.setdefault(text[0], {})[text[1:]] = rest
    branches = [re.escape(first) + alternatives(tails) for first, tails in by_first.items()]
    branches += [rests[""]] if "" in rests else []
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


class Search:
    """Search for `pattern`, followed by `then` on the same line. Both use the syntax that RE2 and `re` share.

    `short` is a pattern for short words that match too. They do not match as the beginning of a longer word: `pat`
    matches, but not the beginning of `path`. With `lower`, the text is searched in lower case. A match covers one line
    and the line ends around it. With `many_lines`, a match can have up to `PART_CHARS` more characters. `hint` is a
    pattern that is faster to search for. It must occur on the first line of each match of the search.
    """

    def __init__(
        self,
        pattern: str,
        then: str = "",
        *,
        short: str = "",
        hint: str = "",
        many_lines: bool = False,
        lower: bool = False,
        with_re2: bool | None = None,
    ) -> None:
        self.lower, self.hint, self.many_lines = lower, hint, many_lines
        self._has_re2 = has_re2() if with_re2 is None else with_re2
        self.by_re2 = f"(?:{pattern})[^\\n]*?(?:{then})" if then else pattern
        if short:  # RE2 has no lookahead or lookbehind. The first end of a match is the same as with `re`.
            rest = r"s??[0-9]{0,2}?(?:[^a-z0-9+/\n][^\n]*?)??"
            self.by_re2 = f"(?:(?:{pattern})[^\\n]*?|(?:{short}){rest})(?:{then})"
            pattern = f"(?:{pattern})|(?:{short})(?=s?[0-9]{{0,2}}(?![a-z0-9+/]))"
        if not self._has_re2:
            self._pattern, self._then = _by_re(pattern), _by_re(then)

    def char_regions(self, scanned: Scanned) -> list[tuple[int, int]]:
        """Return the spans (in characters) of whole lines that may have a match. The search has no match elsewhere."""
        return [(scanned.cuts[first], scanned.cuts[last + 1]) for first, last in scanned.regions_of(self)]

    def spans(self, scanned: Scanned, reach: Sequence[int] = (0,)) -> Iterator[tuple[int, int]]:
        """Yield the spans of all matches, in characters, from left to right.

        The caller may set `reach[0]` to the position up to which it has examined the text. Matches that start before
        this position may then be left out.
        """
        if self._has_re2:
            return self._in_regions(scanned, reach)
        text = scanned.lower if self.lower else scanned.text
        return self._followed(text) if self._then.pattern else (match.span() for match in self._pattern.finditer(text))

    def merged(self, scanned: Scanned, before: int, after: int) -> Iterator[tuple[int, int]]:
        """Yield the spans of the matches, extended by `before` and `after` characters. Overlapping spans are merged."""
        last: tuple[int, int] | None = None
        for start, end in self.spans(scanned):
            if last is not None and start - before <= last[1]:
                last = (last[0], end + after)
                continue
            if last is not None:
                yield last
            last = (max(0, start - before), end + after)
        if last is not None:
            yield last

    def _in_regions(self, scanned: Scanned, reach: Sequence[int]) -> Iterator[tuple[int, int]]:
        for first, last in scanned.regions_of(self):
            yield from self._in_piece(scanned.piece(first, last, lower=self.lower), reach)

    def _in_piece(self, piece: TextPart, reach: Sequence[int]) -> Iterator[tuple[int, int]]:
        data, find, at, chars = piece.data, _by_re2(self.by_re2), 0, piece.start
        matches = iter(find(data))
        while (match := next(matches, None)) is not None:
            start, end = match.span()
            first = start + piece.start if piece.is_ascii else chars + len(data[at:start].decode())
            at, chars = end, end + piece.start if piece.is_ascii else first + len(data[start:end].decode())
            yield first, chars
            if chars < reach[0] < piece.start + piece.chars:
                skipped = data[at : at + 4 * (reach[0] - chars)].decode(errors="ignore")[: reach[0] - chars]
                at, chars = at + len(skipped.encode()), reach[0]
                matches = iter(find(data, at))

    def _followed(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the matches of the first pattern that are followed by a match of the second pattern on the same line.

        Each pattern reads the text once, even if there are many matches.
        """
        at, follows = 0, (-1, -1)
        while (match := self._pattern.search(text, at)) is not None:
            start, end = match.span()
            if follows[0] < end:
                after = self._then.search(text, end)
                if after is None:
                    return
                follows = after.span()
            line_end = text.find("\n", end, follows[0])
            if line_end < 0:
                yield start, follows[1]
            at = max(follows[1] if line_end < 0 else line_end, end)


class Prefilter:
    """Finds the parts of a text where each of many searches may match, in one pass over the text.

    Without RE2 (`has_re2` is false), a prefilter cannot tell where a search may match.
    """

    def __init__(self, searches: Sequence[Search], *, with_re2: bool | None = None) -> None:
        self._all, self._passes = tuple(searches), []
        if has_re2() if with_re2 is None else with_re2:
            for lower in (False, True):
                self._passes.append(_Pass([one for one in searches if one.lower is lower], lower=lower))

    @property
    def has_re2(self) -> bool:
        """True if RE2 is used."""
        return bool(self._passes)

    def matching(self, data: bytes) -> Iterator[Search]:
        """Yield the searches that match in a short ASCII text. Of searches that share a hint, yield at most one.

        This method is faster than `narrow`, because it records nothing. It needs RE2.
        """
        for one in self._passes:
            yield from one.matching(data)

    def narrow(self, scanned: Scanned) -> bool:
        """Record in `scanned` the parts of the text in which each search may match.

        Returns False if no search can match.
        """
        if not self._passes:
            return True
        regions: dict[Search, list[tuple[int, int]]] = {search: [] for search in self._all}
        lines = [scanned.text[start : cut + 1] for start, cut in pairwise(scanned.cuts)]
        data = [text.encode("utf-8", "replace") for text in lines]
        for one in self._passes:
            for search, part in one.present(lines, data):
                _extend(regions[search], part, min(part + search.many_lines, len(lines) - 1))
        scanned.regions = regions
        return any(regions.values())


class _Pass:
    """Sets of patterns for RE2. A set whose searches share a hint runs only in the parts where the hint matches.

    One automaton for all patterns would have too many states for the processor caches. For the same reason, each set
    runs over all parts before the next set starts.
    """

    def __init__(self, searches: Sequence[Search], *, lower: bool) -> None:
        by_hint: dict[str, list[Search]] = {}
        for search in searches:
            by_hint.setdefault(search.hint or search.by_re2, []).append(search)
        self._groups = [(found, _later_set(found)) for found in by_hint.values()]
        self._first = _set_of_re2(f"(?i:{hint})" if lower else hint for hint in by_hint)
        self._lower = lower

    def matching(self, data: bytes) -> Iterator[Search]:
        for number in self._first.Match(data) or ():
            searches, patterns = self._groups[number]
            if patterns is None or patterns.Match(data.lower() if self._lower else data):
                yield searches[0]

    def present(self, lines: Sequence[str], data: Sequence[bytes]) -> Iterator[tuple[Search, int]]:
        """Yield each search that may match in a part, with the number of the part. `data` has the `lines` in UTF-8."""
        if self._lower:  # RE2 does not treat a dotted capital I as an `i`
            data = [_small(text) if DOTTED in text else known for text, known in zip(lines, data, strict=True)]
        hinted: list[list[int]] = [[] for _ in self._groups]
        for part, match in enumerate(map(self._first.Match, data)):
            for number in match or ():
                hinted[number].append(part)
        for (searches, patterns), parts in zip(self._groups, hinted, strict=True):
            if patterns is None:
                yield from ((search, part) for part in parts for search in searches)
                continue
            for part in parts:
                found = patterns.Match(_small(lines[part]) if self._lower else data[part])
                yield from ((searches[one], part) for one in found or ())


def _small(text: str) -> bytes:
    return lowered(text).encode("utf-8", "replace")


def _later_set(searches: Sequence[Search]) -> Any:
    """Set of the patterns that share a hint. None if no pattern is needed besides the hint."""
    if searches[0].many_lines or not searches[0].hint:
        return None
    return _set_of_re2(search.by_re2 for search in searches)


def _extend(regions: list[tuple[int, int]], first: int, last: int) -> None:
    """Add a run of parts. It is merged with the last run if the two touch."""
    if regions and regions[-1][1] >= first - 1:
        regions[-1] = (regions[-1][0], last)
    else:
        regions.append((first, last))


def _by_re(pattern: str) -> re.Pattern[str]:
    bounded = pattern.replace("]*", f"]{{0,{_MAX_REPEATS}}}").replace("]+", f"]{{1,{_MAX_REPEATS}}}")
    return re.compile(bounded.replace(r"\z", r"\Z"), re.ASCII)


@lru_cache(maxsize=64)
def _by_re2(pattern: str) -> Callable[..., Iterable[Any]]:
    import re2  # noqa: PLC0415 - see above

    find: Callable[..., Iterable[Any]] = re2.compile(pattern.encode(), _options()).finditer
    return find


def _set_of_re2(patterns: Iterable[str]) -> Any:
    """RE2 set of patterns. `Match` returns the numbers of the patterns that match anywhere in a text, or None."""
    import re2  # noqa: PLC0415 - see above

    found = re2.Set.SearchSet(_options())
    for pattern in patterns:
        found.Add(pattern.encode())
    found.Compile()
    return found


def _options() -> Any:
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    return options
