"""Histories of clients in threads and processes are linearizable on every durable backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import retentive
from retentive import Version
from retentive.storage.contract import EXTERNAL
from support.linearizability.checker import Command, Operation, why_not
from support.linearizability.history import Run, lines_seen, record
from support.places import ALL_LASTING, SERVERS, place_of
from support.profiles import LONG, sized
from support.shape import Expected
from support.targets import Answer

HISTORIES = sized(quick=1, long=2, full=6)
HISTORIES_ON_SERVERS = sized(quick=1, long=1, full=3)
PROCESSES = 8 if LONG else 4
THREADS = 2
COMMANDS = sized(quick=120, long=400, full=1_000) // (PROCESSES * THREADS)  # commands per client and history
SCENES = ("memories", "tree")
KILLED_AFTER = 12  # commands of one client

CASES = [
    (backend, seed)
    for backend in (ALL_LASTING if LONG else ["sqlite", "directory", "postgresql"])
    for seed in range(HISTORIES_ON_SERVERS if backend in SERVERS else HISTORIES)
]
on_every_backend = pytest.mark.parametrize(("backend", "seed"), CASES)


@on_every_backend
@pytest.mark.parametrize("killed_after", [0, pytest.param(KILLED_AFTER, marks=pytest.mark.long)])
def test_threads_and_processes_are_linearizable(backend: str, seed: int, killed_after: int, tmp_path: Path) -> None:
    """The clients view, edit, delete and rename a few memories. In every second history they also use directories.

    The command that was running when a process was killed took effect once or never, and never in part.
    """
    place = place_of(backend, tmp_path)
    out = str(tmp_path / "out")
    history = record(Run([place], out, PROCESSES, THREADS, COMMANDS, seed, SCENES[seed % 2], killed_after))
    if killed_after:
        of_the_killed = [each for each in history if each.client.startswith("0.")]
        assert killed_after <= len(of_the_killed) < THREADS * COMMANDS
    else:
        assert reply_share(history) > 0.9
    assert why_not(history) == ""
    assert external_versions(place) == []


# -- control: the SDK's own local tool ---------------------------------------------------------------------------


@pytest.mark.long
def test_concurrent_clients_of_the_sdk_tool_lose_changes(tmp_path: Path) -> None:
    """The tool reads and writes without a lock. The recorder and the checker must detect the changes that it loses."""
    place = f"sdk:{tmp_path}/memory"
    history = record(Run([place], f"{tmp_path}/out", processes=4, threads=2, count=50, seed=1, scene="edits"))
    assert why_not(history, alike=loosely) != ""


def loosely(_command: Command, expected: Expected, answer: Answer) -> bool:
    """Compare two replies without their wording.

    They must be two errors, show the same lines, or be other successes.
    """
    same_lines = lines_seen(expected.text or "") == lines_seen(answer.text)
    return expected.is_error == answer.is_error and same_lines


def external_versions(place: str) -> list[Version]:
    """Return the versions recorded as external edits. The tests expect none."""
    with retentive.open(place) as opened:
        return [version for version in opened.store().versions() if version.actor == EXTERNAL]


def reply_share(history: Sequence[Operation]) -> float:
    """Return the share of commands whose reply is known."""
    return sum(each.known and not each.did_nothing for each in history) / len(history)
