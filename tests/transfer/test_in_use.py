"""Places that are in use: a backup under writers is one revision, a killed migration goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import commonplace
from backends.places import place_of
from commonplace import MemoryStore
from commonplace.transfer.archive_reading import open_archive
from commonplace.transfer.backing_up import back_up
from commonplace.transfer.exporting import export_files, export_whole
from commonplace.transfer.migrating import migrate
from commonplace.transfer.restoring import import_whole, restore

from .copies import facts, fill

WRITERS = 8
PATIENCE_S = 120.0
KINDS = ["sqlite", "directory", "postgresql", "mariadb"]
QUICK = [
    "sqlite",
    pytest.param("directory", marks=pytest.mark.long),
    "postgresql",
    pytest.param("mariadb", marks=pytest.mark.long),
]


class Writers:
    """Eight that each move a token back and forth between two memories, in one command at a time.

    Whatever one revision is, every writer has all its lines: each command adds the next number to its memory.
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
        """Wait until each has written more."""
        before, deadline = list(self.done), time.monotonic() + PATIENCE_S
        while any(done < was + lines for done, was in zip(self.done, before, strict=True)):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.mark.parametrize("kind", QUICK)
def test_what_is_written_out_under_writers_is_one_revision(kind: str, tmp_path: Path) -> None:
    """Versions, texts and tree of a backup, an export and plain files fit together, and are no older than begun."""
    with commonplace.open(place_of(kind, tmp_path)) as opened:
        store = opened.store()
        with Writers(store) as writers:
            seen = list(writers.done)
            (backup,) = back_up(opened.backend, str(tmp_path / "b.tar"))
            export = export_whole(store, str(tmp_path / "e.tar.gz"))
            files = export_files(store, str(tmp_path / "files"))
            writers.go_on(1)
        now = store.backend.read(store.id, lambda snapshot: snapshot.revision)
        assert 0 < backup.revision <= export.revision <= files.revision <= now
        expected = {version.id: version for version in store.versions()}
    for name, made in (("b.tar", backup), ("e.tar.gz", export)):
        with commonplace.open("sqlite://") as target, open_archive(str(tmp_path / name)) as archive:
            restore(archive, target.backend) if archive.is_backup else import_whole(archive, target.backend)
            copy = target.store()
            versions = list(copy.versions())
            assert all(expected[version.id] == version for version in versions)
            assert {id_ for id_, version in expected.items() if version.revision <= made.revision} == {
                version.id for version in versions
            }
            check(seen, {memory.path[-1]: copy.text(memory.path) for memory in copy.memories()})
    check(seen, {path.name: path.read_text() for path in (tmp_path / "files").iterdir()})


def check(seen: list[int], texts: dict[str, str]) -> None:
    assert set(texts) == {str(number) for number in range(WRITERS)}
    for name, text in texts.items():
        assert text == "".join(f"{line}\n" for line in range(text.count("\n")))
        assert text.count("\n") >= seen[int(name)]


@pytest.mark.parametrize("kind", QUICK)
def test_a_migration_under_writers_copies_all_in_the_end(kind: str, tmp_path: Path) -> None:
    """While they write it says how far it came; once they are done, running it again brings the rest."""
    with commonplace.open(place_of(kind, tmp_path)) as source, commonplace.open("sqlite://") as target:
        store = source.store()
        with Writers(store):
            (first,) = migrate(source.backend, target.backend)
        assert first.versions >= WRITERS
        (last,) = migrate(source.backend, target.backend)
        assert not last.behind
        assert last.revision == store.backend.read(store.id, lambda snapshot: snapshot.revision)
        assert facts(target.backend, store.id) == facts(source.backend, store.id)


COMMAND = [str(Path(sys.executable).with_name("commonplace"))]


@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [("sqlite", "directory"), pytest.param("directory", "postgresql", marks=pytest.mark.long)],
)
def test_a_killed_migration_goes_on(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """Killed again and again, whatever it was doing; in the end both are the same, and no version was copied twice."""
    source_at, target_at = place_of(source_kind, tmp_path), target_place(target_kind, tmp_path)
    with commonplace.open(source_at, max_memories=0) as source:
        store = source.store()
        fill(store, 5, steps=150)
        for number in range(1_500):
            store.execute({"command": "create", "path": f"/memories/many/{number}", "file_text": f"{number}\n" * 20})
        total = len(list(store.versions()))
        kills = 0
        while (there := copied(target_at)) < total:
            kills += killed(source_at, target_at, there, total)
            assert kills < 50
        assert kills > 1
        done = run("migrate", source_at, target_at, "--json")
        assert json.loads(done.stdout)["stores"][0]["versions"] == total
        with commonplace.open(target_at) as target:
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
    if "://" not in at and not os.path.exists(os.path.join(at, ".commonplace", "memory.db")):
        return 0
    with commonplace.open(at) as target:
        return sum(len(list(MemoryStore(target.backend, info).versions())) for info in target.stores())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
