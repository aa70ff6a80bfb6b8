"""Linear-time search for one pattern: with RE2 if it is installed, otherwise with `re` and bounded repetitions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from retentive.values.extras import pip_install

_MEMORY_BYTES = 64 << 20  # for the RE2 automaton; with the default of 8 MiB it is repeatedly discarded and rebuilt
_MAX_REPEATS = 200  # of a character class, in `re`: without a bound, a search could read the whole text from each place
MAX_TOKENS = 1_000  # tokens in a text that are found one by one
MAX_CERTAIN = 2_000  # places for private keys, URLs and headers
MAX_JUDGED = 700  # places after words and signs; a memory has far fewer, unless it is a dump of secrets


class Budget:
    """The places in a text that are judged one by one; those after them are judged in bulk, so that time is bounded."""

    def __init__(self, places: float = MAX_JUDGED) -> None:
        self._places = places

    def take(self) -> bool:
        """Return whether one more place may be judged."""
        self._places -= 1
        return self._places >= 0


class Limits:
    """Budgets of a text: the tokens, places for certain values and other places that may be judged one by one."""

    def __init__(self, *, bounded: bool = True) -> None:
        self.tokens, self.wraps, self.certain, self.places = (
            Budget(limit if bounded else math.inf) for limit in (MAX_TOKENS, MAX_TOKENS, MAX_CERTAIN, MAX_JUDGED)
        )


@lru_cache(maxsize=1)
def has_re2() -> bool:
    """Return whether google-re2 is installed; logs its absence once, because checks then take some 20 times as long."""
    try:
        import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: F401, PLC0415 - optional, takes 20 ms to import
    except ImportError:
        import logging  # noqa: PLC0415 - importing it here keeps startup fast

        logging.getLogger("retentive").warning(
            "google-re2 is not installed; checks for sensitive values take longer (%s)", pip_install("guards")
        )
        return False
    return True


def lowered(text: str) -> str:
    """The text in lower case, every character at its position. Only \u0130 would become two characters."""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


@dataclass(eq=False)
class Scanned:
    """A text with the forms of it that patterns search: its bytes, and its lower case at the same positions.

    `absent` are searches that are known to match nowhere in it.
    """

    text: str
    absent: frozenset[Search] = frozenset()

    @cached_property
    def lower(self) -> str:
        """The text in lower case."""
        return lowered(self.text)

    @cached_property
    def data(self) -> bytes:
        """UTF-8 of the text; a lone surrogate becomes `?`, which has one character too."""
        return self.text.encode("utf-8", "replace")

    @cached_property
    def lower_data(self) -> bytes:
        """UTF-8 of the text in lower case."""
        return self.lower.encode("utf-8", "replace")


def alternatives(texts: Iterable[str] | Mapping[str, str]) -> str:
    """Pattern for any of the texts, the longest first, each with the pattern that a mapping has for it.

    Common beginnings are shared: `re` tries one alternative after the other.
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
    """A pattern that RE2 and `re` both understand, and one that must follow it on the same line.

    `lower`: they are matched against the text in lower case.
    """

    def __init__(self, pattern: str, then: str = "", *, lower: bool = False, with_re2: bool | None = None) -> None:
        self.lower, self.by_re2 = lower, f"(?:{pattern})[^\\n]*?(?:{then})" if then else pattern
        self._has_re2 = has_re2() if with_re2 is None else with_re2
        if not self._has_re2:
            self._pattern, self._then = _by_re(pattern), _by_re(then)

    def spans(self, scanned: Scanned, reach: Sequence[int] = (0,)) -> Iterator[tuple[int, int]]:
        """Spans of all matches, in characters, from left to right.

        The caller may change `reach`, where the last match that it judged ends: later ones that start before may be
        left out.
        """
        if self in scanned.absent:
            return iter(())
        if self._has_re2:
            data = scanned.lower_data if self.lower else scanned.data
            return self._in_bytes(scanned, data, reach, _by_re2(self.by_re2))
        text = scanned.lower if self.lower else scanned.text
        return self._followed(text) if self._then.pattern else (match.span() for match in self._pattern.finditer(text))

    def merged(self, scanned: Scanned, before: int, after: int) -> Iterator[tuple[int, int]]:
        """Spans around the matches, wider by so many characters; overlapping ones are one."""
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

    @staticmethod
    def _in_bytes(
        scanned: Scanned, data: bytes, reach: Sequence[int], find: Callable[..., Iterable[Any]]
    ) -> Iterator[tuple[int, int]]:
        is_ascii, at, chars, matches = len(data) == len(scanned.text), 0, 0, iter(find(data))
        while (match := next(matches, None)) is not None:
            start, end = match.span()
            first = start if is_ascii else chars + len(data[at:start].decode())
            at, chars = end, end if is_ascii else first + len(data[start:end].decode())
            yield first, chars
            if reach[0] > chars:
                at += len(scanned.text[chars : reach[0]].encode("utf-8", "replace"))
                chars, matches = reach[0], iter(find(data, at))

    def _followed(self, text: str) -> Iterator[tuple[int, int]]:
        """Each part of the text is read once for each of the two patterns, however dense they are."""
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
    """Tells in one pass over a text which of many searches match nowhere. Without RE2, all may match."""

    def __init__(self, searches: Sequence[Search], *, with_re2: bool | None = None) -> None:
        self._all, self._sets = frozenset(searches), []
        if has_re2() if with_re2 is None else with_re2:
            for lower in (False, True):
                group = [search for search in searches if search.lower is lower]
                self._sets.append((lower, group, _set_of_re2(search.by_re2 for search in group)))

    def excludes(self, data: bytes) -> bool:
        """Return whether no search matches anywhere in a text in ASCII. This records nothing, so it is faster."""
        for lower, _, patterns in self._sets:
            if patterns.Match(data.lower() if lower else data):
                return False
        return bool(self._sets)

    def narrow(self, scanned: Scanned) -> bool:
        """Record in the text which searches are absent from it. Returns False if all are."""
        if not self._sets:
            return True
        present: list[Search] = []
        for lower, group, patterns in self._sets:
            present += [group[number] for number in patterns.Match(scanned.lower_data if lower else scanned.data) or ()]
        scanned.absent = self._all.difference(present) if present else self._all
        return bool(present)


def _by_re(pattern: str) -> re.Pattern[str]:
    bounded = pattern.replace("]*", f"]{{0,{_MAX_REPEATS}}}").replace("]+", f"]{{1,{_MAX_REPEATS}}}")
    return re.compile(bounded.replace(r"\z", r"\Z"), re.ASCII)


@lru_cache(maxsize=64)
def _by_re2(pattern: str) -> Callable[..., Iterable[Any]]:
    import re2  # noqa: PLC0415 - see above

    find: Callable[..., Iterable[Any]] = re2.compile(pattern.encode(), _options()).finditer
    return find


def _set_of_re2(patterns: Iterable[str]) -> Any:
    """RE2 set of patterns. `Match` returns the numbers of those that match a text anywhere, or None."""
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
