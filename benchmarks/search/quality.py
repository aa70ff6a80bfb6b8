"""Quality of search on the judged questions and on chats: recall and mean reciprocal rank, by language.

    python benchmarks/search/quality.py [--tiny] [--misses]

Prints one table with both halves of the judged questions. Compares ranked search with plain BM25 (words in lower
case), with BM25 over stems without function words, and with the search for all words. Recall at n is the share of the
questions whose needed memories are all among the first n.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import snowballstemmer

import retentive
from retentive.search.languages import stop_words
from search.chats import chats
from search.judged import LANGUAGES, Question, judged

DEPTH = 50
_STEMMERS = {"de": "german", "fr": "french", "es": "spanish", "ja": None}
_WORD = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]|[^\W\u3041-\u30ff\u4e00-\u9fff]+")
Find = Callable[[str], list[str]]
Figures = tuple[int, tuple[float, ...]]
HALVES = ("held_out", "tune")


def words_of(text: str) -> list[str]:
    """Words in lower case. Chinese and Japanese characters are words."""
    found: list[str] = _WORD.findall(text.lower())
    return found


def stems_of(language: str) -> Callable[[str], list[str]]:
    """Function that returns the stems of a text without its function words."""
    name = _STEMMERS.get(language, "english")
    if name is None:
        return words_of
    stemmer, left_out = snowballstemmer.stemmer(name), stop_words(name)
    return lambda text: [stemmer.stemWord(word) for word in words_of(text) if word not in left_out]


def bm25(
    memories: dict[str, str], split: Callable[[str], list[str]] = words_of, *, k1: float = 1.2, b: float = 0.75
) -> Find:
    """BM25 over whole memories and their paths."""
    counts = {path: Counter(split(f"{path}\n{text}")) for path, text in memories.items()}
    lengths = {path: sum(each.values()) for path, each in counts.items()}
    average = sum(lengths.values()) / len(lengths)
    having = Counter(word for each in counts.values() for word in each)

    def find(query: str) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(split(query)):
            rarity = log(1 + (len(counts) - having[word] + 0.5) / (having[word] + 0.5))
            for path, each in counts.items():
                if word in each:
                    scores[path] += rarity * each[word] / (each[word] + k1 * (1 - b + b * lengths[path] / average))
        return sorted(scores, key=lambda path: (-round(scores[path], 9), path))[:DEPTH]

    return find


def by_store(store: retentive.MemoryStore, mode: str) -> Find:
    """Search of a store in one of its modes."""

    def find(query: str) -> list[str]:
        try:
            found = store.search(query, mode="all" if mode == "all" else "ranked", limit=DEPTH)
        except retentive.InvalidInput:
            return []
        return [hit.path for hit in found.hits]

    return find


def measured(find: Find, questions: list[Question]) -> Figures:
    """Number of questions; recall at 1, 5 and 10, and the mean reciprocal rank of the first needed memory."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for question in questions:
        found = find(question.text)
        ranks = [found.index(path) + 1 if path in found else DEPTH * 2 for path in question.needed]
        for at, depth in enumerate((1, 5, 10)):
            sums[at] += max(ranks) <= max(depth, len(ranks))
        sums[3] += 1 / min(ranks) if min(ranks) <= DEPTH else 0.0
    return len(questions), tuple(each / max(len(questions), 1) for each in sums)


def sets(*, tiny: bool) -> Iterator[tuple[str, dict[str, str], dict[str, list[Question]]]]:
    """Name, memories, and questions by half, of the judged languages and of the chats."""
    for language in LANGUAGES[:1] if tiny else LANGUAGES:
        memories, asked = judged(language)
        yield language, memories, {half: [each for each in asked if each.half == half] for half in HALVES}
    if not tiny:
        memories, asked = chats()
        yield "chats", memories, {"held_out": asked, "tune": []}


def finders(store: retentive.MemoryStore, memories: dict[str, str], language: str) -> dict[str, Find]:
    """The searches that are compared, by name."""
    for path, text in memories.items():
        store.create(path, text)
    return {
        "ranked": by_store(store, "ranked"),
        "BM25": bm25(memories),
        "BM25, stemmed": bm25(memories, stems_of(language)),
        "all words": by_store(store, "all"),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true", help="one language only")
    parser.add_argument("--misses", action="store_true", help="print the questions that ranked search misses")
    given = parser.parse_args()
    print(f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.\n")
    print("| set | search | held out | first | in 5 | in 10 | MRR | tuned on | first | in 5 | in 10 | MRR |")
    print("| :-- | :-- " + "| --: " * 10 + "|")
    totals: dict[str, list[dict[str, Figures]]] = {}
    for language, memories, asked in sets(tiny=given.tiny):
        with retentive.open("sqlite://", sensitive="off", sensitive_likely="off") as opened:
            for name, find in finders(opened.store(), memories, language).items():
                row = {half: measured(find, questions) for half, questions in asked.items()}
                print(_row(language, name, row))
                if language != "chats":
                    totals.setdefault(name, []).append(row)
                if given.misses and name == "ranked":
                    _print_misses(find, [each for questions in asked.values() for each in questions])
    for name, rows in totals.items():
        print(_row("all languages", name, {half: _together([row[half] for row in rows]) for half in HALVES}))


def _together(figures: list[Figures]) -> Figures:
    """Figures of several sets, weighted by their questions."""
    count = sum(each[0] for each in figures)
    return count, tuple(sum(each[0] * each[1][at] for each in figures) / count for at in range(4))


def _row(language: str, name: str, figures: dict[str, Figures]) -> str:
    cells = [
        cell
        for count, means in (figures[half] for half in HALVES)
        for cell in ([str(count), *(f"{each:.3f}" for each in means)] if count else [""] * 5)
    ]
    return f"| {language} | {name} | {' | '.join(cells)} |"


def _print_misses(find: Find, questions: list[Question]) -> None:
    for each in questions:
        if not each.needed & set(find(each.text)[:1]):
            print("   ", each.kind, each.text, sorted(each.needed), find(each.text)[:2])


if __name__ == "__main__":
    main()
