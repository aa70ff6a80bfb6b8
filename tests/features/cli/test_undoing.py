"""`restore` and `undo`: steps, conflicts and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive
from support.command_line import here, terminal, texts, version_ids

A, B, C = "/memories/a", "/memories/b", "/memories/d/c"


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Location with memories written by ann and changed by session s1."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        store = opened.store()
        for actor, command in (
            ("user:ann", {"command": "create", "path": A, "file_text": "one\ntwo\nthree\nfour\n"}),
            ("user:ann", {"command": "create", "path": C, "file_text": "c"}),
            ("session:s1", {"command": "str_replace", "path": A, "old_str": "one", "new_str": "1"}),
            ("session:s1", {"command": "create", "path": "/memories/e", "file_text": "e"}),
            ("session:s1", {"command": "rename", "old_path": C, "new_path": B}),
        ):
            assert not store.execute(command, actor=actor).is_error
    return at


FIRST = {A: "one\ntwo\nthree\nfour\n", C: "c"}


def test_a_session_is_undone(location: str) -> None:
    """The undo is one change, whoever runs it. It can be undone itself."""
    before = texts(location)
    ended = here(location, "--actor", "user:bob", "undo", "--session", "s1")
    assert (ended.exit_code, ended.stdout) == (
        0,
        f"reverted\t{A}\nmoved\t{B} -> {C}\ndeleted\t/memories/e\n",
    )
    assert texts(location) == FIRST
    newest = json.loads(here(location, "log", "--json", "-n", "1").stdout)[0]
    assert newest["actor"] == "user:bob"
    assert here(location, "undo", newest["id"]).exit_code == 0
    assert texts(location) == before


def test_a_dry_run_changes_nothing(location: str) -> None:
    before = texts(location)
    ended = here(location, "undo", "--actor", "session:*", "--dry-run", "--since", "1h")
    assert ended.stdout.splitlines()[1] == f"would be moved\t{B} -> {C}"
    ended = here(location, "restore", "/memories", "--to", version_ids(location)[1], "--dry-run", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["done"], found["dry_run"], found["conflicts"]) == (0, False, True, [])
    assert [(step["what"], step["path_before"], step["path"]) for step in found["steps"]] == [
        ("changed", A, A),
        ("moved", B, C),
        ("deleted", "/memories/e", "/memories/e"),
    ]
    assert texts(location) == before


def test_restore(location: str) -> None:
    """The test restores the complete store, a memory to a version, and a deleted memory."""
    at = version_ids(location)[1]
    assert here(location, "restore", A, "--to", at).stdout == f"reverted\t{A}\n"
    assert here(location, "restore", A, "--to", at).stdout == "Nothing to do.\n"
    here(location, "rm", B)
    assert here(location, "restore", "/memories", "--to", at).stdout == f"recreated\t{C}\ndeleted\t/memories/e\n"
    assert texts(location) == FIRST
    assert here(location, "restore", "/memories/none", "--to", "1s").exit_code == 3
    assert here(location, "restore", "/etc", "--to", at).exit_code == 2
    assert here(location, "restore", A).exit_code == 2


def test_conflicts_are_reported(location: str, tmp_path: Path) -> None:
    """Unless --force is given, nothing is changed, and the exit status is that of a conflict."""
    change = version_ids(location)[2]
    here(location, "replace", A, "1", "ONE")
    before = texts(location)
    for extra in ((), ("--dry-run",), ("--merge",)):
        ended = here(location, "undo", change, *extra)
        assert (ended.exit_code, ended.stdout) == (6, "")
        assert f"{A}: its text was changed later" in ended.stderr
    found = json.loads(here(location, "undo", change, "--json").stdout)
    assert (found["done"], [each["path"] for each in found["conflicts"]]) == (False, [A])
    assert "Error: nothing was done." in terminal(tmp_path, "--at", location, "undo", change)
    assert texts(location) == before
    assert here(location, "undo", change, "--force").exit_code == 0
    assert texts(location)[A] == FIRST[A]


def test_later_changes_of_other_lines_are_merged(location: str) -> None:
    change = version_ids(location)[2]
    here(location, "replace", A, "four", "4")
    assert here(location, "undo", change).exit_code == 6
    assert here(location, "undo", change, "--merge").exit_code == 0
    assert texts(location)[A] == "one\ntwo\nthree\n4\n"


def test_force_removes_later_changes(location: str) -> None:
    at = version_ids(location)[1]
    here(location, "rm", B)
    here(location, "create", C, "another")
    ended = here(location, "restore", "/memories/d", "--to", at)
    assert ended.exit_code == 0
    assert texts(location)[C] == "c"
    here(location, "mv", C, B)
    here(location, "create", "/memories/d", "in the way")
    ended = here(location, "undo", version_ids(location)[-2])
    assert (ended.exit_code, "the memory /memories/d blocks this path" in ended.stderr) == (6, True)
    assert here(location, "undo", version_ids(location)[-2], "--force").exit_code == 0
    assert texts(location)[C] == "c"
    assert "/memories/d" not in texts(location)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("memver_x", "--actor", "user:ann"),
        ("--actor", "user:ann", "--session", "s1"),
        ("--session", "s*"),
        ("memver_x", "--since", "1h"),
        ("--session", "s1", "--merge", "--force"),
        ("--session", "s1", "--since", "some day"),
    ],
)
def test_invalid_arguments_of_undo(location: str, arguments: tuple[str, ...]) -> None:
    before = texts(location)
    assert here(location, "undo", *arguments).exit_code == 2
    assert texts(location) == before


def test_missing_changes_cannot_be_undone(location: str) -> None:
    assert here(location, "undo", "memver_none").exit_code == 3
    assert here(location, "undo", "--session", "nobody").exit_code == 3


def test_external_edits_are_recorded_and_undone(tmp_path: Path) -> None:
    """Commands that read no memory also record external edits."""
    at = tmp_path / "memory"
    here(at, "create", A, "one")
    (at / "memories" / "a").write_text("edited")
    assert here(at, "log").stdout.splitlines()[0].split("\t")[2:] == ["job:external", "modified", A]
    (at / "memories" / "a").write_text("edited again")
    assert here(at, "undo", "--actor", "job:external").stdout == f"reverted\t{A}\n"
    assert (at / "memories" / "a").read_text() == "one"


def test_an_undo_that_did_something_never_says_would(tmp_path: Path) -> None:
    """This includes an undo that a guard altered. An undo that awaits review has done nothing yet."""
    at = f"sqlite:///{tmp_path}/partly.db"
    here(at, "create", C, "c")
    assert here(at, "settings", "set", "sensitive=off").exit_code == 0
    here(at, "--actor", "session:s1", "create", A, "AKIAQ3EGVSNB6RTKX2ZP\n")
    here(at, "--actor", "session:s1", "create", B, "b")
    here(at, "--actor", "session:s2", "rm", A)
    here(at, "settings", "set", "sensitive=redact")
    ended = here(at, "undo", "--session", "s2")
    assert (ended.exit_code, ended.stdout) == (0, f"recreated\t{A}\n")
    assert "was not fully restored" in ended.stderr
    here(at, "settings", "set", 'review=["user:*"]')
    assert here(at, "--actor", "user:ann", "undo", "--session", "s1", "--force").stdout.startswith("would be ")
