"""Speed and memory of search: 10,000 memories of 2 KB, made of the lines of the judged set and of the documentation.

    python benchmarks/search/speed.py [--memories N] [--ascii] [--no-commands]

Prints CPU times, which vary less than others with the load of the machine, a row for README.md, and the median time of
a search by the command line in a store of SQLite. Queries are three to seven words of the texts.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

import retentive
from retentive.search.index import Index, index_of
from retentive.search.literal import parse_literal, search_literal
from retentive.search.query import parse_query
from retentive.search.ranking import search_index
from retentive.search.results import Document
from search.judged import LANGUAGES, judged

DOCS = Path(__file__).parents[2] / "docs"
ONE_SHOT = "where are refunds recorded"


def texts(count: int, size: int = 2_048, *, is_ascii: bool = False) -> list[str]:
    """Texts of random lines."""
    chooser = random.Random(5)
    lines = [
        line for page in sorted(DOCS.glob("*.md")) for line in page.read_text(encoding="utf-8").splitlines() if line
    ]
    lines += [line for name in LANGUAGES[:4] for text in judged(name)[0].values() for line in text.splitlines() if line]
    lines = [line for line in lines if line.isascii() or not is_ascii]
    return ["\n".join(chooser.choices(lines, k=40))[:size] for _ in range(count)]


def cpu_time(action: Callable[[], object]) -> float:
    """Seconds of CPU of this thread."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def resident() -> int:
    """Bytes of memory of this process; the most so far on systems without /proc."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


def query_times(index: Index, queries: list[str], now: datetime) -> Iterator[float]:
    """Milliseconds of CPU of each query."""

    def search(query: str) -> None:
        search_index(index, parse_query(query, now.fromisoformat), limit=10)

    for query in queries:
        yield cpu_time(lambda query=query: search(query)) * 1e3  # type: ignore[misc] # mypy infers no type of a lambda


def commands(memories: list[str]) -> dict[str, tuple[float, float]]:
    """Seconds of CPU, and by the clock, of a search by the command line: ranked, and for all words."""
    with tempfile.TemporaryDirectory() as folder:
        place = f"sqlite:///{folder}/memory.db"
        with retentive.open(place, sensitive="off", sensitive_likely="off") as opened:
            store = opened.store()
            for at, text in enumerate(memories):
                store.create(f"/memories/d{at % 50}/m{at}.md", text)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/pyc", "PYTHONDONTWRITEBYTECODE": ""}
        taken: dict[str, list[tuple[float, float]]] = {"ranked": [], "all words": []}
        for _ in range(6):  # the first writes bytecode
            for name, options in (("ranked", []), ("all words", ["--all"])):
                command = [sys.executable, "-c", "from retentive.cli import main; main()", "--at", place, "search"]
                before, start = os.times(), time.perf_counter()
                subprocess.run([*command, *options, ONE_SHOT], env=environment, capture_output=True, check=False)
                after = os.times()
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                taken[name].append((cpu, time.perf_counter() - start))
        return {name: (median(e[0] for e in each[1:]), median(e[1] for e in each[1:])) for name, each in taken.items()}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--ascii", action="store_true", help="only lines in ASCII")
    parser.add_argument("--no-commands", action="store_true", help="leave out the command line")
    given = parser.parse_args()
    chooser, now = random.Random(6), datetime.now(UTC)
    words = [word for text in texts(200, is_ascii=given.ascii) for word in text.split() if word.isalpha()]
    queries = [" ".join(chooser.choices(words, k=chooser.randint(3, 7))) for _ in range(400)]
    before = resident()
    data = [text.encode() for text in texts(given.memories, is_ascii=given.ascii)]
    documents = [
        Document(f"/memories/d{at % 50}/m{at}.md", each, now, f"m{at}", f"v{at}") for at, each in enumerate(data)
    ]
    start = time.thread_time()
    index = index_of(documents)
    build = time.thread_time() - start
    print(f"build: {build:.2f} s of CPU for {index.size / 1e6:.1f} MB")
    row = [f"{build:.2f} s"]
    for name in ("first time", "again"):
        taken = sorted(query_times(index, queries, now))
        p50, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
        print(f"{name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms of CPU")
        row.append(f"{p50:.1f} ms / {p99:.1f} ms")
    share = (resident() - before) / index.size
    print(f"memory for texts, index and caches: {share:.2f} times the text; process: {resident() / index.size:.2f}")
    row.append(f"{share:.2f} / {resident() / index.size:.2f}")
    literal = cpu_time(lambda: search_literal(parse_literal(ONE_SHOT), documents, limit=10))
    print(f"for all words as written: {literal * 1e3:.0f} ms of CPU")
    row.append(f"{literal * 1e3:.0f} ms")
    if not given.no_commands:
        found = commands([each.decode() for each in data])
        for name, (cpu, clock) in found.items():
            print(f"command line, {name}: {cpu:.2f} s of CPU, {clock:.2f} s")
        row.append(" / ".join(f"{found[name][0]:.2f} s" for name in ("ranked", "all words")))
    print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
