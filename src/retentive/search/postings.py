"""Inverted index of one memory store, in RAM. It stores which memories contain each word, and how often.

Each memory has a number in the index. The postings of a word are a sorted array of these numbers. The array has one
entry for each occurrence of the word, so that counting and merging run in C. Half of all words occur only once. For
such a word, the index stores the single number instead of an array.

Words are stored as written (*surfaces*), so building the index needs no stemmer. A query is expanded to the few
surfaces that share a stem with its words (`analysis.prefixes`).
"""

from __future__ import annotations

import re
import zlib
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import TypeAlias

from retentive.search.analysis import detected, is_dense, key, parts, surfaces
from retentive.search.dates import dates
from retentive.search.results import Document
from retentive.search.terms import Term
from retentive.values.paths import ROOT

Postings: TypeAlias = "int | array[int]"
_HEADING = re.compile(r"\n#{1,6}[ \t].*")
_DIGIT = re.compile(r"[0-9]")
IN_PATH = 3  # a word in the path counts three times
IN_HEADING = 1  # a word in a heading counts one more time
SAMPLE = 128  # approximate number of memories from which the languages of a store are detected
_FEW_KEYS = 200  # up to this number of new keys are inserted one at a time; with more, all keys are sorted again
# A term with less than one occurrence in so many memories is rare and has a dict of counts. Others have a bytearray.
_RARE = 16
_DICT_BYTES = 90  # bytes of RAM per entry of such a dict
_LARGEST = 1 << 62
_MOST_MARKED = 4  # conditions whose results are cached
# Occurrences of recent terms are cached up to the greater of these: bytes, and share of the bytes of text.
_MAX_CACHED = 1 << 22
_CACHED_SHARE = 0.5
K1 = 1.2  # parameters of BM25, tuned on benchmarks/search
B = 0.75


def counted(path: str, text: str) -> list[str]:
    """Return the surfaces of a memory, each repeated as many times as it counts.

    A word in a heading counts twice, and a word in the path counts three times.
    """
    found = surfaces(text)
    if "#" in text:
        for heading in _HEADING.findall("\n" + text):
            found += surfaces(heading) * IN_HEADING
    found += surfaces(path.removeprefix(ROOT)) * IN_PATH
    if _DIGIT.search(text) or _DIGIT.search(path):
        for date in dates(f"{path}\n{text}"):
            found += date.surfaces
    return found


def in_sample(memory_id: str, memories: int) -> bool:
    """Return whether a memory belongs to the sample from which the languages of a store are detected."""
    return memories <= SAMPLE or zlib.crc32(memory_id.encode()) % (memories // SAMPLE) == 0


class Occurrences:
    """Occurrences of a search term: the words as written (`surfaces`) that match it, and its count in each memory.

    `count_of` takes the number of a memory and returns how often the term counts there. It returns 0 or None if the
    memory does not contain the term.
    """

    __slots__ = ("_by_number", "count_of", "counts", "least_sizes", "memories", "surfaces")

    def __init__(self, surfaces: tuple[str, ...], postings: list[Postings], sizes: list[int]) -> None:
        self.surfaces = surfaces
        found = _counts([(each,) if isinstance(each, int) else each for each in postings], len(sizes))
        self.count_of: Callable[[int], int | None]
        self.counts: bytearray | None = None
        """The count in each memory, as one byte per memory. None for a rare term, whose counts are in a dict."""
        self._by_number: dict[int, int] = {}
        if isinstance(found, bytearray):
            self.counts, self.count_of = found, found.__getitem__
            self.memories = len(found) - found.count(0)
        else:
            self._by_number, self.count_of = found, found.get
            self.memories = len(found)
        self.least_sizes: dict[int, int] = {}
        """Maps each count that occurs to the size in bytes of the smallest memory with this count."""
        least = self.least_sizes
        for number, count in self.items():
            size = sizes[number]
            if size < least.get(count, _LARGEST):
                least[count] = size

    def items(self) -> Iterable[tuple[int, int]]:
        """Return pairs: the number of a memory that contains the term, and how often the term counts there."""
        if self.counts is None:
            return self._by_number.items()
        return zip(self.numbers, compress(self.counts, self.counts), strict=False)

    @property
    def numbers(self) -> Iterable[int]:
        """Numbers of the memories that contain the term, each once."""
        return self._by_number if self.counts is None else compress(range(len(self.counts)), self.counts)

    @property
    def weight(self) -> int:
        """Approximate bytes of RAM."""
        return _DICT_BYTES * len(self._by_number) if self.counts is None else len(self.counts)

    def most(self, count: int, flat: float, slope: float) -> float:
        """Return the greatest value of `count / (count + norm)`, the BM25 factor, among memories with this count.

        The smallest memory has the least norm, and so the greatest factor.
        """
        return count / (count + flat + slope * self.least_sizes[count])


def _counts(postings: Sequence[Sequence[int]], memories: int) -> dict[int, int] | bytearray:
    if sum(map(len, postings)) * _RARE > memories:
        flags = bytearray(memories)
        try:
            for number in chain.from_iterable(postings):
                flags[number] += 1
        except ValueError:  # a count of more than 255
            pass
        else:
            return flags
    return Counter(chain.from_iterable(postings))


class _ByWord(dict[str, Postings]):
    """Postings by surface, for a loop that calls `postings[surface].append(number)` for each surface of a memory.

    The postings of a surface are the numbers of the memories that contain it. For a new surface, the lookup stores
    `number` as the only posting, and adds the surface to `fresh`. The lookup then returns this object, whose `append`
    does nothing, because the number is already stored.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.fresh: list[str] = []

    def __missing__(self, surface: str) -> _ByWord:
        self[surface] = self.number
        self.fresh.append(surface)
        return self

    def append(self, number: int) -> None:
        """Do nothing, because `__missing__` has stored the number."""


class Index:
    """Inverted index of the memories of one store. Not thread-safe."""

    def __init__(self) -> None:
        self.documents: list[Document | None] = []
        self.sizes: list[int] = []
        self.updated: list[float] = []
        """Time of the newest change of each memory, as a timestamp."""
        self.memories = 0
        self.size = 0
        self._postings = _ByWord()
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._keys: list[str] = []  # sorted
        self._new_keys: set[str] = set()
        self._variants: dict[str, tuple[str, ...]] = {}
        self._cached: OrderedDict[tuple[str, tuple[str, ...]], Occurrences] = OrderedDict()
        self._cached_bytes = 0
        self._languages: tuple[str, ...] = ()
        self._marked: dict[Hashable, tuple[Callable[[Document], bool], set[int]]] = {}

    # -- changes ----------------------------------------------------------------------------------------------------

    def add(self, document: Document, words: Iterable[str]) -> None:
        """Add a memory that is not in the index yet. `words` has its surfaces, each repeated as often as it counts."""
        number = self._free.pop() if self._free else len(self.documents)
        if number == len(self.documents):
            self.documents.append(document)
            self.sizes.append(len(document.data) or 1)
            self.updated.append(document.updated_at.timestamp())
            self._append(number, words)
        else:
            self.documents[number] = document
            self.sizes[number] = len(document.data) or 1
            self.updated[number] = document.updated_at.timestamp()
            self._insert(number, Counter(words))
        self._numbers[document.memory_id] = number
        for is_marked, numbers in self._marked.values():
            if is_marked(document):
                numbers.add(number)
        self.count(len(document.data))

    def marked(self, key: Hashable, is_marked: Callable[[Document], bool]) -> set[int]:
        """Return the numbers of the memories that meet a condition.

        The result is cached by `key` and kept up to date when memories are added or removed.
        """
        if key not in self._marked:
            if len(self._marked) == _MOST_MARKED:
                del self._marked[next(iter(self._marked))]
            found = {number for number, each in enumerate(self.documents) if each is not None and is_marked(each)}
            self._marked[key] = is_marked, found
        return self._marked[key][1]

    def count(self, size: int, memories: int = 1) -> None:
        """Count memories as part of the store, without indexing their words. Each memory has `size` bytes."""
        self.memories += memories
        self.size += size * memories
        self._cached.clear()
        self._cached_bytes = 0
        self._languages = ()

    def _append(self, number: int, words: Iterable[str]) -> None:
        postings = self._postings
        postings.number = number
        for surface in words:
            try:
                postings[surface].append(number)  # type: ignore[union-attr] # an exception is faster than a test
            except AttributeError:
                postings[surface] = array("I", (postings[surface], number))  # type: ignore[arg-type] # a single number

    def _insert(self, number: int, counts: Counter[str]) -> None:
        for surface, times in counts.items():
            known = self._postings.get(surface)
            if known is None:
                self._postings.fresh.append(surface)
                known = array("I")
            elif isinstance(known, int):
                known = array("I", (known,))
            at = bisect_left(known, number)
            known[at:at] = array("I", (number,)) * times
            self._postings[surface] = known[0] if len(known) == 1 else known

    def remove(self, memory_id: str) -> None:
        """Remove a memory, and each word that no other memory contains. Does nothing for an unknown id."""
        number = self._numbers.pop(memory_id, None)
        document = None if number is None else self.documents[number]
        if number is None or document is None:
            return
        self._learn()
        for surface in set(counted(document.path, document.text)):
            known = self._postings[surface]
            if not isinstance(known, int):
                del known[bisect_left(known, number) : bisect_right(known, number)]
                if len(known) > 1:
                    continue
                if known:
                    self._postings[surface] = known[0]
                    continue
            del self._postings[surface]
            self._forget(surface)
        for _, numbers in self._marked.values():
            numbers.discard(number)
        self.documents[number] = None
        self._free.append(number)
        self.count(len(document.data), -1)

    def _learn(self) -> None:
        """Add all surfaces that are new since the last call of this method to the lookup by key."""
        for surface in self._postings.fresh:
            if surface.isascii() and (surface.isdigit() or (surface.islower() and "_" not in surface)):
                self._new_keys.add(surface)
                continue
            if is_dense(surface) or surface[0] == "@":
                continue
            for part in parts(surface):
                known = key(part)
                self._new_keys.add(known)
                if known != surface:
                    self._variants[known] = (*self._variants.get(known, ()), surface)
        self._postings.fresh.clear()

    def _forget(self, surface: str) -> None:
        if surface[0] == "@" or is_dense(surface):
            return
        keys = self._sorted_keys()
        for known in map(key, parts(surface)):
            left = tuple(each for each in self._variants.get(known, ()) if each != surface)
            if left:
                self._variants[known] = left
                continue
            self._variants.pop(known, None)
            at = bisect_left(keys, known)
            if known not in self._postings and at < len(keys) and keys[at] == known:
                del keys[at]

    def _sorted_keys(self) -> list[str]:
        self._learn()
        if self._new_keys:
            fresh = [each for each in self._new_keys if not _has(self._keys, each)]
            if len(fresh) > _FEW_KEYS:
                self._keys = sorted([*self._keys, *fresh])
            else:
                for each in fresh:
                    insort(self._keys, each)
            self._new_keys.clear()
        return self._keys

    # -- reads --------------------------------------------------------------------------------------------------------

    def version_ids(self) -> dict[str, str]:
        """Return the id of the indexed version of each memory, by memory id."""
        return {each.memory_id: each.version_id for each in self.documents if each is not None}

    def languages(self) -> tuple[str, ...]:
        """Detect the languages of the store in a sample of its memories.

        Only languages in Latin script are detected.
        """
        if not self._languages:
            numbers = [each for name, each in self._numbers.items() if in_sample(name, self.memories)]
            sample = [document for number in numbers if (document := self.documents[number]) is not None]
            self._languages = detected(map(word_set, sample))
        return self._languages

    def occurrences(self, term: Term) -> Occurrences:
        """Return the surfaces that match a term, and how often the term counts in each memory."""
        name = term.text, term.languages
        found = self._cached.get(name)
        if found is None:
            words = tuple(self._surfaces(term))
            found = Occurrences(words, [self._postings[each] for each in words], self.sizes)
            self._cached[name] = found
            self._cached_bytes += found.weight
            while len(self._cached) > 1 and self._cached_bytes > max(_MAX_CACHED, self.size * _CACHED_SHARE):
                self._cached_bytes -= self._cached.popitem(last=False)[1].weight
        else:
            self._cached.move_to_end(name)
        return found

    def _surfaces(self, term: Term) -> list[str]:
        if term.stems:
            return [surface for surface in self._near(term) if term.matches(surface)]
        if term.is_character:
            return [surface for surface in self._postings if surface[0] == term.text]
        return [term.text] if term.text in self._postings else []

    def _near(self, term: Term) -> list[str]:
        keys, found = self._sorted_keys(), dict[str, None]()
        for prefix in term.beginnings:
            for known in keys[bisect_left(keys, prefix) : bisect_left(keys, prefix + "\U0010ffff")]:
                if known in self._postings:
                    found[known] = None
                found |= dict.fromkeys(self._variants.get(known, ()))
        return list(found)

    @staticmethod
    def norms(memories: int, size: int) -> tuple[float, float]:
        """Return the two BM25 parameters `flat` and `slope`.

        The norm of a memory with `n` bytes of text is `flat + slope * n`.
        """
        return K1 * (1 - B), K1 * B * memories / max(size, 1)

    def words_between(self, low: str, high: str) -> list[str]:
        """Return the keys (folded words without accents) from `low` up to but not including `high`, sorted."""
        keys = self._sorted_keys()
        return keys[bisect_left(keys, low) : bisect_left(keys, high)]

    def has_word(self, word: str) -> bool:
        """Return whether a key (a folded word without accents) occurs in the index."""
        return _has(self._sorted_keys(), word)

    def numbers_of(self, word: str) -> Iterator[int]:
        """Yield the numbers of the memories that contain a word with this key (folded, without accents)."""
        for surface in (word, *self._variants.get(word, ())):
            postings = self._postings.get(surface, ())
            yield from (postings,) if isinstance(postings, int) else dict.fromkeys(postings)


def word_set(document: Document) -> frozenset[str]:
    """Return the folded words of a document."""
    return frozenset(surface.casefold() for surface in surfaces(document.text))


def _has(keys: list[str], word: str) -> bool:
    at = bisect_left(keys, word)
    return at < len(keys) and keys[at] == word
