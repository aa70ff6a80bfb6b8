"""Backups and migrations of a store in use: each is one consistent state, and a killed migration resumes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up, export_files, export_whole
from retentive.transfer.restore import migrate, restore
from support.places import place_of
from support.profiles import LONG
from support.waiting import until

from .copies import facts, fill

WRITERS = 8
PATIENCE_S = 120.0
QUICK = ["sqlite", *(["directory", "postgresql", "mariadb"] if LONG else [])]


class Writers:
    """Eight threads, each of which appends the lines 0, 1, 2 ... to a memory of its own.

    The texts show whether a copy is one consistent state, and how old the state is.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._stop = threading.Event()
        self.done = [0] * WRITERS
        self._threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(WRITERS)]

    def _write(self, number: int) -> None:
        path = f"/memories/{number}"
        assert not self._store.execute({"command": "create", "path": path, "file_text": ""}).is_error
        while not self._stop.is_set():
            line = self.done[number]
            command = {"command": "insert", "path": path, "insert_line": line, "insert_text": str(line)}
            assert not self._store.execute(command).is_error
            self.done[number] += 1

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        self.go_on(5)
        return self

    def go_on(self, lines: int) -> None:
        """Wait until each thread has written this many more lines."""
        before = list(self.done)
        until(lambda: all(done >= was + lines for done, was in zip(self.done, before, strict=True)))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.mark.parametrize("kind", QUICK)
def test_an_export_during_writes_is_one_revision(kind: str, tmp_path: Path) -> None:
    """A backup, an export and plain files each contain one consistent revision, at least as new as their start."""
    with retentive.open(place_of(kind, tmp_path)) as opened:
        store = opened.store()
        with Writers(store) as writers:
            seen = list(writers.done)
            (backup,) = back_up(opened.backend, str(tmp_path / "b.tar")).stores
            export = export_whole(store, str(tmp_path / "e.tar.zst"))
            files = export_files(store, str(tmp_path / "files"))
            writers.go_on(1)
        now = store._core.backend.read(store.id, lambda snapshot: snapshot.state.revision)
        assert 0 < backup.revision <= export.revision <= files.revision <= now
        expected = {version.id: version for version in store.versions()}
    for name, made in (("b.tar", backup), ("e.tar.zst", export)):
        with retentive.open("sqlite://") as target, open_archive(str(tmp_path / name)) as archive:
            restore(archive, target.backend)
            copy = target.store()
            versions = list(copy.versions())
            assert all(expected[version.id] == version for version in versions)
            assert {id_ for id_, version in expected.items() if version.revision <= made.revision} == {
                version.id for version in versions
            }
            check(seen, {memory.path[-1]: copy.read(memory.path) for memory in copy.memories()})
    check(seen, {path.name: path.read_text() for path in (tmp_path / "files").iterdir()})


def check(seen: list[int], texts: dict[str, str]) -> None:
    assert set(texts) == {str(number) for number in range(WRITERS)}
    for name, text in texts.items():
        assert text == "".join(f"{line}\n" for line in range(text.count("\n")))
        assert text.count("\n") >= seen[int(name)]


@pytest.mark.parametrize("kind", QUICK)
def test_a_migration_during_writes_copies_everything(kind: str, tmp_path: Path) -> None:
    """The migration reports its progress during the writes.

    After the writes end, another run copies the remaining versions.
    """
    with retentive.open(place_of(kind, tmp_path)) as source, retentive.open("sqlite://") as target:
        store = source.store()
        with Writers(store):
            (first,) = migrate(source.backend, target.backend).stores
        assert first.versions >= WRITERS
        (last,) = migrate(source.backend, target.backend).stores
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
