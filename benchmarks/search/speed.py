"""Speed and memory of search: 10,000 memories of 2 KB, made of the lines of the judged set and of the documentation.

    python benchmarks/search/speed.py [--memories N]

CPU time of this thread, so other load on the machine counts little. Queries are three to seven words of the texts.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from retentive.search.index import scanned
from retentive.search.postings import Index, counted
from retentive.search.query import parse_query
from retentive.search.ranking import Ranking
from retentive.search.results import Document
from retentive.search.terms import terms_of
from search.judged import LANGUAGES, judged

DOCS = Path(__file__).parents[2] / "docs"


def texts(count: int, size: int = 2_048) -> list[str]:
    """Texts of random lines."""
    chooser = random.Random(5)
    lines = [
        line for page in sorted(DOCS.glob("*.md")) for line in page.read_text(encoding="utf-8").splitlines() if line
    ]
    lines += [line for name in LANGUAGES[:4] for text in judged(name)[0].values() for line in text.splitlines() if line]
    return ["\n".join(chooser.choices(lines, k=40))[:size] for _ in range(count)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=10_000)
    given = parser.parse_args()
    chooser, now = random.Random(6), datetime.now(UTC)
    data = [text.encode() for text in texts(given.memories)]
    documents = [
        Document(f"/memories/d{at % 50}/m{at}.md", each, now, f"m{at}", f"v{at}") for at, each in enumerate(data)
    ]
    words = [word for text in texts(200) for word in text.split() if word.isalpha()]
    queries = [" ".join(chooser.choices(words, k=chooser.randint(3, 7))) for _ in range(400)]
    start = time.process_time()
    index = Index()
    for document in documents:
        index.add(document, counted(document.path, document.text))
    print(f"build: {time.process_time() - start:.2f} s of CPU for {index.size / 1e6:.1f} MB")

    def search(query: str) -> None:
        parsed = parse_query(query, now.fromisoformat)
        terms = terms_of(parsed, index.languages())
        Ranking(index, terms, parsed, statistics=None, admit=None, sees=None).results(10)

    search(queries[0])
    for name in ("first time", "again"):
        taken = []
        for query in queries:
            start = time.thread_time()
            search(query)
            taken.append((time.thread_time() - start) * 1e3)
        taken.sort()
        print(f"{name}: p50 {taken[len(taken) // 2]:.2f} ms, p99 {taken[len(taken) * 99 // 100]:.2f} ms of CPU")
    start = time.process_time()
    scanned(documents, parse_query("where are refunds recorded", now.fromisoformat), 10)
    print(f"one search without an index: {(time.process_time() - start) * 1e3:.0f} ms of CPU")
    tracemalloc.start()
    again = Index()
    for document in documents:
        again.add(document, counted(document.path, document.text))
    print(f"index: {tracemalloc.get_traced_memory()[0] / again.size:.2f} times the text, beside the text itself")


if __name__ == "__main__":
    main()
