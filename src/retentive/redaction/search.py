"""Linear-time search for one pattern: with RE2 if it is installed, otherwise with `re`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from retentive.values.extras import pip_install

_MEMORY_BYTES = 64 << 20  # for the RE2 automaton; with the default of 8 MiB it is repeatedly discarded and rebuilt


MAX_JUDGED = 700  # places after words and signs; a memory that is no dump of secrets has far fewer


class Budget:
    """The places in a text that are judged one by one; those after them are judged in bulk, so that time is bounded."""

    def __init__(self, places: int = MAX_JUDGED) -> None:
        self._places = places

    def take(self) -> bool:
        """Return whether one more place may be judged."""
        self._places -= 1
        return self._places >= 0


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


@dataclass(frozen=True)
class Scanned:
    """A text with the forms of it that patterns search: its bytes, and its lower case at the same positions."""

    text: str

    @cached_property
    def lower(self) -> str:
        """The text in lower case, every character at its position. Only \u0130 would become two characters."""
        return self.text.lower() if self.text.isascii() else self.text.replace("\u0130", "I").lower()

    @cached_property
    def data(self) -> bytes:
        """UTF-8 of the text; a lone surrogate becomes `?`, which has one character too."""
        return self.text.encode("utf-8", "replace")

    @cached_property
    def lower_data(self) -> bytes:
        """UTF-8 of the text in lower case."""
        return self.lower.encode("utf-8", "replace")


class Search:
    """A pattern that RE2 and `re` both understand. `lower`: it is matched against the text in lower case."""

    def __init__(self, pattern: str, *, lower: bool = False, with_re2: bool | None = None) -> None:
        self._lower = lower
        self._find: Callable[..., Iterable[Any]] | None = None
        if has_re2() if with_re2 is None else with_re2:
            self._find = _by_re2(pattern)
        else:
            self._pattern = re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)

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

    def spans(self, scanned: Scanned) -> Iterator[tuple[int, int]]:
        """Spans of all matches, in characters, from left to right."""
        return self.jumping(scanned, lambda _start, end: end)

    def jumping(self, scanned: Scanned, after: Callable[[int, int], int]) -> Iterator[tuple[int, int]]:
        """Spans of matches; the next search starts at `after(start, end)`, or at the end if that is less."""
        if self._find is None:
            at, text = 0, scanned.lower if self._lower else scanned.text
            while (match := self._pattern.search(text, at)) is not None:
                yield match.span()
                at = max(after(*match.span()), match.end(), match.start() + 1)
            return
        data = scanned.lower_data if self._lower else scanned.data
        ascii_only, at, chars = len(data) == len(scanned.text), 0, 0
        matches = iter(self._find(data, 0))
        while (match := next(matches, None)) is not None:
            start, end = match.span()
            first, last = start, end
            if not ascii_only:
                first = chars + len(data[at:start].decode())
                at, chars = end, first + len(data[start:end].decode())
                last = chars
            yield first, last
            resume = after(first, last)
            if resume > last:
                at, chars = end + len(scanned.text[last:resume].encode("utf-8", "replace")), resume
                matches = iter(self._find(data, at))


@lru_cache(maxsize=64)
def _by_re2(pattern: str) -> Callable[..., Iterable[Any]]:
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    find: Callable[..., Iterable[Any]] = re2.compile(pattern.encode(), options).finditer
    return find
