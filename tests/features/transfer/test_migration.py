"""Migration of a store in use: it copies everything despite concurrent writes, and it resumes after a kill."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.transfer.restore import migrate
from support.places import place_of

from .copies import facts, fill
from .writers import PATIENCE_S, QUICK, WRITERS, Writers


@pytest.mark.parametrize("kind", QUICK)
def test_a_migration_during_writes_copies_everything(kind: str, tmp_path: Path) -> None:
    """The migration reports its progress during the writes.

    After the writes end, another run copies the remaining versions.
    """
    with retentive.open(place_of(kind, tmp_path)) as source, retentive.open("sqlite://") as target:
        store = source.store()
        with Writers(store):
            (first,) = migrate(source.backend, target.backend)
        assert first.versions >= WRITERS
        (last,) = migrate(source.backend, target.backend)
        assert last.revision == store._core.backend.read(store.id, lambda snapshot: snapshot.state.revision)
        assert facts(target.backend, store.id) == facts(source.backend, store.id)


COMMAND = [str(Path(sys.executable).with_name("retentive"))]
MOST_CALLS = 2_000
KILLED = """
import os, signal, sys
import retentive
from retentive.transfer.restore import migrate

def count(frame, event, argument):
    global left
    left -= event == "call"
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def begin(done, total):
    if sys.getprofile() is None:
        sys.setprofile(count)

source_at, target_at, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
with retentive.open(source_at) as source, retentive.open(target_at) as target:
    migrate(source.backend, target.backend, progress=begin)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [("sqlite", "directory"), pytest.param("directory", "postgresql", marks=pytest.mark.long)],
)
def test_a_killed_migration_resumes(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """After kills at any moment, both stores agree, and no version was copied twice."""
    source_at, target_at = place_of(source_kind, tmp_path), target_place(target_kind, tmp_path)
    with retentive.open(source_at, max_memories=0) as source:
        store = source.store()
        fill(store, 5, steps=150)
        for number in range(600):
            store.execute({"command": "create", "path": f"/memories/many/{number}", "file_text": f"{number}\n" * 20})
        total = len(list(store.versions()))
        chance, there = random.Random(source_kind), [0]
        while there[-1] < total:
            run_killed(source_at, target_at, after=chance.randint(1, MOST_CALLS))
            there.append(copied(target_at))
            assert there[-1] > there[-2]
        assert len(there) > 2  # the first run was killed before it copied everything
        done = run("--at", source_at, "admin", "migrate", target_at, "--json")
        assert json.loads(done.stdout)["stores"][0]["versions"] == total
        with retentive.open(target_at) as target:
            assert facts(target.backend, store.id) == facts(source.backend, store.id)


def target_place(kind: str, tmp_path: Path) -> str:
    (tmp_path / "target").mkdir()
    return place_of(kind, tmp_path / "target")


def run_killed(source_at: str, target_at: str, *, after: int) -> None:
    """Run a migration that is killed this many calls after its first batch."""
    command = [sys.executable, "-c", KILLED, source_at, target_at, str(after)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr


def copied(at: str) -> int:
    """Return the number of versions at the target."""
    if "://" not in at and not os.path.exists(os.path.join(at, ".retentive", "memory.db")):
        return 0
    with retentive.open(at) as target:
        return sum(len(list(MemoryStore(target.backend, info).versions())) for info in target.stores())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
