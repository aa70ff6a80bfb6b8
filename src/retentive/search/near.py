"""Words of an index that differ from a given word by one or two letters, to suggest for a mistyped one."""

from __future__ import annotations

from collections.abc import Callable

from retentive.search.analysis import key
from retentive.search.postings import Index

MAX_SUGGESTED = 3
_MIN_ONE, _MIN_TWO = 3, 6  # letters of a word from which one, or two, may differ


def near_words(word: str, index: Index, sees: Callable[[int], bool]) -> tuple[str, ...]:
    """Similar words of visible memories, the nearest and most frequent first. `sees` is called with their numbers."""
    given = key(word)
    if len(given) < _MIN_ONE or given.isdigit():
        return ()
    most = 1 if len(given) < _MIN_TWO else 2
    first, letters = given[0], set(given)
    nearby = {each for each in _first_changed(given) if index.has_word(each)}
    for each in index.words_between(first, chr(ord(first) + 1)):
        if abs(len(each) - len(given)) <= most and len(letters.symmetric_difference(each)) <= 2 * most:
            nearby.add(each)
    found = [(far, each) for each in nearby if 0 < (far := distance(given, each, most)) <= most]
    counted = [(far, -sum(map(sees, index.numbers_of(each))), each) for far, each in found]
    return tuple(each for _, count, each in sorted(counted) if count)[:MAX_SUGGESTED]


def _first_changed(word: str) -> list[str]:
    """Words whose first letter is another one, or was left out, swapped or added."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    swapped = [word[1:], word[1] + word[0] + word[2:]]
    return [*swapped, *(letter + word for letter in letters), *(letter + word[1:] for letter in letters)]


def distance(one: str, other: str, most: int) -> int:
    """Number of letters to insert, delete, replace or swap with the next one; `most` + 1 if more than `most`."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        this = [row]
        for column, against in enumerate(other, 1):
            cost = min(last[column] + 1, this[-1] + 1, last[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                cost = min(cost, before[column - 2] + 1)
            this.append(cost)
        if min(this) > most:
            return most + 1
        before, last = last, this
    return min(last[-1], most + 1)
