"""The peers of `server.py`: the same views and edits by 64 callers, through the nearest that each peer offers.

mem0 publishes no server on a package registry, so its callers are threads of the process that has the store open; the
reference MCP memory server gets the requests of all callers over its standard input. None of them pays for HTTP, a key,
or a second process. One that does not install is named, and left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from candidates import memory_text, state
from figures import figures, own_folder
from workloads.process import Failed, Process, Unavailable
from workloads.systems import SYSTEMS

PEERS = [each for each in SYSTEMS if each.name in {"mem0, no inference", "MCP server-memory"}]
MOST = 300
"""Operations of each caller, if the time of a turn is not over before."""


def measured_peers(place: Path, callers: int, turn_s: float) -> Iterator[tuple[str, ...]]:
    """Rows of each peer that runs here. A case with failed operations has no figures, since failures cost no work."""
    for system in PEERS:
        try:
            with Process(system, own_folder(place, "peer")) as process:
                process.open(own_folder(place, "peer-data"), "")
                keys = [f"notes/{number:03d}" for number in range(callers)]
                process.fill({key: memory_text(0) for key in keys})
                for case in ("views", "edits"):
                    yield system.name, case, *_measured(process, case, keys, turn_s)
        except (Unavailable, Failed) as error:
            print(f"{system.name} is left out: {error}", file=sys.stderr)


def _measured(process: Process, case: str, keys: list[str], turn_s: float) -> tuple[str, ...]:
    turn = [
        [["read", key] if case == "views" else ["replace", key, _edited(number + 1)] for number in range(MOST)]
        for key in keys
    ]
    process.run([each[:1] for each in turn], turn_s)  # the first call of a thread opens the store
    span_ns, done = process.run(turn, turn_s)
    every = list(chain(*done))
    if failed := [error for _, _, error in every if error]:
        print(f"{len(failed)} of {len(every)} {case} failed, such as: {failed[0]}", file=sys.stderr)
        return "", "", "", f"{len(failed):,} of {len(every):,}"
    if case == "edits":
        _, texts = process.read(keys)
        for key, mine in zip(keys, done, strict=True):
            if (texts[key] or "").rstrip("\n") != _edited(len(mine)).rstrip("\n"):
                raise Failed(f"{key} does not have its last acknowledged text")
    return *figures([took for took, _, _ in every], span_ns=span_ns).cells, ""


def _edited(edits: int) -> str:
    return memory_text(0).replace(state(0), state(edits))
