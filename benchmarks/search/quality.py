"""Quality of search on the judged questions: recall and mean reciprocal rank, by language.

    python benchmarks/search/quality.py [--half tune|held_out] [--tiny]

Compares ranked search with plain BM25 (words in lower case, no stemming, no stop words) and with the search for all
words. Recall at n is the share of the questions whose needed memories are all among the first n.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from math import log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import retentive
from search.judged import LANGUAGES, Question, judged

DEPTH = 50
_WORD = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]|[^\W\u3041-\u30ff\u4e00-\u9fff]+")
Find = Callable[[str], list[str]]


def plain_bm25(memories: dict[str, str], *, k1: float = 1.2, b: float = 0.75) -> Find:
    """BM25 over whole memories and their paths. Chinese and Japanese characters are words."""
    counts = {path: Counter(_WORD.findall(f"{path}\n{text}".lower())) for path, text in memories.items()}
    lengths = {path: sum(each.values()) for path, each in counts.items()}
    average = sum(lengths.values()) / len(lengths)
    having = Counter(word for each in counts.values() for word in each)

    def find(query: str) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for word in set(_WORD.findall(query.lower())):
            rarity = log(1 + (len(counts) - having[word] + 0.5) / (having[word] + 0.5))
            for path, each in counts.items():
                if word in each:
                    scores[path] += rarity * each[word] / (each[word] + k1 * (1 - b + b * lengths[path] / average))
        return sorted(scores, key=lambda path: -scores[path])[:DEPTH]

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


def measured(find: Find, questions: list[Question]) -> tuple[float, float, float, float]:
    """Recall at 1, 5 and 10 and the mean reciprocal rank."""
    sums: list[float] = [0.0, 0.0, 0.0, 0.0]
    for question in questions:
        found = find(question.text)
        ranks = [found.index(path) + 1 if path in found else DEPTH * 2 for path in question.needed]
        for at, depth in enumerate((1, 5, 10)):
            sums[at] += max(ranks) <= max(depth, len(ranks))
        sums[3] += 1 / min(ranks) if min(ranks) <= DEPTH else 0.0
    recall_1, recall_5, recall_10, reciprocal = (each / len(questions) for each in sums)
    return recall_1, recall_5, recall_10, reciprocal


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=["tune", "held_out"], default="held_out")
    parser.add_argument("--tiny", action="store_true", help="one language only")
    parser.add_argument("--misses", action="store_true", help="print the questions that ranked search misses")
    given = parser.parse_args()
    print("| language | questions | search | first | in 5 | in 10 | MRR |\n| --- | --- | --- | --- | --- | --- | --- |")
    totals: dict[str, list[tuple[float, ...]]] = {}
    for language in LANGUAGES[:1] if given.tiny else LANGUAGES:
        memories, asked = judged(language)
        questions = [each for each in asked if each.half == given.half]
        with retentive.open("sqlite://", sensitive="off", sensitive_likely="off") as opened:
            store = opened.store()
            for path, text in memories.items():
                store.create(path, text)
            finders = {
                "ranked": by_store(store, "ranked"),
                "plain BM25": plain_bm25(memories),
                "all words": by_store(store, "all"),
            }
            for name, find in finders.items():
                row = measured(find, questions)
                totals.setdefault(name, []).append((*row, len(questions)))
                print(f"| {language} | {len(questions)} | {name} | " + " | ".join(f"{each:.3f}" for each in row) + " |")
            if given.misses:
                for each in questions:
                    if not each.needed & set(finders["ranked"](each.text)[:1]):
                        print("   ", each.kind, each.text, sorted(each.needed), finders["ranked"](each.text)[:2])
    for name, rows in totals.items():
        count = sum(row[4] for row in rows)
        means = [sum(row[at] * row[4] for row in rows) / count for at in range(4)]
        print(f"| all | {count:.0f} | {name} | " + " | ".join(f"{each:.3f}" for each in means) + " |")


if __name__ == "__main__":
    main()
