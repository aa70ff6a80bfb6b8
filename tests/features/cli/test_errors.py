"""Error messages name the location or the file, for the user of the shell, but no password."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import here
from support.damage import sql

PATH = "/memories/notes.md"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with a memory in `memory.db` the current one."""
    monkeypatch.chdir(tmp_path)
    assert here("sqlite:///memory.db", "create", PATH, "one").exit_code == 0
    return tmp_path


@pytest.mark.usefixtures("directory")
def test_a_location_that_cannot_be_opened_is_named() -> None:
    Path("broken.db").write_text("not a database, but longer than the header of a database " * 40)
    ended = here("sqlite:///broken.db", "ls")
    assert ended.exit_code == 13
    assert ended.stderr.endswith("\nLocation: sqlite:///broken.db\n")
    assert json.loads(here("sqlite:///broken.db", "ls", "--json").stdout)["text"] + "\n" == ended.stderr


@pytest.mark.usefixtures("directory")
def test_an_unreachable_server_is_named_without_its_password() -> None:
    ended = here("postgresql://ann:secret@127.0.0.1:1/memory?connect_timeout=2&timeout_s=1", "ls")
    assert ended.exit_code == 11
    assert ended.stderr.endswith("\nLocation: postgresql://127.0.0.1:1/memory\n")
    assert "secret" not in ended.stderr


def test_an_error_reply_of_the_storage_is_followed_by_the_location(directory: Path) -> None:
    """The reply is the one that a model gets. The location follows on a line of its own."""
    sql(f"sqlite:///{directory}/memory.db", "UPDATE versions SET text = ?", (b"\xff",))
    ended = here("sqlite:///memory.db", "view", PATH)
    reply = json.loads(here("sqlite:///memory.db", "view", PATH, "--json").stdout)
    assert (ended.exit_code, reply["code"]) == (13, "damaged")
    assert ended.stderr == f"{reply['text']}\nLocation: sqlite:///memory.db\n"
    assert "sqlite" not in reply["text"]


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["import", "missing"], "Source: missing"),
        (["import", "--whole", "memory.db"], "Source: memory.db"),
        (["export", "memory.db"], "Destination: memory.db"),
        (["backup", "memory.db"], "File: memory.db"),
        (["restore-backup", "missing.tar"], "File: missing.tar"),
        (["--keys", "missing.json", "ls"], "Key file: missing.json"),
        (["settings", "set", "--file", "missing.json"], "the settings file missing.json"),
        (["replace", PATH, "--old-file", "missing", "x"], "cannot read 'missing'"),
    ],
)
def test_files_are_named(command: list[str], named: str) -> None:
    ended = here("sqlite:///memory.db", *command)
    assert ended.exit_code != 0
    assert named in ended.stderr
