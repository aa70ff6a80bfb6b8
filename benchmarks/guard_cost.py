"""Cost of the default guards: the same writes with and without them, in turns.

    python benchmarks/guard_cost.py [--quick]

On SQLite. Without = `sensitive` off and no limits. Each write replaces a text of prose and notes; the whole new text is
examined.
"""

from __future__ import annotations

import random
from statistics import median
from time import perf_counter_ns

import retentive
from candidates import Input
from figures import duration, parser, report, table, workplace
from places import checked

WORDS = ("memory", "agent", "notes", "plans", "names", "dates", "prices", "doubts", "decisions", "and", "of", "the")
SIZES = {"1 KB": 1_024, "100 KB": 100_000}
CALLS = {"full": 600, "quick": 100, "tiny": 3}
WITHOUT = {"sensitive": "off", "max_memory_bytes": 0, "max_memories": 0, "max_store_bytes": 0}


def text_of(number: int, size_bytes: int) -> str:
    """Lines of words with some numbers, dates and file names."""
    draw = random.Random(number)
    lines, length = [], 0
    while length < size_bytes - 100:
        words = draw.choices(WORDS, k=9)
        odd = [f"2026-11-{draw.randint(1, 30)}", f"src/part_{draw.randint(1, 99)}.py", "E-4711", "key"]
        words.insert(3, draw.choice(odd))
        lines.append(" ".join(words))
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    chosen = parser(__doc__).parse_args()
    rows = []
    with workplace(chosen.dir) as folder, retentive.open(f"sqlite:///{folder}/m.db", create_overwrites=True) as place:
        guarded, free = place.store("guarded"), place.store("free")
        free.change_settings(WITHOUT)
        for name, size in SIZES.items():
            texts = [text_of(number, size) for number in range(20)]
            times: dict[str, list[int]] = {"guarded": [], "free": []}
            for number in range(CALLS[chosen.size] + 5):
                for store in (guarded, free) if number % 2 else (free, guarded):
                    command: Input = {
                        "command": "create",
                        "path": f"/memories/{size}.md",
                        "file_text": texts[number % 20],
                    }
                    before = perf_counter_ns()
                    checked(store, command)
                    times[str(store.key)] += [perf_counter_ns() - before] if number >= 5 else []
            without, with_guards = (median(times[key]) / 1e6 for key in ("free", "guarded"))
            more = median(a - b for a, b in zip(times["guarded"], times["free"], strict=True)) / 1e6
            cells = duration(without), duration(with_guards), f"{duration(more)}, {with_guards / without - 1:.1%}"
            rows.append((name, *cells))
    report(chosen, table(("text", "without: p50", "with: p50", "more"), rows))


if __name__ == "__main__":
    main()
