"""One workload on all systems, round by round, with the checks of the oracle."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from workloads.environments import Unavailable
from workloads.operations import Source
from workloads.oracle import Oracle
from workloads.processes import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from workloads.adapters.base import System
    from workloads.operations import Scale, Turn, Workload
    from workloads.processes import Process

SEED = "workloads"


@dataclass(frozen=True)
class Candidate:
    """A system with its two processes: one runs the operations, one reads afterwards."""

    system: System
    worker: Process
    reader: Process
    new_address: Callable[[], str]


@dataclass
class Measured:
    """Figures of one system in one workload."""

    system: System
    oracle: Oracle = field(default_factory=Oracle)
    times_ns: list[int] = field(default_factory=list)
    span_ns: int = 0
    failed: str = ""


@dataclass
class _Run:
    candidate: Candidate
    folder: Path
    address: str
    waiting: Turn
    result: Measured

    def start(self, notes: Mapping[str, str]) -> None:
        self.candidate.worker.open(self.folder, self.address)
        self.candidate.worker.fill(notes)
        self.result.oracle.filled(notes)

    def slice(self, scale: Scale) -> None:
        """Run the next operations of each caller."""
        each = scale.operations if len(self.waiting) == 1 else max(1, scale.operations // 2)
        turn = [operations[:each] for operations in self.waiting]
        span_ns, outcomes = self.candidate.worker.run(turn, scale.limit_s)
        self.waiting = [left[len(done) :] for left, done in zip(self.waiting, outcomes, strict=True)]
        self.result.oracle.play(turn, outcomes)
        self.result.times_ns += [each.took_ns for done in outcomes for each in done if not each.error]
        self.result.span_ns += span_ns

    def check(self) -> None:
        """Compare the notes that this process and another one read with the acknowledged changes."""
        oracle, worker, reader = self.result.oracle, self.candidate.worker, self.candidate.reader
        oracle.check(*worker.read(oracle.keys))
        if not self.candidate.system.is_shared:
            worker.close()
        reader.open(self.folder, self.address)
        oracle.check(*reader.read(oracle.keys), again=True)
        reader.close()
        if self.candidate.system.is_shared:
            worker.close()

    def attempt(self, action: Callable[[], None]) -> None:
        """Run an action unless one failed before. A failure ends the measurement of this system, aloud."""
        if self.result.failed:
            return
        try:
            action()
        except (Unavailable, Failed) as error:
            self.result.failed = str(error)
            print(f"FAILED {self.candidate.system.name}: {error}", file=sys.stderr)


def measure(
    workload: Workload,
    candidates: Sequence[Candidate],
    scale: Scale,
    place: Callable[[str], Path],
    step: Callable[[str], None],
) -> list[Measured]:
    """Figures of all systems. Every system gets the same operations; each round starts with another system."""
    source = Source(scale, f"{SEED} {workload.letter}")
    notes = workload.fill(source)
    plan = workload.plan(source)
    runs = [
        _Run(each, place(f"{workload.letter}-{at}"), each.new_address(), plan, Measured(each.system))
        for at, each in enumerate(candidates)
    ]
    for run in runs:
        run.attempt(partial(run.start, notes))
    for number in range(scale.rounds):
        for at in range(len(runs)):
            run = runs[(at + number) % len(runs)]
            run.attempt(partial(run.slice, scale))
            step(f"{workload.letter} {run.candidate.system.name}")
    for run in runs:
        run.attempt(run.check)
    return [run.result for run in runs]
