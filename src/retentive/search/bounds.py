"""Upper bounds of the scores of all memories, computed at once. Only memories with a high bound need an exact score.

The score of a memory is the sum of what each word of the query adds to it. An upper bound of each addend is known from
the number of times that the word occurs. For each memory, the sum of these bounds is stored in one byte, which is
called the *level* of the memory. A level is measured in multiples of `Bounds.unit` and rounded up.

The levels of all memories together form one large integer, so the bounds of a word are added to all levels with one
addition that runs in C. For 10,000 memories, this takes some 20 us per word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from math import ceil

from retentive.search.postings import Occurrences

_MOST_WORDS = 100  # in a longer query, all memories that contain a query word get the same bound


class Bounds:
    """Upper bounds of the scores of all memories in an index: a score is at most the level of the memory times `unit`.

    Memories are referred to by their numbers in the index. A memory at level 0 contains no word of the query. `words`
    has one pair for each word of the query: the occurrences of the word, and a function. The function takes the number
    of times that the word counts in a memory, and returns the most that the word can add to the score of such a memory.
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
        """Number of memories that contain at least one word of the query."""
        return len(self.levels) - self.levels.count(0)

    def between(self, low: int, high: int) -> Iterable[int]:
        """Return the numbers of the memories with a level of at least `low` and less than `high`."""
        return compress(range(len(self.levels)), self._flags(low, high))

    def least(self, count: int) -> int:
        """Return the highest level that at least `count` memories reach; 1 if fewer memories match."""
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
