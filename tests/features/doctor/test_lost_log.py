"""The loss of one of the two files of a database never leaves an intact store of older changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import retentive
from retentive.doctor import check_location
from retentive.errors import Damaged
from support.command_line import here
from support.places import opened, place_of

BACKENDS = ["sqlite", "directory"]


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


def log_of(database_file: Path) -> Path:
    return database_file.with_name(database_file.name + "-wal")


def codes(at: str) -> list[str]:
    return [finding.code for finding in check_location(at) if finding.severity != "note"]


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
