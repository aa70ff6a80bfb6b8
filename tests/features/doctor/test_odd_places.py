"""doctor never says healthy where a command cannot run, and never ends in a traceback, whatever the location is."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import retentive
from retentive.cli.exits import PROBLEMS, status_of
from retentive.doctor import check
from support.command_line import here
from support.places import KEYS, opened, place_of

DAMAGED, INVALID = status_of("damaged"), status_of("invalid_input")


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a closed SQLite location and a closed directory, with two stores each."""
    directory = tmp_path_factory.mktemp("intact")
    for backend in ("sqlite", "directory"):
        with opened(backend, directory) as place:
            for key in ("default", "other"):
                place.store(key).write("/memories/a.md", f"text of {key}")
    return directory


def edited(*statements: str) -> Callable[[Path], None]:
    def edit(place: Path) -> None:
        with closing(sqlite3.connect(place)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return edit


FIRST = "WHERE store_key = 'default'"
ROWS = {
    name: edited(f"UPDATE stores SET {change} {FIRST}")
    for name, change in {
        "properties cut": "properties = '['",
        "properties of other types": "properties = '{\"metadata\": 5}'",
        "properties bytes": "properties = x'00ff'",
        "properties not UTF-8": "properties = CAST(x'ff' AS TEXT)",
        "name bytes": "name = x'ff'",
        "key bytes": "store_key = x'ff'",
        "id not UTF-8": "id = CAST(x'ff' AS TEXT)",
        "created a word": "created_at = 'abc'",
        "erased a word": "erased_at = 'x'",
        "seal a word": "seal = 'abc'",
    }.items()
}
STORES_LISTED = ROWS.keys() - {"erased a word"}  # an erased store is not listed


@pytest.mark.parametrize("row", ROWS)
def test_one_bad_row_breaks_neither_the_listing_nor_other_stores(row: str, intact: Path, tmp_path: Path) -> None:
    """The doctor reports it, the listing names the store as damaged, and the other store works."""
    shutil.copy(intact / "memory.db", tmp_path)
    at = place_of("sqlite", tmp_path)
    ROWS[row](tmp_path / "memory.db")
    assert here(at, "cat", "a.md").exit_code != 0
    doctor = here(at, "doctor")
    assert doctor.exit_code == PROBLEMS, doctor.stdout
    assert "ok\tother\thealthy" in doctor.stdout
    assert "ok\tdefault" not in doctor.stdout
    listing = here(at, "stores")
    assert listing.exit_code == 0, listing.stderr
    assert len(listing.stdout.splitlines()) == (2 if row in STORES_LISTED else 1)
    assert ("damaged" in listing.stdout) == (row in STORES_LISTED and row != "seal a word")
    assert here(at, "--store", "other", "cat", "a.md").stdout == "text of other"
    with retentive.open(at) as place:
        assert {info.key for info in place.list_stores().items} >= {"other"}


@pytest.mark.parametrize("change", ["cut", "missing", "of another letter", "of another store"])
def test_a_wrong_seal_is_a_problem_with_keys_and_without(change: str, tmp_path: Path) -> None:
    """An encrypted store whose seal is damaged or lost is not called locked, and its neighbour is not affected."""
    with opened("sealed sqlite", tmp_path) as place:
        for key in ("default", "other"):
            place.store(key).write("/memories/a.md", "text")
    file = tmp_path / "sealed" / "memory.db"
    seal = {
        "cut": "substr(seal, 1, 40)",
        "missing": "NULL",
        "of another letter": 'replace(seal, \'"key": "\', \'"key": "A\')',
        "of another store": "(SELECT seal FROM stores WHERE store_key = 'other')",
    }[change]
    edited(f"UPDATE stores SET seal = {seal} {FIRST}")(file)
    with retentive.open(f"sqlite:///{file}", keys=KEYS) as place:
        found = [finding for finding in check(place.backend) if finding.store_key == "default"]
        assert {finding.severity for finding in found} == ({"note"} if change == "of another store" else {"problem"})
        assert [info.key for info in place.stores()] == ["default", "other"]
        assert place.store("other").read("/memories/a.md") == "text"
    doctor = here(f"sqlite:///{file}", "doctor")
    assert doctor.exit_code == (PROBLEMS if change in {"cut", "missing", "of another letter"} else status_of("locked"))


def a_text(file: Path) -> None:
    file.write_text("hello\n")


def random_bytes(file: Path) -> None:
    file.write_bytes(os.urandom(8_192))


DATABASES: dict[str, tuple[Callable[[Path], None], int, int]] = {
    # name: how to make it, and the status of `ls` and of `doctor`
    "a column renamed": (edited("ALTER TABLE stores RENAME COLUMN properties TO other"), DAMAGED, PROBLEMS),
    "a table missing": (edited("DROP TABLE records"), DAMAGED, PROBLEMS),
    "a column dropped": (edited("ALTER TABLE versions DROP COLUMN provenance"), DAMAGED, PROBLEMS),
    "a view": (edited("ALTER TABLE memories RENAME TO m", "CREATE VIEW memories AS SELECT 1"), DAMAGED, PROBLEMS),
    "another application": (edited("PRAGMA application_id = 7"), status_of("unknown_schema"), PROBLEMS),
    "a newer schema": (edited("PRAGMA user_version = 99"), status_of("unknown_schema"), PROBLEMS),
    "an older schema": (edited("PRAGMA user_version = 0"), DAMAGED, PROBLEMS),
    "settings cut": (edited("UPDATE stores SET settings = '['"), status_of("unknown_schema"), PROBLEMS),
    "text": (a_text, DAMAGED, PROBLEMS),
    "random bytes": (random_bytes, DAMAGED, PROBLEMS),
}  # fmt: skip


@pytest.mark.parametrize("name", DATABASES)
def test_a_changed_or_foreign_database_is_no_healthy_one(name: str, intact: Path, tmp_path: Path) -> None:
    shutil.copy(intact / "memory.db", tmp_path)
    make, of_ls, of_doctor = DATABASES[name]
    make(tmp_path / "memory.db")
    at = place_of("sqlite", tmp_path)
    assert [here(at, command).exit_code for command in ("ls", "doctor")] == [of_ls, of_doctor]


@contextmanager
def a_socket(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have only 108 characters
    try:
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(path.name)
            yield
    finally:
        os.chdir(before)


KINDS = ["a pipe", "a socket", "a device", "a link to nothing", "the other kind"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_what_is_neither_a_file_nor_a_directory_is_named(kind: str, backend: str, tmp_path: Path) -> None:
    """No command waits for a pipe, writes to a device or follows a link to nothing."""
    path = tmp_path / "place"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path = Path(os.devnull)
    elif kind == "a link to nothing":
        path.symlink_to("nowhere")
    elif kind == "the other kind":
        path.mkdir() if backend == "sqlite" else path.write_text("")
        kind = "a directory" if backend == "sqlite" else "a file"
    at = f"sqlite:///{path}" if backend == "sqlite" else str(path)
    named = "a pipe, socket or device" if kind in {"a pipe", "a socket", "a device"} else kind
    with a_socket(path) if kind == "a socket" else closing(open(os.devnull)):
        for command in (["ls"], ["doctor"], ["create", "a", "text"], ["stores"]):
            found = here(at, *command)
            assert (found.exit_code, found.stdout) == (INVALID, ""), (command, found.stderr)
            assert f"the location is {named}" in found.stderr
        with pytest.raises(retentive.InvalidInput, match=f"the location is {named}"):
            retentive.open(at)
