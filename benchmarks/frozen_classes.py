"""What does a frozen dataclass cost with `retentive.frozen` and with the standard library?

    python benchmarks/frozen_classes.py [--quick] [--json FILE]

Each class has six fields and slots. The two decorators take turns: each defines a class, makes an object, and compares
two equal objects. The times are medians.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import asdict
from time import perf_counter_ns
from typing import Any

from figures import Figures, Sheet, announce, figures, parser, steps, surroundings, workplace, write_json
from retentive import frozen

ROUNDS = {"full": 300, "quick": 100, "tiny": 3}
CALLS = 1_000
DECORATORS: dict[str, Callable[..., Any]] = {"retentive.frozen": frozen.dataclass, "dataclasses": dataclasses.dataclass}
FIELDS = {"a": "str", "b": "int", "c": "str", "d": "str | None", "e": "int", "f": "bool"}
WHAT = ("define a class", "make an object", "compare two objects")


def times_of(decorator: Callable[..., Any]) -> tuple[int, int, int]:
    """Return the times to define a class, to make an object and to compare two, in nanoseconds."""
    plain = type("Plain", (), {"__annotations__": FIELDS, "__doc__": "Six fields."})
    began = perf_counter_ns()
    made = decorator(frozen=True, slots=True)(plain)
    defined = perf_counter_ns() - began
    began = perf_counter_ns()
    for _ in range(CALLS):
        one = made("a", 1, "c", None, 5, True)
    created = perf_counter_ns() - began
    other = made("a", 1, "c", None, 5, True)
    began = perf_counter_ns()
    for _ in range(CALLS):
        _ = one == other
    return defined, created // CALLS, (perf_counter_ns() - began) // CALLS


def main() -> None:
    """Measure, show, and write."""
    chosen = parser(__doc__).parse_args()
    rounds = ROUNDS[chosen.size]
    times: dict[str, list[tuple[int, int, int]]] = {name: [] for name in DECORATORS}
    with workplace(chosen.dir) as folder, steps(rounds, "classes") as step:
        around = surroundings(folder)
        announce(around)
        for number in range(rounds):
            for name in DECORATORS if number % 2 else reversed(DECORATORS):
                times[name].append(times_of(DECORATORS[name]))
            step(f"round {number + 1}")
    rows, records = [], []
    for at, what in enumerate(WHAT):
        found: dict[str, Figures] = {name: figures([each[at] for each in times[name]]) for name in DECORATORS}
        cells = [f"{each.median_ms * 1e3:.2f} µs" for each in found.values()]
        ours, theirs = (each.median_ms for each in found.values())
        rows.append((what, *cells, f"{ours / theirs:.2f}"))
        records.append({"what": what, "ratio": ours / theirs, **{name: asdict(each) for name, each in found.items()}})
    sheet = Sheet("Frozen classes with six fields", ("what", *DECORATORS, "ratio"), rows, records)
    sheet.show()
    if chosen.json is not None:
        write_json(chosen.json, "frozen_classes", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
