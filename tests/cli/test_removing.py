"""`redact`, `erase` and `scan --history`: what goes for good, and who is asked before."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from pathlib import Path

import pytest

import retentive

from .running import RETENTIVE, environment, here, terminal

A, B = "/memories/a", "/memories/b"
SECRET = "correct horse battery staple"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Two memories whose earlier texts held a secret, one of them deleted, in one of two stores."""
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


def ids(place: str) -> list[str]:
    """Of all versions, oldest first."""
    with retentive.open(place) as opened:
        return [version.id for version in opened.store().versions()][::-1]


def left(place: str) -> list[str]:
    """The operations of the versions that still have a text or path, oldest first."""
    with retentive.open(place) as opened:
        return [str(each.operation) for each in opened.store().versions() if each.redacted_at is None][::-1]


def bytes_of(place: str) -> bytes:
    path = Path(place.removeprefix("sqlite:///"))
    return b"".join(one.read_bytes() for one in path.parent.glob("memory.db*"))


def test_versions_are_redacted(place: str) -> None:
    first, second, third, _ = ids(place)
    ended = here(place, "redact", first, third, "--yes")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "Redacted 2 versions.\n", "")
    assert left(place) == ["modified", "deleted"]
    assert json.loads(here(place, "redact", first, "--yes", "--json").stdout) == {"versions": 0, "pending": False}
    assert here(place, "redact", second, "--yes").exit_code == 2
    assert here(place, "redact", "memver_none", "--yes").exit_code == 3
    here(place, "--store", "other", "erase", A, "--yes")
    assert SECRET.encode() not in bytes_of(place)


def test_all_but_what_is_there_now_is_redacted(place: str) -> None:
    """Of a memory, of one that was deleted, and below a directory."""
    assert here(place, "redact", "--all-of", A, "--yes").stdout == "Redacted 1 version.\n"
    assert here(place, "redact", "--all-of", A).stdout == "Redacted 0 versions.\n"  # nothing is left to ask about
    assert here(place, "redact", "--all-of", B, "--yes").stdout == "Redacted 2 versions.\n"
    assert left(place) == ["modified"]
    assert here(place, "cat", A).stdout == "nothing"
    here(place, "replace", A, "nothing", "more")
    assert here(place, "redact", "--all-of", "/memories", "--yes").stdout == "Redacted 1 version.\n"
    assert here(place, "redact", "--all-of", "/memories/none", "--yes").exit_code == 3


def test_a_memory_is_erased_with_its_history(place: str) -> None:
    gone = json.loads(here(place, "log", B, "--json").stdout)[0]["memory_id"]
    assert here(place, "erase", A, "--yes").stdout == f"Erased {A} with 3 versions.\n"
    missing = here(place, "erase", B, "--yes")
    assert (missing.exit_code, f"--memory {gone}" in missing.stderr) == (3, True)
    ended = here(place, "erase", "--memory", gone, "--yes", "--json")
    assert json.loads(ended.stdout) == {"versions": 2, "pending": False}
    assert here(place, "log").stdout == ""
    assert here(place, "erase", "--memory", gone, "--yes").exit_code == 3
    assert here(place, "erase", "/memories/none", "--yes").exit_code == 3


def test_a_whole_store_is_erased(place: str) -> None:
    assert here(place, "erase", "--whole-store", "other", "--yes").stdout == "Erased the memory store other.\n"
    assert (SECRET + " too").encode() not in bytes_of(place)
    assert len(here(place, "stores").stdout.splitlines()) == 1
    assert here(place, "--store", "other", "ls").exit_code == 3
    assert here(place, "erase", "--whole-store", "other", "--yes").exit_code == 3
    assert left(place) == ["created", "modified", "created", "deleted"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("redact",),
        ("redact", "memver_x", "--all-of", A),
        ("redact", "--finish", "--all-of", A),
        ("erase",),
        ("erase", A, "--memory", "mem_x"),
        ("erase", "--memory", "mem_x", "--whole-store", "other"),
    ],
)
def test_what_goes_must_be_named_once(place: str, arguments: tuple[str, ...]) -> None:
    assert here(place, *arguments, "--yes").exit_code == 2
    assert left(place) == ["created", "modified", "created", "deleted"]


# -- asking --------------------------------------------------------------------------------------------------------


def answered(directory: Path, answer: str, *arguments: str) -> tuple[str, int]:
    """What a terminal shows of `retentive` where a person types an answer, and its status."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    with subprocess.Popen(
        [RETENTIVE, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment(directory)
    ) as child:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:  # Linux says EIO when the other side is closed
            pass
        finally:
            os.close(ours)
    return shown.decode(), child.returncode


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (("redact", "--all-of", B), "Remove the text and path of 2 versions for good?"),
        (("erase", A), f"Erase {A} with its 2 versions for good?"),
        (("erase", "--whole-store", "default"), "Erase the memory store default with its 1 memories for good?"),
    ],
)
def test_a_person_is_asked(place: str, tmp_path: Path, arguments: tuple[str, ...], question: str) -> None:
    """And nothing goes but after a yes."""
    shown, status = answered(tmp_path, "n\n", "--at", place, *arguments)
    assert (question in shown, "Nothing was removed." in shown, status) == (True, True, 1)
    assert left(place) == ["created", "modified", "created", "deleted"]
    shown, status = answered(tmp_path, "y\n", "--at", place, *arguments)
    assert (question in shown, status) == (True, 0)
    assert left(place) != ["created", "modified", "created", "deleted"]


def test_where_nobody_can_be_asked_nothing_goes(place: str) -> None:
    for arguments in (("redact", ids(place)[0]), ("erase", A), ("erase", "--whole-store", "other")):
        ended = here(place, *arguments)
        assert (ended.exit_code, "--yes" in ended.stderr) == (2, True)
    assert left(place) == ["created", "modified", "created", "deleted"]
    assert len(here(place, "stores").stdout.splitlines()) == 2


# -- what stays ------------------------------------------------------------------------------------------------------


def test_what_is_pending_is_told_and_ended(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process reads, bytes may stay in the log; `redact --finish` removes them."""
    monkeypatch.setattr("retentive.storage.sqlite.backend.PURGE_WAIT_S", 0.05)
    here(place, "--store", "other", "erase", A, "--yes")
    reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM versions").fetchone()
    ended = here(place, "redact", "--all-of", "/memories", "--yes")
    assert ended.stdout == "Redacted 3 versions.\n"
    assert ended.stderr.startswith("Pending: ")
    assert "retentive redact --finish" in ended.stderr
    assert json.loads(here(place, "redact", "--finish", "--json").stdout) == {"versions": 0, "pending": True}
    assert SECRET.encode() in bytes_of(place)
    reader.close()
    assert json.loads(here(place, "redact", "--finish", "--json").stdout) == {"versions": 0, "pending": False}
    assert SECRET.encode() not in bytes_of(place)


def test_a_whole_store_can_be_pending_too(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.storage.sqlite.backend.PURGE_WAIT_S", 0.05)
    reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM versions").fetchone()
    ended = here(place, "erase", "--whole-store", "other", "--yes")
    assert ended.stderr.startswith("Pending: ")
    assert json.loads(here(place, "redact", "--finish", "--json").stdout)["pending"] is True
    reader.close()
    assert json.loads(here(place, "redact", "--finish", "--json").stdout)["pending"] is False
    assert (SECRET + " too").encode() not in bytes_of(place)


def test_scan_looks_through_the_history(place: str, tmp_path: Path) -> None:
    """And redacts what it finds there."""
    key = "AKIAQ3EGVSNB6RTKX2ZP"
    here(place, "settings", "set", "sensitive=off")
    here(place, "create", "/memories/k", f"the key is {key}\n")
    here(place, "replace", "/memories/k", key, "gone")
    assert here(place, "scan").stdout == ""
    ended = here(place, "scan", "--history")
    assert (ended.exit_code, ended.stdout.startswith("/memories/k\taws")) == (16, True)
    assert terminal(tmp_path, "--at", place, "scan", "--history", NO_COLOR="1").startswith("/memories/k  aws")
    assert terminal(tmp_path, "--at", place, "scan") == "No sensitive values.\r\n"
    assert here(place, "scan", "--history", "--redact").exit_code == 0
    assert here(place, "scan", "--history").stdout == ""
    assert key.encode() not in bytes_of(place)
