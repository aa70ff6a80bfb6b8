"""Migration of what is in use: under writers it copies all in the end, and killed it goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import retentive
from backends.places import place_of
from retentive import MemoryStore
from retentive.transfer.migrate import migrate

from .copies import facts, fill
from .writers import PATIENCE_S, QUICK, WRITERS, Writers


@pytest.mark.parametrize("kind", QUICK)
def test_a_migration_under_writers_copies_all_in_the_end(kind: str, tmp_path: Path) -> None:
    """While they write it says how far it came; once they are done, running it again brings the rest."""
    with retentive.open(place_of(kind, tmp_path)) as source, retentive.open("sqlite://") as target:
        store = source.store()
        with Writers(store):
            (first,) = migrate(source.backend, target.backend)
        assert first.versions >= WRITERS
        (last,) = migrate(source.backend, target.backend)
        assert not last.behind
        assert last.revision == store.backend.read(store.id, lambda snapshot: snapshot.revision)
        assert facts(target.backend, store.id) == facts(source.backend, store.id)


COMMAND = [str(Path(sys.executable).with_name("retentive"))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [("sqlite", "directory"), pytest.param("directory", "postgresql", marks=pytest.mark.long)],
)
def test_a_killed_migration_goes_on(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """Killed again and again, whatever it was doing; in the end both are the same, and no version was copied twice."""
    source_at, target_at = place_of(source_kind, tmp_path), target_place(target_kind, tmp_path)
    with retentive.open(source_at, max_memories=0) as source:
        store = source.store()
        fill(store, 5, steps=150)
        for number in range(600):
            store.execute({"command": "create", "path": f"/memories/many/{number}", "file_text": f"{number}\n" * 20})
        total = len(list(store.versions()))
        kills = 0
        while (there := copied(target_at)) < total:
            kills += killed(source_at, target_at, there, total)
            assert kills < 50
        assert kills > 0
        done = run("migrate", source_at, target_at, "--json")
        assert json.loads(done.stdout)["stores"][0]["versions"] == total
        with retentive.open(target_at) as target:
            assert facts(target.backend, store.id) == facts(source.backend, store.id)


def target_place(kind: str, tmp_path: Path) -> str:
    (tmp_path / "target").mkdir()
    return place_of(kind, tmp_path / "target")


def killed(source_at: str, target_at: str, there: int, total: int) -> int:
    """Start a migration and kill it once it has copied something more; 0 if it came to its end before."""
    with subprocess.Popen(
        [*COMMAND, "migrate", source_at, target_at], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and copied(target_at) <= there:
            assert time.monotonic() < deadline
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert not ended or process.returncode in {0, -signal.SIGKILL}, said
    return 0 if ended else 1


def copied(at: str) -> int:
    """How many versions are at the target."""
    if "://" not in at and not os.path.exists(os.path.join(at, ".retentive", "memory.db")):
        return 0
    with retentive.open(at) as target:
        return sum(len(list(MemoryStore(target.backend, info).versions())) for info in target.stores())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
