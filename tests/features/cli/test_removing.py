"""`redact`, `erase` and `scan --history`: permanent removal, and the confirmation that it needs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import retentive
from support.command_line import here, interactive, version_ids

A, B = "/memories/a", "/memories/b"
SECRET = "correct horse battery staple"


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Location with two stores.

    In one of them, the old texts of two memories contain a secret. One memory is deleted.
    """
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        store = opened.store()
        for command in (
            {"command": "create", "path": A, "file_text": SECRET},
            {"command": "str_replace", "path": A, "old_str": SECRET, "new_str": "nothing"},
            {"command": "create", "path": B, "file_text": SECRET},
            {"command": "delete", "path": B},
        ):
            assert not store.execute(command).is_error
        opened.store("other").execute({"command": "create", "path": A, "file_text": SECRET + " too"})
    return at


def left(location: str) -> list[str]:
    """Return the operations of the versions that still have a text or a path, oldest first."""
    with retentive.open(location) as opened:
        return [str(each.operation) for each in opened.store().versions() if each.redacted_at is None][::-1]


def bytes_of(location: str) -> bytes:
    path = Path(location.removeprefix("sqlite:///"))
    return b"".join(one.read_bytes() for one in path.parent.glob("memory.db*"))


def test_versions_are_redacted(location: str) -> None:
    first, second, third, _ = version_ids(location)
    ended = here(location, "redact", first, third, "--yes")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "Redacted 2 versions.\n", "")
    assert left(location) == ["modified", "deleted"]
    again = here(location, "redact", first, "--yes")
    assert (again.exit_code, again.stdout) == (3, "")
    assert again.stderr == "Error: nothing was redacted: the versions are redacted already\n"
    assert here(location, "redact", second, "--yes").exit_code == 2
    assert here(location, "redact", "memver_none", "--yes").exit_code == 3
    here(location, "--store", "other", "erase", A, "--yes")
    assert SECRET.encode() not in bytes_of(location)


def test_directories_are_redacted_and_erased(location: str) -> None:
    here(location, "create", "d/one", SECRET)
    here(location, "write", "d/one", "nothing")
    assert here(location, "redact", "--all-of", "d", "--yes").stdout == "Redacted 1 version.\n"
    nothing = here(location, "redact", "--all-of", "d", "--yes")
    assert (nothing.exit_code, nothing.stdout) == (3, "")
    assert nothing.stderr == "Error: nothing was redacted: /memories/d has no old version with a text\n"
    asked = here(location, "erase", "d")
    assert (asked.exit_code, "pass --yes" in asked.stderr) == (2, True)
    assert here(location, "erase", "d", "--yes").stdout == "Erased /memories/d with 3 versions.\n"
    root = here(location, "erase", ".", "--yes")
    assert (root.exit_code, "--whole-store" in root.stderr) == (2, True)


def test_a_memory_is_erased_with_its_history(location: str) -> None:
    gone = json.loads(here(location, "log", B, "--json").stdout)[0]["memory_id"]
    assert here(location, "erase", A, "--yes").stdout == f"Erased {A} with 3 versions.\n"
    missing = here(location, "erase", B, "--yes")
    assert (missing.exit_code, gone in missing.stderr) == (3, True)
    ended = here(location, "erase", gone, "--yes", "--json")
    assert json.loads(ended.stdout) == {"versions": 2, "pending": False}
    assert here(location, "log").stdout == ""
    assert here(location, "erase", gone, "--yes").exit_code == 3
    assert here(location, "erase", "/memories/none", "--yes").exit_code == 3


def test_a_whole_store_is_erased(location: str) -> None:
    assert (
        here(location, "erase", "--whole-store", "--store", "other", "--yes").stdout
        == "Erased the memory store other.\n"
    )
    assert (SECRET + " too").encode() not in bytes_of(location)
    assert len(here(location, "stores").stdout.splitlines()) == 1
    assert here(location, "--store", "other", "ls").exit_code == 3
    assert here(location, "erase", "--whole-store", "--store", "other", "--yes").exit_code == 3
    assert left(location) == ["created", "modified", "created", "deleted"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("redact",),
        ("redact", "memver_x", "--all-of", A),
        ("erase", A, "mem_x"),
        ("erase", "mem_x", "--whole-store", "--store", "other"),
        ("erase", "--whole-store"),
    ],
)
def test_exactly_one_target_is_required(location: str, arguments: tuple[str, ...]) -> None:
    assert here(location, *arguments, "--yes").exit_code == 2
    assert left(location) == ["created", "modified", "created", "deleted"]


# -- confirmation --------------------------------------------------------------------------------------------------


def test_removal_needs_confirmation(location: str, tmp_path: Path) -> None:
    """Nothing is removed unless the answer is yes."""
    for arguments, question, answer in (
        (("erase", "--whole-store", "--store", "default"), "erase the memory store default with 1 memory?", "n"),
        (("redact", "--all-of", B), f"Permanently remove the text and path of all old versions of {B}?", "n"),
        (("erase", A), f"Permanently erase {A} and its history?", "y"),
    ):
        assert left(location) == ["created", "modified", "created", "deleted"]
        with interactive(tmp_path, "--at", location, *arguments) as shown:
            shown.expect(question)
            shown.type(f"{answer}\r")
            assert (shown.end(), "Nothing was removed." in shown.shown) == ((0, False) if answer == "y" else (1, True))
    assert left(location) == ["created", "deleted"]


# -- pending removals ----------------------------------------------------------------------------------------------


def test_a_pending_removal_is_reported_and_finished_later(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process reads, removed bytes may stay in the log. `admin maintain` removes them later."""
    monkeypatch.setattr("retentive.storage.sqlite.backend.PURGE_WAIT_S", 0.05)
    here(location, "--store", "other", "erase", A, "--yes")
    reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM versions").fetchone()
    ended = here(location, "redact", "--all-of", "/memories", "--yes")
    assert ended.stdout == "Redacted 3 versions.\n"
    assert ended.stderr.startswith("Pending: ")
    assert "`retentive admin maintain`" in ended.stderr
    assert here(location, "admin", "maintain").exit_code == 0
    assert SECRET.encode() in bytes_of(location)
    reader.close()
    assert here(location, "admin", "maintain").exit_code == 0
    assert SECRET.encode() not in bytes_of(location)


def test_a_scan_that_redacts_the_history_asks_first(location: str) -> None:
    """Without a terminal, nothing is removed unless --yes is given."""
    key = "AKIAQ3EGVSNB6RTKX2ZP"
    here(location, "settings", "set", "sensitive=off")
    here(location, "create", "/memories/k", f"the key is {key}\n")
    here(location, "replace", "/memories/k", key, "gone")
    asked = here(location, "admin", "scan", "--history", "--redact")
    assert asked.exit_code == 2
    assert "pass --yes" in asked.stderr
    assert here(location, "admin", "scan", "--history").exit_code == 16
    assert here(location, "admin", "scan", "--history", "--redact", "--yes").exit_code == 0
    assert here(location, "admin", "scan", "--history").exit_code == 0
