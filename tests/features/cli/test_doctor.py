"""`doctor` and `stats` on the command line: output for people and scripts, and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retentive.cli.exits import PROBLEMS
from support.command_line import here
from support.damage import fill, sql
from support.places import opened


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Location with some history. It is closed."""
    with opened("sqlite", tmp_path) as location:
        fill(location.store())
    return f"sqlite:///{tmp_path}/memory.db"


def test_a_healthy_place_ends_with_0(at: str) -> None:
    """Each store has one line in the output."""
    done = here(at, "doctor")
    assert done.exit_code == 0
    assert done.stdout == "ok\tdefault\thealthy\tNothing is wrong. 3 memories, 8 versions\t\n"
    here(at, "create", "a.md", "x", "--store", "one")
    assert "Nothing is wrong. 1 memory, 1 version\t" in here(at, "doctor").stdout


def test_problems_end_with_a_status_of_their_own_until_they_are_repaired(at: str) -> None:
    sql(at, "UPDATE versions SET memories = 77 WHERE id = (SELECT max(id) FROM versions)")
    done = here(at, "doctor")
    assert done.exit_code == PROBLEMS
    (line,) = done.stdout.splitlines()
    severity, store, code, what, advice = line.split("\t")
    assert (severity, store, code) == ("problem", "default", "usage_wrong")
    assert "77 memories" in what
    assert advice == "`retentive doctor --repair`"
    shown = here(at, "doctor", "--format", "table").stdout
    assert "\nusage_wrong: `retentive doctor --repair`\n1 problem, 0 notes, 0 repaired.\n" in shown
    repaired = here(at, "doctor", "--repair")
    assert repaired.exit_code == 0
    assert [line.split("\t")[0] for line in repaired.stdout.splitlines()] == ["repaired", "ok"]


def test_json(at: str) -> None:
    sql(at, "UPDATE versions SET text = ? WHERE text = ?", (b"other", b"two\n"))
    done = here(at, "doctor", "--json", "--quick")
    assert done.exit_code == PROBLEMS
    said = json.loads(done.stdout)
    assert [said[name] for name in ("ok", "note", "problem", "repaired")] == [0, 0, 1, 0]
    first = said["findings"][0]
    assert (first["code"], first["subject"], first["store_key"]) == ("text_wrong", "/memories/a.md", "default")
    assert first["repairable"] is False
    assert first["advice"].startswith("restore it from a backup")


def test_stats(at: str) -> None:
    done = here(at, "admin", "stats", "--days", "3")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["store", "memories", "3"] in rows
    assert [row[2:5] for row in rows if row[0] == "activity"] == [["4", "3", "1"]]
    assert ["who", "8", "user:ann"] in rows
    said = json.loads(here(at, "admin", "stats", "--json").stdout)
    assert (said["memories"], said["versions"], len(said["days"])) == (3, 8, 30)
    assert said["biggest"][0] == {"path": "/memories/d/e.md", "size_bytes": 8}
    assert said["actors"] == {"user:ann": 8}
