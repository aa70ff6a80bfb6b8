"""A damaged log of a database, or the loss of one of its two files, never leaves an intact store of older changes."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import retentive
from retentive.doctor import check_location
from retentive.errors import Damaged
from support.command_line import here
from support.places import opened, place_of

BACKENDS = ["sqlite", "directory"]
HEADER, FRAME = 32, 24 + 4_096  # of a log: sqlite.org/fileformat2.html


def database(backend: str, directory: Path) -> Path:
    """Return the SQLite file of a location."""
    return directory / ("memory.db" if backend == "sqlite" else "memory/.retentive/memory.db")


def killed(backend: str, directory: Path, *, memories: int = 12) -> Path:
    """Leave a location as after `kill -9`: a copy made while it is open. Return its database file."""
    (directory / "open").mkdir()
    with opened(backend, directory / "open") as place:
        store = place.store()
        for number in range(memories):
            store.write(f"/memories/{number:02}.md", f"text {number}")
        shutil.copytree(directory / "open", directory / "left")
    return database(backend, directory / "left")


def flip(file: Path, position: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(file.read_bytes())
    data[position] ^= 4
    file.write_bytes(data)


def log_of(database_file: Path) -> Path:
    return database_file.with_name(database_file.name + "-wal")


def commits(log: Path) -> list[int]:
    """Return the numbers of the frames that end a transaction."""
    data = log.read_bytes()
    ends = range((len(data) - HEADER) // FRAME)
    return [number for number in ends if any(data[HEADER + number * FRAME + 4 : HEADER + number * FRAME + 8])]


def codes(at: str) -> list[str]:
    return [finding.code for finding in check_location(at) if finding.severity != "note"]


PLACES_IN_LOG = {
    "magic": 3, "page size": 10, "salt of the log": 17, "checksum of the log": 25,
    "page number": HEADER + 40 * FRAME + 2, "commit": HEADER + 40 * FRAME + 6, "salt": HEADER + 40 * FRAME + 9,
    "checksum": HEADER + 40 * FRAME + 17, "page": HEADER + 40 * FRAME + 900, "first page": HEADER + 100,
}  # fmt: skip


@pytest.mark.parametrize(("place", "backend"), [*((name, "sqlite") for name in PLACES_IN_LOG), ("page", "directory")])
def test_a_flipped_bit_in_the_log_stops_every_command(place: str, backend: str, tmp_path: Path) -> None:
    """Nothing is written. A person may restore the log, or cut it as the doctor says."""
    file = killed(backend, tmp_path)
    at, log = place_of(backend, tmp_path / "left"), log_of(file)
    intact = log.read_bytes()
    flip(log, PLACES_IN_LOG[place])
    damaged = log.read_bytes()
    assert codes(at)[0] == "log_damaged"
    assert "healthy" not in codes(at)
    for command in (["ls"], ["create", "new", "text"], ["doctor"], ["doctor", "--repair"], ["stores"]):
        assert here(at, *command).exit_code == (17 if command[0] == "doctor" else 13), command
        assert log.read_bytes() == damaged
    with pytest.raises(Damaged, match="log of the database is damaged"):
        retentive.open(at)
    log.write_bytes(intact)
    assert codes(at) == ["healthy"]
    if PLACES_IN_LOG[place] > HEADER + FRAME:
        flip(log, PLACES_IN_LOG[place])
        (byte,) = re.findall(r"intact up to byte (\d+)", here(at, "doctor").stdout)
        os.truncate(log, int(byte))
        assert "log_damaged" not in codes(at)
        with retentive.open(at) as place_again:
            present = len(place_again.store().memories())
        assert 0 < present < 12 if backend == "sqlite" else present == 12  # the files are external edits now


@pytest.mark.parametrize("ending", ["whole", "last commit cut", "last commit flipped", "later frames", "zeros"])
def test_what_a_crash_leaves_in_the_log_is_no_damage(ending: str, tmp_path: Path) -> None:
    """A commit that was not acknowledged, frames of a rolled back transaction, and frames of an earlier log."""
    file = killed("sqlite", tmp_path)
    log = log_of(file)
    data, last = log.read_bytes(), HEADER + (commits(log)[-2] + 1) * FRAME
    if ending == "last commit cut":
        log.write_bytes(data[: last + FRAME + 100])
    elif ending == "last commit flipped":
        flip(log, last + 500)
    elif ending == "later frames":
        log.write_bytes(data + data[last : last + FRAME] * 3)
    elif ending == "zeros":
        log.write_bytes(data + bytes(5 * FRAME))
    with retentive.open(f"sqlite:///{file}") as place:
        assert len(place.store().memories()) >= 11
    assert codes(f"sqlite:///{file}") == ["healthy"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lost", ["log", "file", "file emptied", "log emptied"])
def test_half_of_a_database_is_no_new_store(lost: str, backend: str, tmp_path: Path) -> None:
    """A database file without its log, or a log without its file, is not an empty store after a read or a write."""
    file = killed(backend, tmp_path)
    at, log = place_of(backend, tmp_path / "left"), log_of(file)
    chosen = file if lost.startswith("file") else log
    if lost.endswith("emptied"):
        os.truncate(chosen, 0)
    else:
        chosen.unlink()
    for command in (["ls"], ["create", "new", "text"]):
        found = here(at, *command)
        assert found.exit_code == (3 if lost.startswith("file") and command == ["ls"] and backend == "sqlite" else 13)
    assert here(at, "doctor").exit_code != 0
    with pytest.raises(Damaged):
        retentive.open(at)


def test_an_interrupted_creation_is_completed(tmp_path: Path) -> None:
    """The process ended before it wrote the tables. Nothing was acknowledged."""
    full = tmp_path / "full"
    full.mkdir()
    with opened("sqlite", full) as place:
        place.store()
        for name in ("memory.db", "memory.db-reserve"):
            shutil.copy(full / name, tmp_path)
    assert sorted(path.name for path in full.iterdir() if path.name.endswith("-new")) == []
    at = place_of("sqlite", tmp_path)
    with pytest.raises(Damaged):
        retentive.open(at)
    (tmp_path / "memory.db-new").touch()
    with retentive.open(at) as place:
        place.store().write("/memories/a", "one")
    assert codes(at) == ["healthy"]
    assert not (tmp_path / "memory.db-new").exists()
