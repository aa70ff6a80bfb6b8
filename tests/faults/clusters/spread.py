"""A history of clients that reach one memory store through different nodes.

Usage: `python -m faults.clusters.spread PLACES OUT PROCESSES THREADS COUNT SEED SCENE`. PLACES is a JSON list.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from support.linearizability.checker import Operation
from support.linearizability.history import SCENES, TESTS, TIMEOUT_S, RunOptions, main, read


@dataclass(frozen=True)
class Spread(RunOptions):
    """A crowd whose processes are assigned to the URLs in turn."""

    places: tuple[str, ...] = ()

    def work(self, worker: int, gate: tuple[int, int]) -> None:
        """Do the work of a crowd member, at the URL of this worker."""
        RunOptions.work(replace(self, url=self.places[worker % len(self.places)]), worker, gate)


def record_spread(
    places: Sequence[str], out: Path, *, processes: int, threads: int, count: int, seed: int, scene: str
) -> list[Operation]:
    """Record the history of `processes` x `threads` clients with `count` commands each."""
    out.mkdir()
    arguments = map(str, [json.dumps(list(places)), out, processes, threads, count, seed, scene])
    command = [sys.executable, "-m", "faults.clusters.spread", *arguments]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}: {done.stderr}"
    return [operation for path in sorted(out.iterdir()) for operation in read(path)]


if __name__ == "__main__":
    places, out, processes, threads, count, seed, scene = sys.argv[1:]
    given = tuple(json.loads(places))
    crowd = Spread(given[0], Path(out), int(threads), int(count), int(seed), SCENES[scene], 0, given)
    sys.exit(main(crowd, int(processes)))
