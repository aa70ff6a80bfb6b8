"""The peers of `server.py`: the same views and edits by 64 callers, through the nearest that each peer offers.

AgentFS and mem0 publish no server on a package registry, so their callers are threads of the process that has the store
open; the reference MCP memory server gets the requests of all callers over its standard input. None of them pays for
HTTP, a key, or a second process. Each has its own environment (`workloads/environments.py`); one that does not install
is named, and left out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from candidates import memory_text, state
from figures import Figures, Sheet, duration, figures, own_folder, rate
from workloads.adapters import agentfs, mcp_memory, mem0
from workloads.environments import Unavailable, interpreter, version
from workloads.oracle import same
from workloads.processes import Failed, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from workloads.adapters.base import System
    from workloads.operations import Turn

PEERS: Mapping[str, System] = {each.name: each for each in (*agentfs.SYSTEMS, *mem0.SYSTEMS, *mcp_memory.SYSTEMS)}
MOST = {"full": 300, "quick": 100, "tiny": 2}
"""Operations of each caller, if the time of a turn is not over before."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures of a case of a system. A case with failed operations has none, since failures cost no work."""

    system: str
    case: str
    figures: Figures | None
    failed: int = 0
    operations: int = 0


@dataclass(frozen=True, kw_only=True)
class Load:
    """Callers at the same time, the operations of each at most, and the seconds of a turn."""

    callers: int
    operations: int
    turn_s: float


def measured_peers(names: Sequence[str], place: Path, load: Load) -> list[Measured]:
    """Figures of each peer that runs here. Those that do not are named on standard error."""
    found: list[Measured] = []
    for name in names:
        system = PEERS[name]
        try:
            python = interpreter(system)
            with Process(system, python, own_folder(place, system.adapter) / "log") as process:
                found += _measured(process, system, own_folder(place, f"{system.adapter}-data").resolve(), load)
        except (Unavailable, Failed) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def _measured(process: Process, system: System, folder: Path, load: Load) -> Iterator[Measured]:
    process.open(folder, "")
    keys = [f"notes/{number:03d}" for number in range(load.callers)]
    process.fill({key: memory_text(0) for key in keys})
    name = f"{system.name} {version(system)}".strip()
    views: Turn = [[["read", key]] * load.operations for key in keys]
    edits: Turn = [[["replace", key, _edited(number + 1)] for number in range(load.operations)] for key in keys]
    for case, turn in (("views", views), ("edits", edits)):
        process.run([each[:1] for each in turn], load.turn_s)  # the first call of a thread opens the store
        span_ns, done = process.run(turn, load.turn_s)
        every = list(chain(*done))
        errors = [each.error for each in every if each.error]
        if errors:
            print(f"{name}: {len(errors)} of {len(every)} {case} failed, such as: {errors[0]}", file=sys.stderr)
        elif case == "edits":
            _check(process, {key: _edited(len(mine)) for key, mine in zip(keys, done, strict=True)})
        made = None if errors else figures([each.took_ns for each in every], span_ns=span_ns)
        yield Measured(system=name, case=case, figures=made, failed=len(errors), operations=len(every))
    process.close()


def _edited(edits: int) -> str:
    """Text of a memory after this number of edits."""
    return memory_text(0).replace(state(0), state(edits))


def _check(process: Process, expected: Mapping[str, str]) -> None:
    """Fail unless each note has its last acknowledged text."""
    _, texts = process.read(list(expected))
    lost = [key for key, text in expected.items() if same(texts[key] or "") != same(text)]
    if lost:
        raise Failed(f"{len(lost)} of {len(expected)} notes do not have their last acknowledged text")


def sheet_of_peers(rows: Sequence[Measured]) -> Sheet:
    """Table of the systems, with the cases of the server among them."""
    records: list[dict[str, object]] = []
    cells = []
    for row in rows:
        found = row.figures
        records.append({"system": row.system, "case": row.case, "failed": row.failed, "operations": row.operations})
        if found is None:
            cells.append((row.system, row.case, "", "", "", f"{row.failed:,} of {row.operations:,}"))
        else:
            records[-1] |= {"most": found.per_second, "median_ms": found.median_ms, "p99_ms": found.p99_ms}
            times = duration(found.median_ms), duration(found.p99_ms)
            cells.append((row.system, row.case, rate(found.per_second), *times, ""))
    return Sheet("Server and peers", ("system", "case", "most /s", "median", "p99", "failed"), cells, records)
