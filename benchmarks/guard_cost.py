"""Cost of the default guards: the same writes with and without them, in turns.

    python benchmarks/guard_cost.py [--quick] [--json FILE]

On SQLite. Without = `sensitive` off and no limits. Each write replaces a text of prose and notes; the whole new text is
examined. The bars: under 10 % and under 2 ms.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from statistics import median
from time import perf_counter_ns

import retentive
from figures import (
    Sheet,
    announce,
    duration,
    figures,
    judged,
    parser,
    steps,
    surroundings,
    workplace,
    write_json,
)
from large_stores import WORDS
from places import checked
from retentive import MemoryStore

SIZES = {"1 KB": 1_024, "100 KB": 100_000}
CALLS = {"full": 600, "quick": 100, "tiny": 3}
WITHOUT = {"sensitive": "off", "max_memory_bytes": 0, "max_memories": 0, "max_store_bytes": 0}


def text_of(number: int, size_bytes: int) -> str:
    """Lines of words with some numbers, dates and file names."""
    draw = random.Random(number)
    lines, length = [], 0
    while length < size_bytes - 100:
        words = draw.choices(WORDS, k=9)
        words.insert(
            3, draw.choice([f"2026-11-{draw.randint(1, 30)}", f"src/part_{draw.randint(1, 99)}.py", "E-4711", "key"])
        )
        lines.append(" ".join(words))
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def taken(store: MemoryStore, path: str, text: str) -> int:
    """Nanoseconds of a create that replaces a memory."""
    before = perf_counter_ns()
    checked(store, {"command": "create", "path": path, "file_text": text})
    return perf_counter_ns() - before


def main() -> None:
    """Measure, show, and write."""
    chosen = parser(__doc__).parse_args()
    calls = CALLS[chosen.size]
    rows, records = [], []
    with workplace(chosen.dir) as folder:
        around = surroundings(folder)
        announce(around)
        with retentive.open(f"sqlite:///{folder}/memory.db", create_overwrites=True) as place:
            guarded, free = place.store("guarded"), place.store("free")
            free.change_settings(WITHOUT)
            with steps(len(SIZES), "guards") as step:
                for name, size in SIZES.items():
                    texts = [text_of(number, size) for number in range(20)]
                    times: dict[str, list[int]] = {"guarded": [], "free": []}
                    for number in range(calls + 5):
                        for store in (guarded, free) if number % 2 else (free, guarded):
                            took = taken(store, f"/memories/{size}.md", texts[number % 20])
                            if number >= 5:  # the first compile patterns
                                times[str(store.key)].append(took)
                    step(name)
                    more = median(a - b for a, b in zip(times["guarded"], times["free"], strict=True)) / 1e6
                    found = {each: figures(times[each]) for each in times}
                    share = found["guarded"].median_ms / found["free"].median_ms - 1
                    verdict = judged(share, 0.10, at_most=True), judged(more, 2.0, at_most=True)
                    cells = (duration(found["free"].median_ms), duration(found["guarded"].median_ms))
                    rows.append((name, *cells, f"{share:+.1%} {verdict[0]}", f"{duration(more)} {verdict[1]}"))
                    records.append(
                        {"size": name, "share": share, "more_ms": more} | {k: asdict(v) for k, v in found.items()}
                    )
    sheet = Sheet("Default guards", ("text", "without: p50", "with: p50", "more (bar 10 %)", "bar 2 ms"), rows, records)
    sheet.show()
    if chosen.json is not None:
        write_json(chosen.json, "guard_cost", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
