"""Storage in an unknown format, from another application or a newer version, is refused and left unchanged."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import retentive
from retentive.doctor import check_location
from retentive.errors import UnknownSchema
from retentive.storage.sql.schema import APPLICATION_ID
from support.places import place_of

A = "/memories/a"


def files_in(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def database(path: Path, *statements: str) -> None:
    """Create a SQLite file of another application."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
        return found


def created(place: str) -> None:
    """Create a location with one memory."""
    with retentive.open(place) as opened:
        assert not opened.store().execute({"command": "create", "path": A, "file_text": "kept"}).is_error


def refused(place: str, message: str) -> None:
    """Check that opening and examining the location both report the error."""
    with pytest.raises(UnknownSchema, match=message):
        retentive.open(place)
    (finding,) = check_location(place)
    assert finding.code in {"schema_new", "schema_foreign"}


def test_a_sqlite_file_carries_its_application_and_version(tmp_path: Path) -> None:
    """The `file` program and the SQLite tools can show the application and the version."""
    created(f"sqlite:///{tmp_path}/memory.db")
    assert pragma(tmp_path / "memory.db", "application_id") == APPLICATION_ID
    assert pragma(tmp_path / "memory.db", "user_version") == 1


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE mine (a TEXT)", "INSERT INTO mine VALUES ('text')"],
        ["CREATE TABLE memories (mine TEXT)"],
        ["PRAGMA application_id = 7"],
        ["PRAGMA user_version = 3"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE mine (a TEXT)"],
        ["PRAGMA journal_mode = WAL", "PRAGMA application_id = 7", "CREATE TABLE mine (a TEXT)"],
    ],
    ids=["tables", "a table of ours", "an application id", "a version", "a log", "a log and an id"],
)
def test_a_database_of_another_application_is_not_changed(statements: list[str], tmp_path: Path) -> None:
    """The bytes of the database stay the same, and no file appears next to it."""
    database(tmp_path / "memory.db", *statements)
    before = files_in(tmp_path)
    refused(f"sqlite:///{tmp_path}/memory.db", "another application")
    assert files_in(tmp_path) == before


def test_an_open_database_of_another_application_is_not_changed(tmp_path: Path) -> None:
    """The contents of the other application's database are still in its write-ahead log only."""
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
        for statement in ("PRAGMA journal_mode = WAL", "CREATE TABLE mine (a TEXT)", "INSERT INTO mine VALUES ('x')"):
            theirs.execute(statement)
        before = {name: data for name, data in files_in(tmp_path).items() if not name.endswith("-shm")}
        refused(f"sqlite:///{path}", "another application")
        after = {name: data for name, data in files_in(tmp_path).items() if not name.endswith("-shm")}
        assert after == before
        assert theirs.execute("SELECT a FROM mine").fetchall() == [("x",)]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "directory"])
def test_a_newer_database_is_not_changed(kind: str, is_open: bool, tmp_path: Path) -> None:
    """Its number is that of a whole directory too. While a newer program has it open, it is in the log only."""
    place = place_of(kind, tmp_path)
    path = tmp_path / ("memory.db" if kind == "sqlite" else "memory/.retentive/memory.db")
    created(place)
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute("PRAGMA user_version = 2")
        newer.execute("CREATE TABLE newer (a TEXT)")
        if not is_open:
            newer.close()
        before = path.read_bytes()
        refused(place, "schema 2, but this version of retentive supports only schema 1; upgrade")
        assert path.read_bytes() == before


def test_a_foreign_database_in_a_directory_is_not_changed(tmp_path: Path) -> None:
    created(f"{tmp_path}/memory")
    path = tmp_path / "memory/.retentive/memory.db"
    path.unlink()
    database(path, "CREATE TABLE mine (a TEXT)")
    before = path.read_bytes()
    refused(f"{tmp_path}/memory", "another application")
    assert path.read_bytes() == before


def test_a_database_that_another_process_is_writing_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log appears after it was looked for, and a part of it is already in the file."""
    path, place = tmp_path / "memory.db", f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(place) as opened, closing(sqlite3.connect(path)) as connection:
        opened.store().create(A, "kept")
        whole = connection.serialize()
        with path.open("r+b") as file:  # the first page of the log is copied
            file.write(whole[:4096])
        sizes = iter([path.stat().st_size, 0, 0])
        size_of = "retentive.storage.sqlite.format.size_of"
        monkeypatch.setattr(size_of, lambda name: next(sizes, os.path.exists(name) and os.path.getsize(name)))
        with retentive.open(place, create=False) as again:
            assert again.store().read(A) == "kept"
        assert next(sizes, None) is None


def test_an_empty_file_is_accepted(tmp_path: Path) -> None:
    """An empty file is accepted because `mktemp` creates one."""
    (tmp_path / "memory.db").touch()
    created(f"sqlite:///{tmp_path}/memory.db")
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        assert opened.store().read(A) == "kept"


# -- directories ---------------------------------------------------------------------------------------------------


def test_a_private_folder_of_another_application_is_not_changed(tmp_path: Path) -> None:
    """A folder that has contents but no database belongs to another application."""
    private = tmp_path / "memory/.retentive"
    private.mkdir(parents=True)
    (private / "settings.ini").write_text("mine")
    before = files_in(tmp_path)
    refused(f"{tmp_path}/memory", "no database of retentive")
    assert files_in(tmp_path) == before
    assert [path.name for path in (tmp_path / "memory").iterdir()] == [".retentive"]


@pytest.mark.parametrize("left", [[], ["tmp", "live"], ["memory.db-new", "memory.db-reserve", "memory.db"]])
def test_an_interrupted_creation_of_a_folder_is_completed(left: list[str], tmp_path: Path) -> None:
    """The creating process was killed before the database had its tables."""
    private = tmp_path / "memory/.retentive"
    private.mkdir(parents=True)
    for name in left:
        (private / name).mkdir() if name == "tmp" else (private / name).touch()
    created(f"{tmp_path}/memory")
    with retentive.open(tmp_path / "memory") as opened:
        assert opened.store().read(A) == "kept"


# -- servers -------------------------------------------------------------------------------------------------------
