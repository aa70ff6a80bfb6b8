"""Four workloads of agents, on retentive and on other memory systems.

    python benchmarks/workloads/run.py [--quick] [--only A] [--system NAME]

A lists all notes and views five; B creates notes and appends to them; in C eight callers append lines to one note, and
view it; in D four callers read a note, change it, and write it only if it is unchanged. Each system runs in a process
of its own, from its registry; one that does not install is skipped, with the reason. Systems take turns in every round.
An oracle compares all answers, and what two processes read at the end, with the acknowledged changes: a missing note or
line is lost, a text that nobody wrote is torn, an answer older than an acknowledged change is stale. Any of these voids
the figure.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder of `figures` and of this package

from figures import figures, own_folder, parser, report, table, workplace
from workloads.process import Failed, Operation, Outcome, Process, Turn, Unavailable
from workloads.systems import SYSTEMS, System

NAMES = {"A": "session start", "B": "note taking", "C": "shared progress file", "D": "read-modify-write"}
CALLERS = {"A": 1, "B": 1, "C": 8, "D": 4}
SIZES = {"full": (200, 40, 4, 2.0), "quick": (100, 20, 3, 1.0), "tiny": (12, 6, 1, 5.0)}
"""Notes; operations of a slice, which also ends after the seconds; rounds."""
ZIPF = 0.99  # the constant of YCSB
MEDIAN_BYTES, SMALLEST, LARGEST = 800, 64, 12_000
WORDS = ("agent", "build", "cache", "deploy", "error", "fix", "graph", "index", "job", "key", "lock", "merge", "note")
MARK, SHARED = "writer-", "shared/progress"


@dataclass
class Source:
    """Seeded random notes and operations. The same seed gives every system the same ones."""

    letter: str
    notes: int
    made: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(f"workloads {self.letter}")
        for _ in range({"C": 0, "D": self.notes // 4}.get(self.letter, self.notes)):
            self.made[self.new_key()] = self.text()
        if self.letter == "C":
            self.made[SHARED] = "# Progress\n"

    def new_key(self) -> str:
        """Key of a note that did not exist before. Notes are in directories of up to 50."""
        return f"topic-{len(self.made) // 50:02d}/note-{len(self.made) + 1:05d}"

    def chosen(self) -> str:
        """Key of a note by Zipf's law; the oldest notes are the most popular."""
        weights = list(accumulate(1 / rank**ZIPF for rank in range(1, len(self.made) + 1)))
        return self._random.choices(list(self.made), cum_weights=weights)[0]

    def line(self) -> str:
        """Line with a number of its own, so that a mix of two texts shows."""
        return f"{self._random.getrandbits(40):010x} {' '.join(self._random.choices(WORDS, k=6))}"

    def text(self) -> str:
        """Text with a log-normal size."""
        size = int(math.exp(self._random.gauss(math.log(MEDIAN_BYTES), 1.0)))
        lines = [self.line()]
        while sum(map(len, lines)) < max(SMALLEST, min(size, LARGEST)):
            lines.append(self.line())
        return "\n".join(lines) + "\n"

    def operation(self, caller: int, at: int) -> Operation:
        """Next operation of a caller."""
        mark = f"{MARK}{caller}-{at:05d} {self.line()[:24]}"
        if self.letter == "A":
            return ["session", [self.chosen() for _ in range(5)]]
        if self.letter == "B" and at % 2:
            return ["append", self.chosen(), self.line()]
        if self.letter == "B":
            key = self.new_key()
            self.made[key] = self.text()
            return ["create", key, self.made[key]]
        if self.letter == "C":
            return ["read", SHARED] if at % 8 == 7 else ["append", SHARED, mark]
        return ["amend", self.chosen(), mark]


@dataclass
class Oracle:
    """Texts that the acknowledged operations of one system lead to, and the faults found so far.

    An operation that raises is not acknowledged. Its note may be in either state, so it is not judged any more.
    """

    texts: dict[str, list[str]]
    marks: dict[str, set[str]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    def play(self, turn: Turn, done: list[list[Outcome]]) -> None:
        """Record and judge the operations of one turn."""
        for operations, outcomes in zip(turn, done, strict=True):
            own: set[str] = set()
            for (kind, key, *rest), (_, answer, error) in zip(operations, outcomes, strict=False):
                if error:
                    self.refused += 1
                    self.unknown |= set() if kind in {"session", "read"} else {key}
                elif kind == "session":
                    self.judge_names(answer[0])
                    for each, text in zip(key, answer[1], strict=True):
                        self.judge_text(each, text, "stale")
                elif kind == "read":
                    self.faults["stale"] += len(own - set(str(answer).split("\n")))
                elif kind == "create":
                    self.texts[key] = [rest[0].rstrip("\n")]
                elif len(turn) == 1:
                    self.texts[key].append(f"{self.texts[key][-1]}\n{rest[0]}")
                else:
                    own.add(rest[0])
                    self.marks.setdefault(key, set()).add(rest[0])

    def judge_names(self, names: list[str]) -> None:
        """Each acknowledged note is listed."""
        self.faults["lost"] += len(self.texts.keys() - set(names) - self.unknown)

    def judge_text(self, key: str, text: str | None, older: str) -> None:
        """The text is the last acknowledged one, with each marked line once. `older` is the fault of an earlier one."""
        found = (text or "").rstrip("\n").split("\n")
        marked = Counter(line for line in found if line.startswith(MARK))
        rest = "\n".join(line for line in found if not line.startswith(MARK))
        expected = self.marks.get(key, set())
        self.faults["lost"] += len(expected - marked.keys())
        self.faults["torn"] += sum(marked.values()) - len(marked)
        if key not in self.unknown:
            self.faults["torn"] += len(marked.keys() - expected)
            if text is None:
                self.faults["lost"] += 1
            elif rest != self.texts[key][-1]:
                self.faults[older if rest in self.texts[key] else "torn"] += 1

    def check(self, names: list[str], texts: dict[str, str | None]) -> None:
        """Judge the stored notes at the end."""
        self.judge_names(names)
        for key in self.texts:
            self.judge_text(key, texts.get(key), "lost")

    def verdict(self) -> str:
        """`valid`, or `VOID` with the counts; then the operations that raised, which are not counted as done."""
        found = [f"{number:,} {kind}" for kind, number in self.faults.items() if number]
        told = f"VOID: {', '.join(found)}" if found else "valid"
        return f"{told}; {self.refused:,} refused" if self.refused else told


class Run:
    """One system in one workload."""

    def __init__(self, system: System, letter: str, size: str, place: Path, address: str) -> None:
        self.system, self.failed, self._letter = system, "", letter
        notes, self._slice, rounds, self._limit_s = SIZES[size]
        source = Source(letter, notes)
        notes_before = dict(source.made)
        planned = self._slice * rounds
        self._waiting = [[source.operation(caller, at) for at in range(planned)] for caller in range(CALLERS[letter])]
        self._folder, self._address = own_folder(place, "data"), address
        self._oracle = Oracle({key: [text.rstrip("\n")] for key, text in notes_before.items()})
        self._times: list[int] = []
        self._span_ns = 0
        homes = [place / name for name in ("worker", "reader")]
        for home in homes:
            home.mkdir()
        self._worker, self._reader = (Process(system, home) for home in homes)
        self._worker.open(self._folder, address)
        self._worker.fill(notes_before)

    def slice(self) -> None:
        """Run the next operations of each caller."""
        turn = [operations[: self._slice] for operations in self._waiting]
        span_ns, done = self._worker.run(turn, self._limit_s)
        self._waiting = [left[len(mine) :] for left, mine in zip(self._waiting, done, strict=True)]
        self._oracle.play(turn, done)
        self._times += [took for mine in done for took, _, error in mine if not error]
        self._span_ns += span_ns

    def end(self) -> tuple[str, ...]:
        """Row of this run, after two processes have read all notes."""
        keys = list(self._oracle.texts)
        self._oracle.check(*self._worker.read(keys))
        if not any(self._oracle.faults.values()):  # the second process would repeat the faults of the first
            if not self.system.is_shared:
                self._worker.close()
            self._reader.open(self._folder, self._address)
            self._oracle.check(*self._reader.read(keys))
        for process in (self._worker, self._reader):
            process.__exit__()
        verdict = self._oracle.verdict()
        cells = figures(self._times, span_ns=self._span_ns).cells if verdict.startswith("valid") else ("", "", "")
        return f"{self._letter} {NAMES[self._letter]}", self.system.name, *cells, verdict


def new_database(stack: ExitStack) -> str:
    """Address of a database on a new server with synced commits."""
    from places import DurablePostgres

    if reason := DurablePostgres.available():
        raise Unavailable(reason)
    return stack.enter_context(DurablePostgres()).new_database("workload")


def measured(letter: str, size: str, systems: list[System], place: Path, stack: ExitStack) -> list[tuple[str, ...]]:
    """Rows of one workload. Each round starts with another system."""
    runs, rows = list[Run](), list[tuple[str, ...]]()
    for system in systems:
        address = ""
        try:
            if system.needs_server:
                address = new_database(stack)
            runs.append(Run(system, letter, size, own_folder(place, f"{letter}{len(runs)}"), address))
        except (Unavailable, Failed) as error:
            print(f"SKIPPED {system.name}: {error}", file=sys.stderr)
            rows.append((f"{letter} {NAMES[letter]}", system.name, "", "", "", f"skipped: {error}"))
    for number in range(SIZES[size][2]):
        for run in runs[number % len(runs) :] + runs[: number % len(runs)]:
            run.slice()
    return [*(run.end() for run in runs), *rows]


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=NAMES, help="only this workload (repeatable)")
    options.add_argument("--system", action="append", choices=[each.name for each in SYSTEMS], metavar="NAME")
    chosen = options.parse_args()
    systems = [each for each in SYSTEMS if not chosen.system or each.name in chosen.system]
    with workplace(chosen.dir) as place, ExitStack() as stack:
        rows = [row for each in chosen.only or NAMES for row in measured(each, chosen.size, systems, place, stack)]
    report(chosen, table(("workload", "system", "operations/s", "p50", "p99", "validity"), rows))


if __name__ == "__main__":
    main()
