"""`status`: limits, the last change, proposals, external edits, trust and flagged lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive
from retentive.stats.status import status
from retentive.storage.sealed.keys import KeyRing
from support.command_line import here, terminal

A, B = "/memories/a", "/memories/b"


def rows(location: str | Path, *arguments: str) -> dict[str, str]:
    ended = here(location, "status", *arguments)
    assert ended.exit_code == 0, ended.output
    return dict(line.split("\t") for line in ended.stdout.splitlines())


@pytest.fixture
def location(tmp_path: Path) -> str:
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "--actor", "user:ann", "create", A, "one")
    return at


def test_a_quiet_store(location: str, tmp_path: Path) -> None:
    """Only what there always is; on a terminal of 80 columns no line is longer."""
    found = rows(location)
    assert [*found] == ["location", "store", "memories", "size", "last change", "changed"]
    assert (found["memories"], found["size"], found["changed"]) == ("1 of 10,000", "3B of 256.0M", f"created {A}")
    assert found["last change"].startswith("r1 by user:ann, 20")
    shown = terminal(tmp_path, "--at", "sqlite:///memory.db", "status", NO_COLOR="1", COLUMNS="80")
    assert shown.splitlines()[2] == "memories     1 of 10,000"
    assert max(map(len, shown.splitlines())) <= 80


def test_a_new_store() -> None:
    assert rows("sqlite://")["last change"] == "none"


def test_everything_at_once(location: str) -> None:
    here(location, "settings", "set", "max_memories=3", 'review=["session:*"]', 'trust={"user:eve": "unconfirmed"}')
    here(location, "create", B, "fine\nmy password is hunter22 really\n")
    here(location, "insert", B, "0", "another line")
    here(location, "--actor", "session:s1", "create", "/memories/p", "p")
    here(location, "--actor", "user:eve", "create", "/memories/e", "e")
    here(location, "--actor", "user:eve", "mv", "/memories/e", "/memories/f")
    found = rows(location)
    assert found["near a limit"] == "uses 100 % of max_memories"
    assert found["review"] == "1 proposal pending; see `retentive review list`"
    assert found["trust"] == "1 memory not trusted; see `retentive trust list`"
    assert found["flagged"] == "1 line in 1 memory; see `retentive stats`"
    assert found["changed"] == "renamed /memories/e -> /memories/f"
    value = json.loads(here(location, "status", "--json").stdout)
    assert (value["usage"]["memories"], value["proposals"], value["doubted"], value["edits"]) == (3, 1, 1, [])
    assert (value["flagged"], value["findings"]) == ([{"path": B, "line": 3, "kinds": "password"}], None)
    assert value["last"]["versions"][0]["path_before"] == "/memories/e"


def test_a_scan_reads_every_text(location: str) -> None:
    """Values that were stored while the setting was off were never flagged."""
    here(location, "settings", "set", "sensitive=off", "sensitive_likely=off")
    here(location, "create", B, "my password is hunter22 really")
    here(location, "settings", "set", "sensitive=redact", "sensitive_likely=flag")
    assert "flagged" not in rows(location)
    assert rows(location, "--scan")["scan"] == "findings in 1 memory: password; see `retentive scan`"
    assert json.loads(here(location, "status", "--scan", "--json").stdout)["findings"][0]["path"] == B


def test_a_long_history_is_not_read(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest versions and the newest of each memory are; the output says so."""
    here(location, "create", B, "my password is hunter22 really\n\n\n")
    here(location, "create", "/memories/c", "my password is hunter22 really\n" + "x\n" * 1_000)
    here(location, "insert", "/memories/c", "1000", "y")
    here(location, "insert", A, "0", "zero")
    monkeypatch.setattr("retentive.stats.status.MAX_VERSIONS", 2)
    found = rows(location)
    assert found["flagged"] == "1 line in 1 memory; see `retentive stats`"
    assert found["not checked"] == "flags of older versions; `retentive status --scan` reads all texts"
    assert "findings in 2 memories" in rows(location, "--scan")["scan"]
    monkeypatch.setattr("retentive.stats.status.MAX_VERSIONS", 5)
    assert rows(location)["flagged"] == "2 lines in 2 memories; see `retentive stats`"
    assert "not checked" not in rows(location)


def test_external_edits_are_shown_and_not_recorded(tmp_path: Path) -> None:
    at = tmp_path / "memory"
    here(at, "create", A, "one")
    here(at, "create", B, "two")
    files = at / "memories"
    assert "edited files" not in rows(at)
    (files / "a").write_text("edited")
    (files / "b").unlink()
    (files / "new").write_text("n")
    before = rows(at)
    assert before["edited files"] == f"{A} and 2 more, not recorded yet; `retentive ls` records them"
    assert rows(at) == before
    assert json.loads(here(at, "status", "--json").stdout)["edits"] == [A, B, "/memories/new"]
    here(at, "ls")
    after = rows(at)
    assert "edited files" not in after
    assert after["last change"].startswith("r3 by job:external")


def test_a_tampered_file_of_an_encrypted_store(tmp_path: Path) -> None:
    keys = KeyRing.new()
    with retentive.open(str(tmp_path / "memory"), keys=keys) as opened:
        store = opened.store()
        for path in (A, B):
            store.execute({"command": "create", "path": path, "file_text": "one"})
        assert status(store).edits == ()
        (tmp_path / "memory/memories/a").write_bytes(b"tampered")
        assert status(store).edits == (A,)
