"""Inverted index of one memory store, in memory: for each word as written, the memories with it and how often.

A posting is one integer: the number of the memory, and seven bits for the count. A word with one memory has this
integer alone, since half of all words occur once; other words have a sorted array. Words are not stemmed here: a query
expands to the few words that share a stem with it (`analysis.prefixes`), so that building needs no stemmer.
"""

from __future__ import annotations

import re
import zlib
from array import array
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from retentive.search.analysis import detected, is_dense, key, parts, surfaces
from retentive.search.dates import dates
from retentive.search.results import Document
from retentive.search.terms import Term
from retentive.values.paths import ROOT

Postings: TypeAlias = "int | array[int]"
_BITS = 7
_MOST = (1 << _BITS) - 1
_HEADING = re.compile(r"(?m)^#{1,6}[ \t].*")
_DIGIT = re.compile(r"[0-9]")
IN_PATH = 3  # times that a word of the path counts
IN_HEADING = 1  # times more that a word of a heading counts
SAMPLE = 128  # memories in which languages are detected
_FEW_KEYS = 200  # new words are inserted one at a time up to this number
_MAX_CACHED = 50_000  # entries cached for recent terms, in a small store
_CACHED_PER_MEMORY = 8
K1 = 1.2  # parameters of BM25, tuned on benchmarks/search
B = 0.75


def counted(path: str, text: str) -> Counter[str]:
    """Surfaces of a memory and how often each counts. Words of headings and of the path count more than once."""
    counts = Counter(surfaces(text))
    if "#" in text:
        for heading in _HEADING.findall(text):
            for surface in surfaces(heading):
                counts[surface] += IN_HEADING
    for surface in surfaces(path.removeprefix(ROOT)):
        counts[surface] += IN_PATH
    if _DIGIT.search(text) or _DIGIT.search(path):
        for found in dates(f"{path}\n{text}"):
            counts.update(found.surfaces)
    return counts


def in_sample(memory_id: str, memories: int) -> bool:
    """Return whether a memory belongs to the sample in which languages are detected."""
    return memories <= SAMPLE or zlib.crc32(memory_id.encode()) % (memories // SAMPLE) == 0


class Occurrences(NamedTuple):
    """Occurrences of a term: its surfaces, and the numbers of the memories with it, as keys and as a bit mask.

    The value of a number is `count / (count + norm)`, the part of BM25 that depends on the memory; `most` is the
    greatest.
    """

    surfaces: tuple[str, ...]
    shares: dict[int, float]
    mask: int
    most: float


class Index:
    """Inverted index. Not for several threads at once."""

    def __init__(self) -> None:
        self.documents: list[Document | None] = []
        self.sizes: list[int] = []
        self.memories = 0
        self.size = 0
        self._postings: dict[str, Postings] = {}
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._keys: list[str] = []  # sorted
        self._new_keys: set[str] = set()
        self._variants: dict[str, tuple[str, ...]] = {}
        self._cached: OrderedDict[tuple[str, tuple[str, ...]], Occurrences] = OrderedDict()
        self._cached_entries = 0
        self._languages: tuple[str, ...] = ()

    # -- changes ----------------------------------------------------------------------------------------------------

    def add(self, document: Document, counts: Mapping[str, int]) -> None:
        """Add a memory that is not in the index."""
        number = self._free.pop() if self._free else len(self.documents)
        size = len(document.data)
        if number == len(self.documents):
            self.documents.append(document)
            self.sizes.append(size)
            self._append(number, counts)
        else:
            self.documents[number] = document
            self.sizes[number] = size
            self._insert(number, counts)
        self._numbers[document.memory_id] = number
        self.count(size)

    def count(self, size: int, memories: int = 1) -> None:
        """Count a memory in the statistics only."""
        self.memories += memories
        self.size += size * memories
        self._cached.clear()
        self._cached_entries = 0
        self._languages = ()

    def _append(self, number: int, counts: Mapping[str, int]) -> None:
        base, postings = number << _BITS, self._postings
        for surface, times in counts.items():
            posting = base | times if times < _MOST else base | _MOST
            known = postings.get(surface)
            if known is None:
                postings[surface] = posting
                self._learn(surface)
            elif type(known) is int:
                postings[surface] = array("Q", (known, posting))
            else:
                known.append(posting)  # type: ignore[union-attr] # an array, as `type() is int` does not narrow

    def _insert(self, number: int, counts: Mapping[str, int]) -> None:
        for surface, times in counts.items():
            posting = number << _BITS | min(times, _MOST)
            known = self._postings.get(surface)
            if known is None:
                self._postings[surface] = posting
                self._learn(surface)
            elif isinstance(known, int):
                self._postings[surface] = array("Q", sorted((known, posting)))
            else:
                insort(known, posting)

    def remove(self, memory_id: str) -> None:
        """Remove a memory and each word that no other memory has. Does nothing for an unknown id."""
        number = self._numbers.pop(memory_id, None)
        document = None if number is None else self.documents[number]
        if number is None or document is None:
            return
        low = number << _BITS
        for surface in counted(document.path, document.text):
            known = self._postings[surface]
            if isinstance(known, int):
                del self._postings[surface]
                self._forget(surface)
                continue
            del known[bisect_left(known, low)]
            if len(known) == 1:
                self._postings[surface] = known[0]
        self.documents[number] = None
        self._free.append(number)
        self.count(self.sizes[number], -1)

    def _learn(self, surface: str) -> None:
        if surface[0] == "@" or is_dense(surface):
            return
        for part in parts(surface):
            known = key(part)
            self._new_keys.add(known)
            if known != surface:
                self._variants[known] = (*self._variants.get(known, ()), surface)

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
        """The indexed version of each memory, by memory id."""
        return {each.memory_id: each.version_id for each in self.documents if each is not None}

    def languages(self) -> tuple[str, ...]:
        """Languages in Latin script of the memories, detected in a sample."""
        if not self._languages:
            numbers = [each for name, each in self._numbers.items() if in_sample(name, self.memories)]
            sample = [document for number in numbers if (document := self.documents[number]) is not None]
            self._languages = detected(map(word_set, sample))
        return self._languages

    def occurrences(self, term: Term) -> Occurrences:
        """The surfaces that match a term, and how often it counts in each memory."""
        name = term.text, term.languages
        found = self._cached.get(name)
        if found is None:
            found = self._cached[name] = self._merged(self._surfaces(term))
            self._cached_entries += len(found.shares)
            room = max(_MAX_CACHED, _CACHED_PER_MEMORY * self.memories)
            while len(self._cached) > 1 and self._cached_entries > room:
                self._cached_entries -= len(self._cached.popitem(last=False)[1].shares)
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

    def _merged(self, surfaces: list[str]) -> Occurrences:
        merged: dict[int, int] = {}
        for surface in surfaces:
            postings = self._postings[surface]
            each = (postings,) if isinstance(postings, int) else postings
            if not merged:
                merged = {posting >> _BITS: posting & _MOST for posting in each}
                continue
            for posting in each:
                number = posting >> _BITS
                merged[number] = merged.get(number, 0) + (posting & _MOST)
        flags = bytearray(len(self.documents) // 8 + 1)
        for number in merged:
            flags[number >> 3] |= 1 << (number & 7)
        flat, slope = self.norms(self.memories, self.size)
        sizes = self.sizes
        shares = {number: count / (count + flat + slope * sizes[number]) for number, count in merged.items()}
        return Occurrences(tuple(surfaces), shares, int.from_bytes(flags, "little"), max(shares.values(), default=0.0))

    @staticmethod
    def norms(memories: int, size: int) -> tuple[float, float]:
        """Two numbers: the norm of a memory is the first, and the second times its bytes."""
        return K1 * (1 - B), K1 * B * memories / max(size, 1)

    def words_between(self, low: str, high: str) -> list[str]:
        """Folded words without accents, from `low` up to but not including `high`."""
        keys = self._sorted_keys()
        return keys[bisect_left(keys, low) : bisect_left(keys, high)]

    def has_word(self, word: str) -> bool:
        """Return whether a folded word without accents occurs."""
        return _has(self._sorted_keys(), word)

    def numbers_of(self, word: str) -> Iterator[int]:
        """Numbers of the memories with a folded word without accents."""
        for surface in (word, *self._variants.get(word, ())):
            postings = self._postings.get(surface, ())
            for posting in (postings,) if isinstance(postings, int) else postings:
                yield posting >> _BITS


def word_set(document: Document) -> frozenset[str]:
    """Folded words of a document."""
    return frozenset(surface.casefold() for surface in surfaces(document.text))


def _has(keys: list[str], word: str) -> bool:
    at = bisect_left(keys, word)
    return at < len(keys) and keys[at] == word
