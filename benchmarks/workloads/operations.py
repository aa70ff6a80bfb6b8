"""Seeded operations of the six workloads. The same seed gives every system the same operations."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Operation = list[object]
"""A kind and its arguments, as JSON has them."""
Turn = list[list[Operation]]
"""Operations that run at the same time, a list for each caller."""

ZIPF = 0.99  # the constant of YCSB
MEDIAN_BYTES, SIGMA, SMALLEST, LARGEST = 800, 1.0, 64, 12_000
WORDS = (
    "agent",
    "build",
    "cache",
    "deploy",
    "error",
    "fix",
    "graph",
    "index",
    "job",
    "key",
    "lock",
    "merge",
    "note",
    "plan",
)
WRITERS = 8
AMENDERS = 4
SHARED = "shared/progress"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run. A slice of a round ends after `operations`, or after `limit_s`; the next one continues there."""

    notes: int
    listing: int
    lines: int
    operations: int
    rounds: int
    limit_s: float

    @property
    def planned(self) -> int:
        """Operations of one run."""
        return self.operations * self.rounds

    @property
    def planned_each(self) -> int:
        """Operations of one run for each of several callers."""
        return self.planned // 2


SCALES = {
    "full": Scale(notes=200, listing=500, lines=1_000, operations=40, rounds=4, limit_s=2.0),
    "quick": Scale(notes=100, listing=200, lines=400, operations=20, rounds=3, limit_s=1.0),
    "tiny": Scale(notes=12, listing=15, lines=80, operations=6, rounds=1, limit_s=5.0),
}


@dataclass
class Source:
    """Random texts and keys of one workload. `keys` are the notes that exist after all operations so far."""

    scale: Scale
    seed: str
    keys: list[str] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def chosen(self) -> str:
        """Key of a note by Zipf's law; the oldest notes are the most popular."""
        weights = list(accumulate(1 / rank**ZIPF for rank in range(1, len(self.keys) + 1)))
        return self._random.choices(self.keys, cum_weights=weights)[0]

    def new_key(self) -> str:
        """Key of a note that did not exist before. Notes are in directories of up to 50."""
        self.made += 1
        return f"topic-{self.made // 50:02d}/note-{self.made:05d}"

    def text(self) -> str:
        """Text with a log-normal size and a first line that no other text has."""
        size = int(math.exp(self._random.gauss(math.log(MEDIAN_BYTES), SIGMA)))
        return self.lines_until(lambda made: made >= max(SMALLEST, min(size, LARGEST)))

    def lines_until(self, is_enough: Callable[[int], bool]) -> str:
        """Lines of words until their size is enough. Each line is unique, so that a mix of two texts shows."""
        lines: list[str] = []
        while not lines or not is_enough(sum(map(len, lines)) + len(lines)):
            lines.append(self.line())
        return "\n".join(lines) + "\n"

    def line(self) -> str:
        """Line with a number of its own."""
        words = " ".join(self._random.choices(WORDS, k=self._random.randint(3, 10)))
        return f"{self._random.getrandbits(40):010x} {words}"

    def below(self, count: int) -> int:
        """Random number below `count`."""
        return self._random.randrange(count)


def notes(source: Source, count: int) -> dict[str, str]:
    """New notes, recorded in the source."""
    made = {source.new_key(): source.text() for _ in range(count)}
    source.keys += made
    return made


def _session_start(source: Source) -> Turn:
    return [[["session", [source.chosen() for _ in range(5)]] for _ in range(source.scale.planned)]]


def _note_taking(source: Source) -> Turn:
    made: list[Operation] = []
    for at in range(source.scale.planned):
        if at % 2:
            made.append(["append", source.chosen(), source.line()])
        else:
            ((key, text),) = notes(source, 1).items()
            made.append(["create", key, text])
    return [made]


def mark(writer: int, step: int, rest: str) -> str:
    """Line of one writer. Its parts are counted by the oracle."""
    return f"writer-{writer}-{step:05d} {rest}"


def _shared_file(source: Source) -> Turn:
    def step(writer: int, at: int) -> Operation:
        return ["read", SHARED] if at % 8 == 7 else ["append", SHARED, mark(writer, at, source.line()[:24])]

    return [[step(writer, at) for at in range(source.scale.planned_each)] for writer in range(WRITERS)]


def _tidying(source: Source) -> Turn:
    made: list[Operation] = []
    for at in range(source.scale.planned):
        key = source.chosen()
        place = source.keys.index(key)
        if at % 3 == 0:
            source.keys[place] = source.new_key()
            made.append(["rename", key, source.keys[place]])
        elif at % 3 == 1:
            made.append(["replace", key, source.text()])
        else:
            del source.keys[place]
            made.append(["delete", key])
    return [made]


def _listings(source: Source) -> Turn:
    def page() -> Operation:
        first = 1 + source.below(max(1, source.scale.lines - 50))
        return [source.keys[source.below(3)], first, first + 49]

    return [[["browse", [page() for _ in range(4)]] for _ in range(source.scale.planned)]]


def _amending(source: Source) -> Turn:
    def step(writer: int, at: int) -> Operation:
        return ["amend", source.chosen(), mark(writer, at, "done")]

    return [[step(writer, at) for at in range(source.scale.planned_each)] for writer in range(AMENDERS)]


def _long_listing(source: Source) -> dict[str, str]:
    long = {source.new_key(): "".join(f"{source.line()}\n" for _ in range(source.scale.lines)) for _ in range(3)}
    source.keys += long
    return long | notes(source, source.scale.listing - 3)


def _shared_start(source: Source) -> dict[str, str]:
    source.keys.append(SHARED)
    return {SHARED: "# Progress\n"}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One mix of operations: the notes of a store before, and all operations of a run."""

    letter: str
    name: str
    operation: str
    fill: Callable[[Source], dict[str, str]]
    plan: Callable[[Source], Turn]
    callers: int = 1


WORKLOADS: Sequence[Workload] = (
    Workload(
        letter="A",
        name="session start",
        operation="list all notes, then view five",
        fill=lambda source: notes(source, source.scale.notes),
        plan=_session_start,
    ),
    Workload(
        letter="B",
        name="note taking",
        operation="create a note, or append a line to one",
        fill=lambda source: notes(source, source.scale.notes),
        plan=_note_taking,
    ),
    Workload(
        letter="C",
        name="shared progress file",
        operation="append a line to one file, each eighth time view it",
        fill=_shared_start,
        plan=_shared_file,
        callers=WRITERS,
    ),
    Workload(
        letter="D",
        name="tidying",
        operation="rename, rewrite or delete a note",
        # a third of the operations delete a note
        fill=lambda source: notes(source, source.scale.notes + source.scale.planned // 3),
        plan=_tidying,
    ),
    Workload(
        letter="E",
        name="long listing, paged views",
        operation="list all notes, then view four pages of 50 lines",
        fill=_long_listing,
        plan=_listings,
    ),
    Workload(
        letter="F",
        name="read-modify-write",
        operation="read a note, change it, write it only if it is unchanged; again after a conflict",
        fill=lambda source: notes(source, source.scale.notes // 4),
        plan=_amending,
        callers=AMENDERS,
    ),
)
