"""Six workloads of agents, on retentive and on other memory systems.

    python benchmarks/workloads/run.py [--quick] [--only A] [--system NAME] [--json FILE]
    python benchmarks/workloads/run.py --publish FILE

Each peer runs in a process of its own, in an environment made from the package registries in the user's cache
directory. A peer that does not install is skipped, with the reason. Systems take turns in every round. An oracle
compares all answers, and what two processes read at the end, with the acknowledged changes; a lost, torn or stale
one voids the figure. `--publish` puts the tables of a run into benchmarks/README.md and draws docs/workloads.svg.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder of `figures` and of this package

from workloads.command import main

if __name__ == "__main__":
    main(__doc__)
