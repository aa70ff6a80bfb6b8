"""What citations cost a view: of one memory without and with 20 citations, in one run.

    python benchmarks/freshness.py [--at URL]

The lines are the same but for the markers. Each citation is of another file, or of another memory. Medians of 2,000
views that take turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import retentive

CITATIONS, VIEWS = 20, 2_000


def main() -> None:
    """Print the times as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", help="location; default: SQLite in a new folder")
    at = parser.parse_args().at
    with tempfile.TemporaryDirectory(dir=".") as folder, retentive.open(at or f"sqlite:///{folder}/m.db") as place:
        store, root = place.store("freshness"), Path(folder)
        store.create("/memories/plain.md", "".join(f"a fact of some length {n}\n" for n in range(60)))
        for kind in ("files", "memories"):
            store.create(f"/memories/{kind}.md", "".join(f"a fact of some length {n}\n" for n in range(60)))
            for n in range(CITATIONS):
                lines = "".join(f"line {each} of {n}, which says something\n" for each in range(100))
                (root / f"{n}.py").write_text(lines)
                store.create(f"/memories/{kind}/{n}.md", lines)
                source = f"{n}.py#L10-L14" if kind == "files" else f"/memories/{kind}/{n}.md#L10-L14"
                store.cite(f"/memories/{kind}.md", source, line=3 * n + 1, root=root)
        times: dict[str, list[float]] = {"plain": [], "files": [], "memories": []}
        for _ in range(VIEWS):
            for kind, found in times.items():
                found.append(timed(lambda kind=kind: store.view(f"/memories/{kind}.md")))  # type: ignore[misc]
    base = median(times["plain"])
    print("| view of | us | more |\n| :-- | --: | --: |")
    names = {"plain": "no citation", "files": "20 files", "memories": "20 other memories"}
    for kind, found in times.items():
        print(f"| {names[kind]} | {median(found) * 1e6:.0f} | {(median(found) - base) * 1e6:.0f} |")


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
