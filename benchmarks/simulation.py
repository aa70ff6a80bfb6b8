"""Speed of commands as the number of memory stores grows, as in a service for many agents.

    python benchmarks/simulation.py [--at URL] [--stores 100,1000,10000,100000] [--memories 10] [--seconds 20]
                                    [--commands N] [--clients 4] [--control URL] [--keys FILE] [--quick] [--json FILE]

The location grows from the first number of stores to the last. At each number the clients, threads of one process,
send commands through `MemoryStore.execute`: 50 % views of a memory, 10 % of the root, 25 % edits, 10 % creations, 5 %
deletions and renames, some stores far more often than others (Zipf, s = 1.1). Each client has its own memories in
every store, so every command must succeed. The run fails if an acknowledged change is missing at the end.

Other load on the machine changes the times. The run therefore consists of slices, each next to a slice at a control
location, which keeps the first number of stores. `ratio` is the median over the slices of the p50 divided by that of
the control, and `from .. to` its interquartile range. The last round, `100 of 100,000`, uses only the first stores of
the full location. Without `--at` both locations are new SQLite files; with `--at` and no `--control`, the slices at
the first number of stores serve as the control.
"""

from __future__ import annotations

import math
import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Sheet, announce, duration, judged, parser, rate, steps, surroundings, workplace, write_json
from simulation_clients import MIX, OPEN, Length, Popularity, Slice
from simulation_place import CHUNK, Place

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

AT_MOST = 1.3  # p50 at the most stores over that at the fewest
ALL = "all"
KINDS = (ALL, *MIX, OPEN)
WARM_UP = 0.2  # of the time at each number of stores, before it
SLICES = 10


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run unless options give it."""

    stores: str
    seconds: float


SCALES = {
    "full": Scale(stores="100,1000,10000,100000", seconds=20),
    "quick": Scale(stores="100,1000,10000", seconds=5),
    "tiny": Scale(stores="3,6", seconds=0.2),
}


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latency of one kind of command at one number of stores, in milliseconds."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(kw_only=True)
class Round:
    """Measurements at one number of stores: slices in pairs with slices of the control."""

    name: str
    filled_per_second: float | None
    slices: list[Slice] = field(default_factory=list)
    control: list[Slice] = field(default_factory=list)
    all_stores_ms: float = 0.0
    page_ms: float = 0.0

    def latency(self, kind: str) -> Latency | None:
        """Latency over all slices, or None without such a command."""
        count = sum(len(times(one, kind)) for one in self.slices)
        if not count:
            return None
        p50, p90, p99, most = percentiles(self.slices, kind)
        return Latency(count=count, p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=most)

    def ratios(self, kind: str) -> tuple[float, float, float] | None:
        """Quartiles of the p50 of the slices relative to the control."""
        pairs = [(times(one, kind), times(other, kind)) for one, other in zip(self.slices, self.control, strict=True)]
        found = [statistics.median(one) / statistics.median(other) for one, other in pairs if one and other]
        if len(found) < 2:
            return None
        low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
        return low, middle, high

    def per_second(self) -> float:
        """Commands of all clients together."""
        return sum(len(one.commands()) for one in self.slices) * 1e9 / sum(one.span_ns for one in self.slices)


def times(one: Slice, kind: str) -> list[int]:
    """Times of one kind of command in a slice."""
    return one.commands() if kind == ALL else one.times_ns[kind]


def percentiles(slices: Sequence[Slice], kind: str) -> tuple[float, float, float, float]:
    """p50, p90, p99 and maximum of one kind of command in milliseconds. The slices must contain some."""
    ordered = sorted(took for one in slices for took in times(one, kind))
    p50, p90, p99 = (ordered[math.ceil(share * len(ordered)) - 1] / 1e6 for share in (0.5, 0.9, 0.99))
    return p50, p90, p99, ordered[-1] / 1e6


def measure(found: Round, place: Place, control: Place | None, *, stores: int, length: Length) -> Round:
    """Measure the slices of a round in turns with those of the control, after a warm-up of both."""
    popular = Popularity(stores)
    beside = Popularity(control.stores) if control else None
    for turn in range(SLICES + 1):
        long = length.part(1 / SLICES if turn else WARM_UP)
        one = other = None
        if control and beside and turn % 2:
            other = control.run(beside, long)
        one = place.run(popular, long)
        if control and beside and other is None:
            other = control.run(beside, long)
        if turn:
            found.slices.append(one)
            found.control += [other] if other else []
    return found


def run(
    places: tuple[Place, Place | None], counts: Sequence[int], length: Length, step: Callable[[str], None]
) -> list[Round]:
    """Run a round at each number of stores, and a last one that uses only the first stores."""
    place, control = places
    rounds: list[Round] = []
    if control:
        control.grow(counts[0], step)
    for stores in counts:
        filled = place.grow(stores, step)
        step(f"{stores:,} stores")
        found = Round(name=f"{stores:,}", filled_per_second=filled)
        rounds.append(measure(found, place, control, stores=stores, length=length))
        found.all_stores_ms, found.page_ms = place.listing_ms()
    step("the first again")
    found = Round(name=f"{counts[0]:,} of {counts[-1]:,}", filled_per_second=None)
    rounds.append(measure(found, place, control, stores=counts[0], length=length))
    for one in rounds:
        one.control = one.control or rounds[0].slices
    return rounds


def latencies(rounds: Sequence[Round]) -> Sheet:
    """Percentiles of each kind of command in each round."""
    rows, records = [], []
    for one in rounds:
        for kind in KINDS:
            found = one.latency(kind)
            if found is None:
                continue
            shown = (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms)
            rows.append((one.name, kind, f"{found.count:,}", *map(duration, shown)))
            records.append({"stores": one.name, "kind": kind, **asdict(found)})
    return Sheet("How long a command takes", ("stores", "command", "count", "p50", "p90", "p99", "max"), rows, records)


def throughput(rounds: Sequence[Round]) -> Sheet:
    """Throughput and listing times at each number of stores."""
    rows, records = [], []
    for one in rounds:
        errors = sum(sum(each.errors.values()) for each in one.slices)
        filled = one.filled_per_second
        listed = [duration(ms) if ms else "" for ms in (one.all_stores_ms, one.page_ms)]
        rows.append((one.name, rate(one.per_second()), *listed, rate(filled) if filled else "", f"{errors}"))
        records.append(
            {"stores": one.name, "per_second": one.per_second(), "errors": errors, "filled_per_second": filled}
            | {"all_stores_ms": one.all_stores_ms or None, "page_ms": one.page_ms or None}
        )
    columns = ("stores", "commands/s", "list all stores", "a page of 100", "stores filled/s", "errors")
    return Sheet("All clients together, and the list of stores", columns, rows, records)


def growth(rounds: Sequence[Round]) -> Sheet:
    """p50 of each round relative to the round with the fewest stores. The round with the most has a bar."""
    rows, records = [], []
    for one in rounds:
        if one.control is one.slices:
            continue
        for kind in KINDS:
            found = one.ratios(kind)
            if found is None:
                continue
            low, ratio, high = found
            own, least = (percentiles(each, kind)[0] for each in (one.slices, one.control))
            bar = AT_MOST if one is rounds[-2] else None
            verdict = judged(ratio, bar, at_most=True)
            ends = f"{low:.2f} .. {high:.2f}"
            shown = (duration(own), duration(least), f"{ratio:.2f}", ends)
            rows.append((one.name, kind, *shown, f"{bar:g}" if bar else "", verdict))
            records.append(
                {"stores": one.name, "kind": kind, "p50_ms": own, "control_p50_ms": least, "ratio": ratio}
                | {"from": low, "to": high, "bar": bar, "verdict": verdict}
            )
    title = f"p50 over that with {rounds[0].name} stores"
    return Sheet(
        title, ("stores", "command", "p50", "of the control", "ratio", "from .. to", "at most", ""), rows, records
    )


def options() -> tuple[argparse.Namespace, list[int]]:
    """Parsed options and the numbers of stores."""
    known = parser(__doc__)
    known.add_argument("--at", metavar="URL", help="an empty place, as retentive.open takes it (default: a new file)")
    known.add_argument("--control", metavar="URL", help="an empty place that keeps the first number of stores")
    known.add_argument("--keys", type=Path, metavar="FILE", help="seal the stores with this key file")
    known.add_argument("--stores", metavar="N,N,...", help="numbers of stores, growing")
    known.add_argument("--memories", type=int, default=10, metavar="N", help="memories in each (default: 10)")
    known.add_argument("--seconds", type=float, metavar="S", help="time at each number of stores")
    known.add_argument("--commands", type=int, metavar="N", help="commands of each client there, instead of a time")
    known.add_argument("--clients", type=int, default=4, metavar="N", help="threads (default: 4)")
    chosen = known.parse_args()
    scale = SCALES[chosen.size]
    chosen.seconds = chosen.seconds or scale.seconds
    try:
        counts = [int(each) for each in (chosen.stores or scale.stores).split(",")]
    except ValueError:
        known.error("--stores takes numbers with commas between them")
    if counts != sorted(set(counts)) or counts[0] < 1 or chosen.memories < 1 or chosen.clients < 1:
        known.error("--stores must grow, and there must be a store, a memory and a client")
    return chosen, counts


def main() -> None:
    """Run what the arguments ask for and print it."""
    chosen, counts = options()
    around = surroundings(chosen.dir)
    kind, separator, _ = (chosen.at or "sqlite://").partition("://")
    around |= {"place": kind if separator else "directory", "sealed": "yes" if chosen.keys else "no"}
    around |= {"clients": chosen.clients, "memories": chosen.memories}
    announce(around)
    with workplace(chosen.dir) as folder, ExitStack() as stack:

        def opened(at: str) -> Place:
            return stack.enter_context(Place(at, keys=chosen.keys, clients=chosen.clients, memories=chosen.memories))

        place = opened(chosen.at or f"sqlite:///{folder.resolve()}/memory.db")
        apart = chosen.control or (None if chosen.at else f"sqlite:///{folder.resolve()}/control.db")
        control = opened(apart) if apart else None
        chunks = -(-counts[-1] // CHUNK) + len(counts) + (-(-counts[0] // CHUNK) if control else 0)
        with steps(chunks + len(counts) + 1, "simulation") as step:
            rounds = run((place, control), counts, Length(chosen.seconds, chosen.commands), step)
        sheets = [latencies(rounds), throughput(rounds), growth(rounds)]
        for sheet in sheets:
            sheet.show()
            print()
        if chosen.json:
            write_json(chosen.json, "simulation", chosen.size, around, sheets)
        for one in (place, control):
            if one:
                one.check()


if __name__ == "__main__":
    main()
