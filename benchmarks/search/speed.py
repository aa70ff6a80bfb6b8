"""Speed and memory of search: the first search of a process, and the next ones, in a store of 15 MB.

    python benchmarks/search/speed.py [--quick]

Memories of 2 KB are made of the lines of the judged set and of the documentation, in SQLite. Queries are three to seven
words of the texts. Processor times, which vary less than others with the load of the machine.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns

sys.path.insert(0, str(Path(__file__).parents[1]))

import retentive
from figures import duration, figures, parser, report, table, workplace
from retentive.storage.contract import Transaction, create_or_update
from search.judged import LANGUAGES, judged

SIZES = {"full": (7_500, 400), "quick": (2_000, 100), "tiny": (100, 5)}
"""Memories, and queries."""
DOCS = Path(__file__).parents[2] / "docs"


def texts(count: int) -> list[str]:
    """Texts of random lines."""
    chooser = random.Random(5)
    lines = [line for page in sorted(DOCS.glob("*.md")) for line in page.read_text("utf-8").splitlines() if line]
    lines += [line for name in LANGUAGES[:4] for text in judged(name)[0].values() for line in text.splitlines() if line]
    return ["\n".join(chooser.choices(lines, k=40))[:2_000] for _ in range(count)]


def took(action: Callable[[], object]) -> int:
    """Nanoseconds of processor time."""
    start = process_time_ns()
    action()
    return process_time_ns() - start


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Measure and print."""
    chosen = parser(__doc__).parse_args()
    count, queries = SIZES[chosen.size]
    data = [text.encode() for text in texts(count)]
    chooser = random.Random(6)
    words = [word for text in data[:200] for word in text.decode(errors="ignore").split() if word.isalpha()]
    asked = [" ".join(chooser.choices(words, k=chooser.randint(3, 7))) for _ in range(queries)]
    size = sum(map(len, data))

    def work(tx: Transaction) -> None:
        for number, text in enumerate(data):
            tx.record([create_or_update(None, f"/memories/d{number % 50}/m{number}.md", text)], None)

    with workplace(chosen.dir) as folder, retentive.open(f"sqlite:///{folder}/m.db", max_store_bytes=0) as place:
        store = place.store()
        store._core.backend.write(store.id, work)
        data.clear()
        before = resident()
        first = took(lambda: store.search(asked[0]))
        share = (resident() - before) / size
        one = figures([took(lambda query=query: store.search(query)) for query in asked])  # type: ignore[misc]
        as_written = took(lambda: store.search("refunds are recorded", mode="all"))
    cells = (f"{size / 1e6:.0f} MB", f"{first / 1e9:.2f} s", f"{duration(one.median_ms)} / {duration(one.p99_ms)}")
    row = (*cells, f"{share:.1f} times the text", duration(as_written / 1e6))
    report(chosen, table(("texts", "first search", "next: p50 / p99", "memory", "all words as written"), [row]))


if __name__ == "__main__":
    main()
