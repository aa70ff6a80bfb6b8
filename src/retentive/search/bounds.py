"""Upper bounds of the scores of all memories at once, so that few memories need an exact score.

Each memory has one byte: the sum of the weights of the words that it has, rounded up. The sums are additions of large
integers, which run in C: 10,000 memories take a few microseconds per word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

from retentive.search.postings import Occurrences

_MOST_WORDS = 100  # with more words, all memories with a word have the same bound


class Bounds:
    """Levels of memories: no score is greater than the level times `unit`. Level 0: without any word of the query."""

    def __init__(self, words: Sequence[tuple[Occurrences, float]], memories: int) -> None:
        total = sum(most for _, most in words)
        is_coarse = len(words) > _MOST_WORDS
        self.unit = (total / 255 if is_coarse else total / (255 - len(words))) or 1.0
        common, rare = 0, list[tuple[Occurrences, int]]()
        for found, most in words:
            weight = 255 if is_coarse else int(most / self.unit) + 1
            if found.flags is None:
                rare.append((found, weight))
            elif is_coarse:
                common |= found.flags * weight
            else:
                common += found.flags * weight
        self.levels = bytearray(common.to_bytes(memories, "little"))
        for found, weight in rare:
            for number in found.numbers:
                self.levels[number] = 255 if is_coarse else self.levels[number] + weight

    @property
    def matching(self) -> int:
        """Number of the memories with any word."""
        return len(self.levels) - self.levels.count(0)

    def between(self, low: int, high: int) -> Iterable[int]:
        """Numbers of the memories with a level from `low` up to but not including `high`."""
        return compress(range(len(self.levels)), self._flags(low, high))

    def least(self, count: int) -> int:
        """The highest level that as many memories have or exceed; 1 if fewer memories match."""
        low, high = 1, 255
        while low < high:
            middle = (low + high + 1) // 2
            if self._flags(middle, 256).count(1) >= count:
                low = middle
            else:
                high = middle - 1
        return low

    def _flags(self, low: int, high: int) -> bytearray:
        return self.levels.translate(bytes(low <= level < high for level in range(256)))
