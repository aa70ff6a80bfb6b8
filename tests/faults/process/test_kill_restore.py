"""A process that is killed while it restores a thousand memories has restored all memories or none."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.storage.contract import Transaction, create_or_update
from support.places import place_of
from support.profiles import LONG, sized

ROUNDS = sized(quick=2, long=4, full=40)
MEMORIES = 1_000

RESTORE = """
import sys, retentive
place, version = sys.argv[1:]
with retentive.open(place) as opened:
    store = opened.store()
    store.read("/memories/0000.md")
    print("ready", flush=True)
    store.history.restore("/memories", version)
    print("done", flush=True)
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["sqlite", "directory", "postgresql"] if LONG else ["sqlite"])
def test_a_killed_restore_is_complete_or_absent(backend: str, tmp_path: Path) -> None:
    """The kill can happen at any moment. Another restore afterwards has no conflict."""
    place = place_of(backend, tmp_path)
    with retentive.open(place, max_memories=0) as opened:
        store = opened.store()
        first, second = written(store, "first"), written(store, "second")
        trees = {first: tree(store, "first"), second: tree(store, "second")}
    wanted, duration = first, 0.0
    states: set[str] = set()
    for number in range(ROUNDS):
        after_s = random.Random(number).uniform(0, duration) if duration else None
        began = time.monotonic()
        killed_after(place, wanted, after_s)
        duration = duration or time.monotonic() - began
        with retentive.open(place, max_memories=0) as opened:
            found = {memory.path: opened.store().read(memory.path) for memory in opened.store().memories()}
            assert found in (trees[first], trees[second])
            states.add("done" if found == trees[wanted] else "not done")
            opened.store().history.restore("/memories", wanted)
        wanted = second if wanted == first else first
    assert "done" in states


def written(store: MemoryStore, word: str) -> str:
    """Rewrite all memories in one change, and return the last version of the change."""

    def work(tx: Transaction) -> str:
        paths = [f"/memories/{number:04}.md" for number in range(MEMORIES)]
        changes = [create_or_update(tx.get(path).memory, path, f"{word} {path}\n".encode()) for path in paths]
        return tx.record(changes, None)[-1].version_id

    return store._core.backend.write(store.id, work)


def tree(store: MemoryStore, word: str) -> dict[str, str]:
    return {memory.path: f"{word} {memory.path}\n" for memory in store.memories()}


def killed_after(place: str, version: str, after_s: float | None) -> None:
    """Restore in a separate process that is killed after this delay. Without a delay, the process runs to its end."""
    command = [sys.executable, "-c", RESTORE, place, version]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if after_s is not None:
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
