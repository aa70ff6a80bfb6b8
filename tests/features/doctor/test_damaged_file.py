"""A truncated or overwritten SQLite file: the doctor reports the damage, does not fail, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.cli.exits import PROBLEMS
from support.command_line import here
from support.damage import codes, fill, look, opened, walked


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Database with a history."""
    directory = tmp_path_factory.mktemp("whole")
    with opened("sqlite", directory) as place:
        walked(place.store(), 11, 150)
        fill(place.store("second"))
    return directory / "memory.db"


def test_repairing_a_damaged_file_does_not_change_it(whole: Path, tmp_path: Path) -> None:
    """The finding says what to do."""
    data = bytearray(whole.read_bytes())
    pages = len(data) // 4096
    for page in range(3, pages, 4):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file = tmp_path / "memory.db"
    file.write_bytes(data)
    findings = look(f"sqlite:///{file}", repair=True)
    assert "file_damaged" in codes(findings)
    assert codes(findings, severity="repaired") == set()
    assert file.read_bytes() == bytes(data)
    said = here(f"sqlite:///{file}", "doctor", "--repair")
    assert said.exit_code == PROBLEMS
    assert "restore it from a backup" in said.stdout
    assert str(tmp_path) not in said.stdout


def test_an_empty_file_differs_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but long enough to look like something" * 20)
    (tmp_path / "empty.db").write_bytes(b"")
    assert codes(look(f"sqlite:///{tmp_path}/text.db")) >= {"file_damaged"}
    for repair in (False, True):  # a lost database must not be replaced by an empty healthy one
        (only,) = look(f"sqlite:///{tmp_path}/empty.db", repair=repair)
        assert (only.code, only.severity) == ("unreadable", "problem")
        assert only.subject == "the database is empty; everything in it was lost"
        assert (tmp_path / "empty.db").read_bytes() == b""
    assert here(f"sqlite:///{tmp_path}/none.db", "doctor").exit_code == 3
    assert not (tmp_path / "none.db").exists()
