"""A repair rebuilds what other stored values prove and deletes nothing. What would delete needs its name."""

from __future__ import annotations

import json
import os
import stat
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.errors import InvalidInput
from support.command_line import here
from support.damage import A, C, E, codes, fill, look, opened, sql
from support.places import place_of
from support.profiles import LONG

BACKENDS = ["sqlite", "directory", "postgresql", "mariadb"] if LONG else ["sqlite", "directory"]
TEXTS = {A: "two\n", C: "bee\n", E: "deep é\n"}
STORE_COLUMNS = "id, workspace, store_key, name, properties, created_at, revision, memories, size_bytes, last_at"


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A closed location with a history, and another store."""
    with opened(request.param, tmp_path) as found:
        fill(found.store())
        found.store("other").execute({"command": "create", "path": A, "file_text": "other\n"})
    return place_of(request.param, tmp_path)


def texts(place: str) -> dict[str, str]:
    with retentive.open(place) as found:
        store = found.store()
        return {memory.path: store.read(memory.path) for memory in store.memories()}


def copies(directory: Path) -> list[dict[str, Any]]:
    files = list(directory.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_store_whose_row_is_lost_stays_until_it_is_discarded(place: str, tmp_path: Path) -> None:
    """Its row can be put back. A discard saves every row first, in a new file for each run."""
    (row,) = sql(place, f"SELECT {STORE_COLUMNS} FROM stores WHERE no = 1")
    sql(place, "DELETE FROM stores WHERE no = 1")
    findings = look(place, repair=True)
    assert {one.name for one in findings if one.severity == "problem"} == {"rows_left/1"}
    assert codes(findings, severity="repaired") == set()
    overriding = "OVERRIDING SYSTEM VALUE " if place.startswith("postgresql") else ""
    sql(place, f"INSERT INTO stores (no, {STORE_COLUMNS}) {overriding}VALUES (1, {', '.join('?' * len(row))})", row)
    assert texts(place) == TEXTS
    sql(place, "DELETE FROM stores WHERE no = 1")
    saved = tmp_path / "saved"
    found = look(place, discarded=["rows_left/1"], save_to=saved)
    assert (codes(found), codes(found, severity="repaired")) == (set(), {"rows_left"})
    kept = copies(saved)
    assert {b64decode(one["row"]["text"]["base64"]).decode() for one in kept if one["row"].get("text")} >= {"two\n"}
    assert {one["finding"] for one in kept} == {"rows_left/1"}
    assert sql(place, "SELECT count(*) FROM versions WHERE store = 1") == [(0,)]
    sql(place, "INSERT INTO records (store, kind, name, value) VALUES (1, 'a', 'b', 'c')")
    look(place, discarded=["rows_left/1"], save_to=saved)
    assert len(list(saved.iterdir())) == 2


@pytest.mark.parametrize("statement", [
    "UPDATE versions SET text_of = NULL WHERE text_of IS NOT NULL",
    "UPDATE versions SET text_of = 'memver_nothing' WHERE text_of IS NOT NULL",
    "UPDATE memories SET text_of = 'memver_nothing'",
    "UPDATE memories SET sha256 = '', size_bytes = 1",
    "UPDATE memories SET version = 'memver_nothing'",
])  # fmt: skip
def test_pointers_are_rebuilt_from_hashes(place: str, statement: str) -> None:
    """No text is taken for an orphan."""
    sql(place, statement)
    assert codes(look(place)) != set()
    assert codes(look(place, repair=True)) == set()
    assert texts(place) == TEXTS


def test_a_lost_row_of_a_memory_is_rebuilt_from_its_newest_version(place: str) -> None:
    """The counters of the store prove that it is lost."""
    before = sql(place, "SELECT * FROM memories WHERE path = ?", (C,))
    sql(place, "DELETE FROM memories WHERE path = ?", (C,))
    assert codes(look(place, repair=True)) == set()
    after = sql(place, "SELECT * FROM memories WHERE path = ?", (C,))
    assert [row[:-1] for row in after] == [row[:-1] for row in before]  # the mark of a file is read again
    assert texts(place) == TEXTS


def test_a_deleted_memory_does_not_return_because_its_deletion_is_lost(place: str) -> None:
    """The counters do not count it."""
    sql(place, "DELETE FROM versions WHERE operation = 'deleted'")
    assert codes(look(place, repair=True)) == {"memory_lost"}
    assert texts(place) == TEXTS


def test_a_text_that_another_row_holds_is_copied(tmp_path: Path) -> None:
    """Found by its hash."""
    with opened("sqlite", tmp_path) as found:
        for path in (A, C):
            found.store().execute({"command": "create", "path": path, "file_text": "same\n"})
    place = place_of("sqlite", tmp_path)
    sql(place, "UPDATE versions SET text = ? WHERE path = ?", (b"some\n", A))
    assert codes(look(place, repair=True), severity="repaired") == {"text_wrong", "old_text_wrong"}
    assert texts(place) == {A: "same\n", C: "same\n"}


def test_a_damaged_text_is_rebuilt_from_its_file(tmp_path: Path) -> None:
    """If the file matches the hash; otherwise the file is an external edit."""
    with opened("directory", tmp_path) as found:
        fill(found.store())
    place = place_of("directory", tmp_path)
    sql(place, "UPDATE versions SET text = ? WHERE text = ?", (b"owt\n", b"two\n"))
    assert codes(look(place, repair=True)) == set()
    assert texts(place) == TEXTS


def test_a_name_that_no_finding_has_discards_nothing(place: str) -> None:
    sql(place, "DELETE FROM stores WHERE no = 2")
    for name in ("rows_left/1", "rows_left", "usage_wrong/2", "nothing"):
        with pytest.raises(InvalidInput, match="rows_left/2"):
            look(place, discarded=["rows_left/2", name])
    assert {one.name for one in look(place) if one.severity == "problem"} == {"rows_left/2"}


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_copies_are_beside_a_local_location(backend: str, tmp_path: Path) -> None:
    """In the directory that the documentation names, with the command line."""
    with opened(backend, tmp_path) as found:
        fill(found.store())
    place = place_of(backend, tmp_path)
    sql(place, "INSERT INTO records (store, kind, name, value) VALUES (9, 'a', 'b', 'c')")
    done = here(place, "doctor", "--discard", "rows_left/9")
    assert (done.exit_code, done.stdout.split("\t")[0]) == (0, "repaired")
    directory = tmp_path / ("memory.db-discarded" if backend == "sqlite" else "memory/.retentive/discarded")
    assert [one["row"]["value"] for one in copies(directory)] == ["c"]
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700


def test_a_server_needs_a_directory_for_the_copies() -> None:
    from retentive.doctor.discarding import default_directory

    assert default_directory("postgresql://db/memory") is None
    assert default_directory("s3://bucket/prefix") is None
