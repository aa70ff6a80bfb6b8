"""`retentive check` asks questions whose answers are known, and fails if one is not found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import retentive
from support.command_line import Ended, inside

AT = "sqlite:///memory.db"
FILE = """
budget = 200
[[question]]
ask = "How long do refunds take?"
paths = ["refunds.md"]
texts = ["WITHIN 30 days"]
[[question]]
ask = "Who approves large refunds?"
paths = ["/memories/team"]
under = "team"
limit = 3
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store = opened.store()
        store.create("/memories/refunds.md", "Refunds within 30 days.\n")
        store.create("/memories/team/ann.md", "Ann approves large refunds.\n")
    (tmp_path / "q.toml").write_text(FILE)
    return tmp_path


def check(directory: Path, *options: str) -> Ended:
    return inside(directory, "--at", AT, "check", "q.toml", *options)


def test_a_missed_answer_fails_beside_the_last_run(directory: Path) -> None:
    """The record is a small file that can be committed. It changes only if an outcome does."""
    first = check(directory)
    assert (first.status, first.err) == (0, "2 of 2 questions answered.\n")
    record = directory / "q.last.json"
    assert json.loads(record.read_text()) == {"How long do refunds take?": True, "Who approves large refunds?": True}
    assert inside(directory, "--at", AT, "rm", "team/ann.md").status == 0
    second = check(directory, "--no-record")
    assert (second.status, second.err) == (17, "1 of 2 questions answered, 1 no longer.\n")
    assert second.out.decode().splitlines() == [
        "found\tfound\tHow long do refunds take?\t",
        "missing\tfound\tWho approves large refunds?\t/memories/team",
    ]
    assert False not in json.loads(record.read_text()).values()
    found = json.loads(check(directory, "--json").out)
    assert (found["found"], found["total"], found["questions"][1]["before"]) == (1, 2, True)
    assert 0 < found["questions"][0]["tokens"] <= 200
    assert json.loads(record.read_text())["Who approves large refunds?"] is False


def test_a_budget_limits_what_is_found(directory: Path) -> None:
    """A recall that has no room for the second answer misses it."""
    lines = "\n".join(f"{number}. Refunds take {'very ' * 20}long." for number in range(9))
    with retentive.open(f"sqlite:///{directory}/memory.db") as opened:
        opened.store().create("/memories/long.md", lines)
    (directory / "q.toml").write_text('[[question]]\nask = "refunds take very long"\ntexts = ["0. ", "8. "]\n')
    assert [check(directory, "--budget", tokens).status for tokens in ("50", "2000")] == [17, 0]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_read_only(directory: Path) -> None:
    """The outcome counts, although it cannot be recorded."""
    directory.chmod(0o500)
    assert check(directory).status == 0


BROKEN: dict[str, tuple[Any, str]] = {
    "no TOML": ("[[question]\n", "this is not TOML: "),
    "no question": ("budget = 1\n", "the file has no questions"),
    "another key": (FILE + 'path = "a"\n', "question 2: path is not one of"),
    "a wrong type": (FILE.replace("limit = 3", "limit = true"), "question 2: limit must be a whole number"),
    "a wrong list": (FILE.replace('["refunds.md"]', "[1]"), "question 1: paths must be a list of texts"),
    "an empty list": ('[[question]]\nask = "a"\npaths = []\n', "question 1 needs"),
    "no path": (FILE.replace("refunds.md", "../refunds.md"), "Question: How long do refunds take?"),
    "nothing to find": ('[[question]]\nask = "a"\n', "question 1 needs"),
    "the same question": (FILE.replace("Who approves large refunds?", "How long do refunds take?"), "question 2 needs"),
    "a small budget": (FILE.replace("200", "5"), "Question: How long do refunds take?"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(directory: Path, name: str) -> None:
    """The error names the question and what is right. Nothing is recorded."""
    text, message = BROKEN[name]
    (directory / "q.toml").write_text(text)
    found = check(directory)
    assert (found.status, found.out) == (2, b"")
    assert message in found.err
    assert not (directory / "q.last.json").exists()


def test_a_broken_record_is_no_record(directory: Path) -> None:
    """What else is in the file does not stop a check."""
    for text in ("[" * 100_000, "[]", '{"a": 1}', "\udcff"):
        (directory / "q.last.json").write_text(text, errors="surrogateescape")
        assert check(directory).out.decode().startswith("found\tnew\t")
