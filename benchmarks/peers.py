"""Retentive beside the official SDK's local memory tool, in one process.

    python benchmarks/peers.py [--quick] [--only NAME]

Every candidate gets the same commands through the same call a tool runner makes, `tool.call(input)`, on the same file
system. They take turns in small slices, in every order, so that other load on the machine affects all of them.
Unwritten data is flushed before each slice, so that no candidate pays for the writes of another. The first round is a
warm-up. The SDK's tool syncs the data of a created or edited file and nothing else: its renames, deletes and directory
entries are not durable when it replies. Those of retentive are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from time import perf_counter_ns

from candidates import CANDIDATES, SDK, Call, Input, candidate, create, edit, memory_text
from figures import Figures, duration, figures, own_folder, parser, report, table, workplace


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run."""

    memories: int
    listing: int
    lines: int
    large_bytes: int
    rounds: int
    calls: int
    slow_rounds: int


WHOLE = {"memories": 1_000, "listing": 10_000, "lines": 900_000, "large_bytes": 10 * 1024 * 1024, "calls": 20}
SCALES = {
    "full": Scale(**WHOLE, rounds=50, slow_rounds=15),
    "quick": Scale(**WHOLE, rounds=15, slow_rounds=4),
    "tiny": Scale(memories=20, listing=30, lines=200, large_bytes=4096, rounds=2, calls=2, slow_rounds=1),
}
# One memory store per tool and kind of contents: name -> what fills it.
CONTENTS: dict[str, Callable[[Scale], Iterator[Input]]] = {
    "many": lambda scale: notes(scale.memories),
    "growing": lambda scale: notes(scale.memories),
    "shrinking": lambda scale: notes(scale.memories + scale.calls * (scale.rounds + 1)),
    "listing": lambda scale: notes(scale.listing),
    "lines": lambda scale: iter([create(path(0), "".join(map("entry {:07d} kept\n".format, range(scale.lines))))]),
    "large": lambda scale: iter([create(path(0), memory_text(0, size_bytes=scale.large_bytes))]),
}


def path(number: int, *, prefix: str = "note") -> str:
    """Path directly below the root, the depth at which the SDK's tool is fastest."""
    return f"/memories/{prefix}-{number:06d}.md"


def notes(count: int) -> Iterator[Input]:
    """Commands that create memories of 1 KB."""
    return (create(path(number), memory_text(number)) for number in range(count))


def renamed(scale: Scale, turn: int, number: int) -> Input:
    """Renames to another name in one turn and back in the next."""
    at = (number - turn * scale.calls + turn // 2 * scale.calls) % scale.memories
    prefixes = ("note", "moved") if turn % 2 == 0 else ("moved", "note")
    old, new = (path(at, prefix=prefix) for prefix in prefixes)
    return {"command": "rename", "old_path": old, "new_path": new}


@dataclass(frozen=True)
class Case:
    """A store, and the command of a call: from the scale, the turn, and the number of the call over all turns."""

    store: str
    command: Callable[[Scale, int, int], Input]
    is_slow: bool = False
    limits: tuple[tuple[str, int], ...] = ()


LIST: Input = {"command": "view", "path": "/memories"}
INSERT: Input = {"command": "insert", "insert_line": 2, "insert_text": "noted\n"}
NO_LIMIT = (("max_memory_bytes", 0),)
CASES = {
    # Deleting between the turns would slow the next creates, so one store grows and another shrinks to 1,000 memories.
    "create": Case("growing", lambda scale, turn, at: create(path(at, prefix="new"), memory_text(at))),
    "view": Case("many", lambda scale, turn, at: {"command": "view", "path": path(at % scale.memories)}),
    "str_replace": Case("many", lambda scale, turn, at: edit(path(at % scale.memories), at // scale.memories)),
    "insert": Case("many", lambda scale, turn, at: INSERT | {"path": path(at % scale.memories)}),
    "rename": Case("many", renamed),
    "delete": Case("shrinking", lambda scale, turn, at: {"command": "delete", "path": path(at)}),
    "list-1000": Case("many", lambda scale, turn, at: LIST, is_slow=True),
    "list-10000": Case("listing", lambda scale, turn, at: LIST, is_slow=True, limits=(("list_rows", 0),)),
    "range-of-900000": Case(
        "lines",
        lambda scale, turn, at: {"command": "view", "path": path(0), "view_range": [scale.lines - 49, scale.lines]},
        is_slow=True,
        limits=NO_LIMIT,
    ),
    "str_replace-10MB": Case("large", lambda scale, turn, at: edit(path(0), turn), is_slow=True, limits=NO_LIMIT),
}


def commands(case: Case, scale: Scale, turn: int) -> list[Input]:
    """Commands of one turn. A slow case has one."""
    calls = 1 if case.is_slow else scale.calls
    return [case.command(scale, turn, at) for at in range(turn * calls, (turn + 1) * calls)]


def run_case(case: Case, calls: dict[str, Call], scale: Scale) -> dict[str, Figures]:
    """Figures by candidate. The turns cover all orders, so that each candidate follows each other equally often."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    orders = list(permutations(calls))
    for turn in range((scale.slow_rounds if case.is_slow else scale.rounds) + 1):
        replies = set()
        for name in orders[turn % len(orders)]:
            given, reply = commands(case, scale, turn), ""
            os.sync()
            for command in given:
                start = perf_counter_ns()
                reply = str(calls[name](command))
                times[name] += [perf_counter_ns() - start] if turn else []
            replies.add(reply.split(" ", 1)[0])
        if len(replies) != 1:
            raise SystemExit(f"the candidates do not answer alike: {sorted(replies)}")
    return {name: figures(took) for name, took in times.items()}


def run(names: list[str], scale: Scale, place: Path) -> Iterator[tuple[str, ...]]:
    """Rows of all cases. Each store is filled once and opened again for each case."""
    filled = set()
    homes = {name: own_folder(place, name) for name in CANDIDATES}
    for title in names:
        case, calls = CASES[title], dict[str, Call]()
        with ExitStack() as opened:
            for name in CANDIDATES:
                folder = homes[name] / case.store
                folder.mkdir(exist_ok=True)
                calls[name] = opened.enter_context(candidate(name, folder, **dict(case.limits)))
                if (name, case.store) not in filled:
                    filled.add((name, case.store))
                    for command in CONTENTS[case.store](scale):
                        calls[name](command)
            found = run_case(case, calls, scale)
        times = [duration(each) for one in found.values() for each in (one.median_ms, one.p99_ms)]
        ratios = [f"{found[name].per_second / found[SDK].per_second:.2f}" for name in CANDIDATES if name != SDK]
        yield title, *times, *ratios


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=", ".join(CASES))
    chosen = options.parse_args()
    with workplace(chosen.dir) as place:
        rows = list(run(chosen.only or list(CASES), SCALES[chosen.size], place))
    head = [cell for name in CANDIDATES for cell in (name, "p99")] + [f"{name} / {SDK}" for name in CANDIDATES[1:]]
    report(chosen, table(("case", *head), rows))


if __name__ == "__main__":
    main()
