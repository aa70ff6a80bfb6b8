"""Retentive beside the official SDK's local memory tool, in one process.

    python benchmarks/peers.py [--quick] [--only NAME] [--json FILE]

Every candidate gets the same commands through the same call a tool runner makes, `tool.call(input)`, on the
same file system. They take turns in small slices, in every order, so that other load on the machine affects all
of them. Unwritten data is flushed before each slice, so that no candidate pays for the writes of another. The first
round is a warm-up.

The ratio is calls per second over the SDK's calls per second. The SDK's tool syncs the data of a created or
edited file and nothing else: its renames, deletes and directory entries are not durable when it replies.
Those of retentive are.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import permutations
from time import perf_counter_ns
from typing import TYPE_CHECKING

from candidates import CANDIDATES, SDK, Call, Input, create, edit, memory_text
from figures import (
    Figures,
    Sheet,
    announce,
    duration,
    figures,
    judged,
    own_folder,
    parser,
    rate,
    steps,
    surroundings,
    workplace,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


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


SCALES = {
    "full": Scale(
        memories=1_000,
        listing=10_000,
        lines=900_000,
        large_bytes=10 * 1024 * 1024,
        rounds=50,
        calls=20,
        slow_rounds=15,
    ),
    "quick": Scale(
        memories=1_000,
        listing=10_000,
        lines=900_000,
        large_bytes=10 * 1024 * 1024,
        rounds=15,
        calls=20,
        slow_rounds=4,
    ),
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


def numbers(scale: Scale, turn: int) -> range:
    """Numbers of the calls of one turn, counted over all turns from 0."""
    return range(turn * scale.calls, (turn + 1) * scale.calls)


def creates(scale: Scale, turn: int) -> list[Input]:
    """New memories in a store that grows from 1,000. Deleting between the turns would slow the next creates."""
    return [create(path(at, prefix="new"), memory_text(at)) for at in numbers(scale, turn)]


def deletes(scale: Scale, turn: int) -> list[Input]:
    """Deletions in a store that shrinks to 1,000 memories."""
    return [{"command": "delete", "path": path(at)} for at in numbers(scale, turn)]


def views(scale: Scale, turn: int) -> list[Input]:
    """Views of whole memories."""
    return [{"command": "view", "path": path(at % scale.memories)} for at in numbers(scale, turn)]


def edits(scale: Scale, turn: int) -> list[Input]:
    """Replacements of a line near the top of a memory."""
    return [edit(path(at % scale.memories), at // scale.memories) for at in numbers(scale, turn)]


def inserts(scale: Scale, turn: int) -> list[Input]:
    """Insertions of a short line near the top."""
    command: Input = {"command": "insert", "insert_line": 2, "insert_text": "noted\n"}
    return [command | {"path": path(at % scale.memories)} for at in numbers(scale, turn)]


def renames(scale: Scale, turn: int) -> list[Input]:
    """Renames to another name in one turn and back in the next."""
    prefixes = ("note", "moved") if turn % 2 == 0 else ("moved", "note")
    pairs = [[path(at % scale.memories, prefix=prefix) for prefix in prefixes] for at in numbers(scale, turn // 2)]
    return [{"command": "rename", "old_path": old, "new_path": new} for old, new in pairs]


def listing(_scale: Scale, _turn: int) -> list[Input]:
    """Views of the root directory."""
    return [{"command": "view", "path": "/memories"}]


def range_view(scale: Scale, _turn: int) -> list[Input]:
    """Views of the last 50 lines."""
    return [{"command": "view", "path": path(0), "view_range": [scale.lines - 49, scale.lines]}]


def large_edit(_scale: Scale, turn: int) -> list[Input]:
    """Edits of one large memory."""
    return [edit(path(0), turn)]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Measured case: commands on a store, its limits, and the ratios to reach."""

    name: str
    store: str
    commands: Callable[[Scale, int], list[Input]]
    slow: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    bars: dict[str, float] = field(default_factory=dict)


FASTER = {"sqlite": 1.2, "directory": 1.2}
UNSYNCED = {"sqlite": 0.4, "directory": 0.35}  # the SDK's tool does not make these durable at all
NO_LIMIT = {"max_memory_bytes": 0}
CASES = (
    Case(name="create", store="growing", commands=creates, bars=FASTER),
    Case(name="view", store="many", commands=views, bars=FASTER | {"directory": 4}),
    Case(name="str_replace", store="many", commands=edits, bars=FASTER),
    Case(name="insert", store="many", commands=inserts, bars=FASTER),
    Case(name="rename", store="many", commands=renames, bars=UNSYNCED | {"directory": 1.1}),
    Case(name="delete", store="shrinking", commands=deletes, bars=UNSYNCED),
    Case(name="list-1000", store="many", commands=listing, slow=True, bars={"sqlite": 10, "directory": 12}),
    Case(name="list-10000", store="listing", commands=listing, slow=True),
    Case(name="list-10000-all", store="listing", commands=listing, slow=True, limits={"list_rows": 0}),
    Case(
        name="range-of-900000",
        store="lines",
        commands=range_view,
        slow=True,
        limits=NO_LIMIT,
        bars={"sqlite": 3, "directory": 3},
    ),
    Case(name="str_replace-10MB", store="large", commands=large_edit, slow=True, limits=NO_LIMIT),
)


def timed(call: Call, commands: Sequence[Input]) -> tuple[list[int], str]:
    """Time of each call in nanoseconds, and the last reply."""
    os.sync()
    times = []
    reply: object = ""
    for command in commands:
        start = perf_counter_ns()
        reply = call(command)
        times.append(perf_counter_ns() - start)
    return times, str(reply)


def run_case(case: Case, calls: dict[str, Call], scale: Scale, step: Callable[[str], None]) -> dict[str, Figures]:
    """Figures by candidate. The turns cover all orders, so that each candidate follows each other equally often."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    orders = list(permutations(calls))
    for turn in range((scale.slow_rounds if case.slow else scale.rounds) + 1):
        replies = set()
        for name in orders[turn % len(orders)]:
            took, reply = timed(calls[name], case.commands(scale, turn))
            replies.add(reply.split(" ", 1)[0])
            if turn:
                times[name] += took
        if len(replies) != 1:
            raise SystemExit(f"{case.name}: the candidates do not answer alike: {sorted(replies)}")
        step(case.name)
    return {name: figures(took) for name, took in times.items()}


def run(cases: Sequence[Case], names: Sequence[str], scale: Scale, place: Path) -> dict[str, dict[str, Figures]]:
    """Run all cases. Each store is filled once and opened again for each case."""
    found = {}
    filled = set()
    homes = {name: own_folder(place, name) for name in names}
    total = sum((scale.slow_rounds if case.slow else scale.rounds) + 1 for case in cases)
    with steps(total, "peers") as step:
        for case in cases:
            with ExitStack() as opened:
                calls = {}
                for name in names:
                    folder = homes[name] / case.store
                    folder.mkdir(exist_ok=True)
                    calls[name] = opened.enter_context(CANDIDATES[name](folder, **case.limits))
                    if (name, case.store) not in filled:
                        filled.add((name, case.store))
                        for command in CONTENTS[case.store](scale):
                            calls[name](command)
                found[case.name] = run_case(case, calls, scale, step)
    return found


def sheet(found: dict[str, dict[str, Figures]], cases: Sequence[Case]) -> Sheet:
    """The table and the records of a run."""
    rows, records = [], []
    for case in cases:
        for name, figure in found[case.name].items():
            base = found[case.name].get(SDK)
            ratio = figure.per_second / base.per_second if base and name != SDK else None
            of_medians = base.median_ms / figure.median_ms if base and name != SDK else None
            bar = case.bars.get(name)
            verdict = judged(ratio, bar) if ratio is not None else ""
            records.append(
                {"case": case.name, "candidate": name, **asdict(figure)}
                | {"ratio": ratio, "ratio_of_medians": of_medians, "bar": bar, "verdict": verdict}
            )
            rows.append(
                (
                    case.name,
                    name,
                    duration(figure.median_ms),
                    duration(figure.p99_ms),
                    rate(figure.per_second),
                    f"{ratio:.2f}" if ratio is not None else "",
                    f"{bar:g}" if bar is not None and verdict else "",
                    verdict,
                )
            )
    columns = ("case", "tool", "median", "p99", "calls/s", "ratio to SDK", "bar", "")
    return Sheet("One caller, against the SDK's local tool", columns, rows, records)


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    names = [case.name for case in CASES]
    options.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    options.add_argument("--tool", action="append", choices=list(CANDIDATES), help="only this one (repeatable)")
    chosen = options.parse_args()
    cases = [case for case in CASES if not chosen.only or case.name in chosen.only]
    tools = [name for name in CANDIDATES if not chosen.tool or name in chosen.tool]
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        result = sheet(run(cases, tools, SCALES[chosen.size], place), cases)
    result.show()
    if chosen.json:
        write_json(chosen.json, "peers", chosen.size, around, [result])


if __name__ == "__main__":
    main()
