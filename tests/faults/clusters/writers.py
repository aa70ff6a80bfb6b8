"""Processes that edit one memory store until they are stopped, while nodes of a cluster fail.

`python -m faults.clusters.writers PLACE NAME WORKER COUNT` runs one process. It prints a JSON line for each edit, and
it stops when its stdin closes.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import retentive
from retentive import RetentiveError
from support.network_load import EditOutcome, Load, edit

TESTS = Path(__file__).resolve().parents[2]
COUNT = 2_000  # number of edits of a writer that nothing stops
PACE_S = 0.02  # pause between two edits: in an outage of a minute, a steady rate shows more than a flood
DEADLINE_S = 120.0
STOPS_S = 90.0


class Writers:
    """One writing process for each URL, as a context manager. After its end, `load` contains the outcomes."""

    def __init__(self, places: Sequence[str], directory: Path, *, name: str) -> None:
        self.load = Load([], len(places), COUNT, name=name)
        self._places = places
        self._files = [directory / f"{name}-{worker}.jsonl" for worker in range(len(places))]
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for worker, (place, file) in enumerate(zip(self._places, self._files, strict=True)):
            arguments = [place, self.load.name, str(worker), str(COUNT)]
            command = [sys.executable, "-m", "faults.clusters.writers", *arguments]
            with file.open("wb") as out, file.with_suffix(".err").open("wb") as err:
                self._processes.append(
                    subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=out, stderr=err)
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        try:
            ended = [process.wait(STOPS_S) for process in self._processes]
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
        self.load.outcomes = self.outcomes()
        said = [file.with_suffix(".err").read_text() for file in self._files]
        self.load.raised = [f"{code}: {text}" for code, text in zip(ended, said, strict=True) if code or text]

    def outcomes(self) -> list[EditOutcome]:
        """Return the outcomes of all edits so far."""
        lines = [line for file in self._files for line in file.read_text().split("\n")[:-1]]
        return [EditOutcome(**json.loads(line)) for line in lines]

    def wait_for(self, count: int, *, since: float = 0.0) -> None:
        """Wait until every writer has this many acknowledged edits that began after a given time."""
        end = time.monotonic() + DEADLINE_S
        while True:
            acknowledged = Counter(each.token.split("-")[-2] for each in self.outcomes() if done_since(each, since))
            if len(acknowledged) == len(self._places) and min(acknowledged.values()) >= count:
                return
            if time.monotonic() > end:
                raise AssertionError(
                    f"the writers do not go on: {acknowledged}, {Counter(t.code for t in self.outcomes())}"
                )
            time.sleep(0.2)


def done_since(outcome: EditOutcome, since: float) -> bool:
    """True if an edit that began after this time was acknowledged."""
    return outcome.code is None and outcome.began >= since


@dataclass(frozen=True)
class Outage:
    """Duration of an outage, for the engine and as the clients saw it."""

    name: str
    engine_s: float
    first_s: float
    every_s: float
    codes: dict[str | None, int]

    def __str__(self) -> str:
        engine = f"{self.name}: the engine itself answered again after {self.engine_s:.1f} s"
        clients = f"the first acknowledged edit after {self.first_s:.1f} s, of every client after {self.every_s:.1f} s"
        return f"{engine}; {clients}; answers {self.codes}"


def outage(name: str, load: Load, *, killed: float, back: float) -> Outage:
    """Return the outage after a kill at `killed`, given that the engine worked again at `back`."""
    firsts: dict[str, float] = {}
    for each in load.outcomes:
        if done_since(each, killed):
            worker, ended = each.token.split("-")[-2], each.began + each.took_s
            firsts[worker] = min(firsts.get(worker, ended), ended)
    first, last = min(firsts.values()), max(firsts.values())
    felt = Counter(each.code for each in load.outcomes if each.began + each.took_s >= killed)
    return Outage(name, back - killed, first - killed, last - killed, dict(felt))


def until(works: Callable[[], object]) -> float:
    """Retry until `works` succeeds, and return the monotonic time."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            works()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return time.monotonic()


# -- one writer --------------------------------------------------------------------------------------------------


def main(place: str, name: str, worker: int, count: int, out: IO[str]) -> None:
    """Edit until stdin closes or all edits are done."""
    with retentive.open(place) as opened:
        store = opened.store()
        for number in range(count):
            if select.select([sys.stdin], [], [], PACE_S)[0]:
                return
            out.write(json.dumps(asdict(edit(store, name, worker, number))) + "\n")
            out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.stdout)
    except RetentiveError as error:
        sys.exit(f"{error.code}: {error}")
