"""Upper bounds of the scores of all memories at once, so that few memories need an exact score.

Each memory has one byte: the sum of its bounds for all words, rounded up. The sums are additions of large integers,
which run in C: 10,000 memories take some 20 us per word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from math import ceil

from retentive.search.postings import Occurrences

_MOST_WORDS = 100  # with more words, all memories with a word have the same bound


class Bounds:
    """Level of each memory: its score is at most the level times `unit`. At level 0, it has no word of the query.

    `words` has the occurrences of each word, and a function from a count of the word to the most that it adds to a
    score.
    """

    def __init__(self, words: Sequence[tuple[Occurrences, Callable[[int], float]]], memories: int) -> None:
        bounds = [(found, {count: most(count) for count in found.least_sizes}) for found, most in words]
        total = sum(max(most.values(), default=0.0) for _, most in bounds)
        is_coarse = len(words) > _MOST_WORDS
        self.unit = (total / 255 if is_coarse else total / (255 - len(words))) or 1.0
        united, rare = 0, list[tuple[Occurrences, dict[int, int]]]()
        for found, most in bounds:
            levels = {count: 255 if is_coarse else ceil(each / self.unit) or 1 for count, each in most.items()}
            if found.counts is None:
                rare.append((found, levels))
                continue
            table = bytes(levels.get(count, 0) for count in range(256))
            each = int.from_bytes(found.counts.translate(table), "little")
            united = united | each if is_coarse else united + each
        self.levels = bytearray(united.to_bytes(memories, "little"))
        for found, levels in rare:
            for number, count in found.items():
                self.levels[number] = 255 if is_coarse else self.levels[number] + levels[count]

    @property
    def matching(self) -> int:
        """Number of the memories with any word."""
        return len(self.levels) - self.levels.count(0)

    def between(self, low: int, high: int) -> Iterable[int]:
        """Numbers of the memories with a level from `low` up to but not including `high`."""
        return compress(range(len(self.levels)), self._flags(low, high))

    def least(self, count: int) -> int:
        """The highest level that at least `count` memories reach; 1 if fewer memories match."""
        low, high = 1, 255
        while low < high:
            middle = (low + high + 1) // 2
            if self._flags(middle, 256).count(1) >= count:
                low = middle
            else:
                high = middle - 1
        return low

    def _flags(self, low: int, high: int) -> bytearray:
        return self.levels.translate(bytes(low) + b"\1" * (high - low) + bytes(256 - high))
