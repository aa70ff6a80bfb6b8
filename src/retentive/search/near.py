"""Suggestions for a mistyped word: words of an index that differ from the mistyped word by one or two letters."""

from __future__ import annotations

from collections.abc import Callable

from retentive.search.analysis import key
from retentive.search.postings import Index

MAX_SUGGESTED = 3
_MIN_ONE, _MIN_TWO = 3, 6  # minimum letters of a word that may differ by one letter, and by two letters


class Similar:
    """Words that differ from a given word by one or two letters. Short words and numbers have no similar words."""

    def __init__(self, word: str) -> None:
        self._given = given = key(word)
        self._most = 0 if len(given) < _MIN_ONE or given.isdigit() else 1 if len(given) < _MIN_TWO else 2
        self._others = frozenset(_first_changed(given) if self._most else ())

    def distance(self, word: str) -> int:
        """Return by how many letters `word` differs from the given word; 0 if the words are equal or not similar."""
        far = distance(self._given, word, self._most) if self._most and self._may_be_near(word) else 0
        return far if far <= self._most else 0

    def _may_be_near(self, word: str) -> bool:
        given, most = self._given, self._most
        if abs(len(word) - len(given)) > most or word[:1] != given[0]:
            return word in self._others
        return len(set(word).symmetric_difference(given)) <= 2 * most

    def in_index(self, index: Index) -> list[tuple[int, str]]:
        """Return the similar words of an index, each with its distance."""
        first = self._given[:1]
        if not self._most:
            return []
        words = [*filter(index.has_word, self._others), *index.words_between(first, chr(ord(first) + 1))]
        return [(far, word) for word in dict.fromkeys(words) if (far := self.distance(word))]


def near_words(word: str, index: Index, sees: Callable[[int], bool]) -> tuple[str, ...]:
    """Return the best suggestions for a word, nearest first. Of equally near words, the most frequent comes first.

    `sees` takes the number of a memory and returns whether the actor may see it. Only words in such memories are
    suggested.
    """
    counted = [(far, -sum(map(sees, index.numbers_of(each))), each) for far, each in Similar(word).in_index(index)]
    return tuple(each for _, count, each in sorted(counted) if count)[:MAX_SUGGESTED]


def _first_changed(word: str) -> list[str]:
    """Return variants of a word that differ at its start.

    In each variant, the first letter is removed or replaced, the first two letters are swapped, or a letter is put
    before the first.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    swapped = [word[1:], word[1] + word[0] + word[2:]]
    return [*swapped, *(letter + word for letter in letters), *(letter + word[1:] for letter in letters)]


def distance(one: str, other: str, most: int) -> int:
    """Return the edit distance of two words.

    An edit inserts, deletes or replaces a letter, or swaps it with the next letter.

    Returns `most + 1` if the distance exceeds `most`.
    """
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
