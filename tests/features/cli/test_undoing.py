"""`restore` and `undo`: steps, conflicts and exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import retentive
from support.command_line import here, interactive, terminal, texts, version_ids

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
    said = here(location, "undo", "HEAD", "--dry-run").stderr
    assert re.fullmatch(r"This would undo r[0-9]+ by user:bob, 20[-+0-9: ]+, with 3 versions\.\n", said)
    assert here(location, "undo", newest["id"]).exit_code == 0
    assert texts(location) == before


@pytest.mark.parametrize(
    ("option", "given", "sought"), [("--session", "session:s1", "session:session:s1"), ("--by", "s1", "user:s1")]
)
def test_an_undo_that_finds_nothing_names_whose_changes_it_sought(
    location: str, option: str, given: str, sought: str
) -> None:
    ended = here(location, "undo", option, given)
    said = f"Error: there is no matching change by {sought}; nothing was undone\n"
    assert (ended.exit_code, ended.stderr) == (3, said)


def test_a_dry_run_changes_nothing(location: str) -> None:
    before = texts(location)
    ended = here(location, "undo", "--by", "session:*", "--dry-run", "--since", "1h")
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
    changed, lines_changed = "a later change modified the text", "a later change modified the same lines"
    for extra, why in ((), changed), (("--merge",), lines_changed):
        ended = here(location, "undo", change, *extra)
        assert (ended.exit_code, ended.stdout) == (6, "")
        assert f"{A}: {why}" in ended.stderr
        assert ("--merge keeps" in ended.stderr, "--force" in ended.stderr) == (not extra, True)
    found = json.loads(here(location, "undo", change, "--json").stdout)
    assert (found["done"], [each["path"] for each in found["conflicts"]]) == (False, [A])
    assert "Error: nothing was done." in terminal(tmp_path, "--at", location, "undo", change)
    assert texts(location) == before
    assert here(location, "undo", change, "--force").exit_code == 0
    assert texts(location)[A] == FIRST[A]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("memver_x", "--by", "user:ann"),
        ("--by", "user:ann", "--session", "s1"),
        ("memver_x", "--since", "1h"),
        ("--session", "s1", "--since", "some day"),
    ],
)
def test_invalid_arguments_of_undo(location: str, arguments: tuple[str, ...]) -> None:
    before = texts(location)
    assert here(location, "undo", *arguments).exit_code == 2
    assert here(location, "undo", "--session", "nobody").exit_code == 3
    assert texts(location) == before


def test_undo_alone_shows_the_last_change_and_asks(location: str, tmp_path: Path) -> None:
    """The answer no changes nothing."""
    before = texts(location)
    for answer, status in (("n", 1), ("y", 0)):
        with interactive(tmp_path, "--at", location, "undo", NO_COLOR="1") as shown:
            said = shown.expect("Undo this change?")
            assert f"would be moved  {B} -> {C}\r\nThis would undo r5 by session:s1, 20" in said
            shown.type(f"{answer}\r")
            assert shown.end() == status
        assert (texts(location) == before) == (answer == "n")
    assert C in texts(location)


@pytest.mark.long
def test_the_change_that_was_shown_is_undone(location: str, tmp_path: Path) -> None:
    """Even if another one was made before the answer."""
    with interactive(tmp_path, "--at", location, "undo", A) as shown:
        assert "r3 by session:s1" in shown.expect("Undo this change?")
        here(location, "create", "/memories/later", "x")
        here(location, "insert", A, "4", "five")
        shown.type("y\r")
        assert shown.end() == 6
    assert "a later change modified the text" in shown.shown


def test_undo_without_a_terminal_needs_a_name(location: str) -> None:
    ended = here(location, "undo")
    assert (ended.exit_code, "such as HEAD or r1234" in " ".join(ended.stderr.split())) == (2, True)
    assert here(location, "undo", "--yes").stdout == f"moved\t{B} -> {C}\n"
    assert here(location, "undo", "r4").stdout == "deleted\t/memories/e\n"
    assert here(location, "undo", "HEAD", A).stdout == f"reverted\t{A}\n"


def test_an_actor_after_undo_does_not_undo_the_change_of_another(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "--actor", "session:s1", "create", A, "a")
    here(at, "--actor", "user:ann", "create", B, "b")
    ended = here(at, "undo", "--actor", "session:s1", "--yes")
    assert (ended.exit_code, "use --by" in ended.stderr) == (2, True)
    assert here(at, "undo", "--by", "session:s1").stdout == f"deleted\t{A}\n"
    assert here(at, "--actor", "user:bob", "undo", "--yes").exit_code == 0


def test_a_partial_undo_lists_the_rest(tmp_path: Path) -> None:
    """Its conflict is offered by the refusal. The log names it as a partial undo."""
    at = f"sqlite:///{tmp_path}/memory.db"
    for command in (("create", A, "a"), ("create", B, "b")):
        here(at, "--actor", "session:s1", *command)
    here(at, "--actor", "user:ann", "write", A, "more")
    refused = here(at, "undo", "--session", "s1")
    assert (refused.exit_code, refused.stdout) == (6, "")
    assert "--partial undoes the rest" in refused.stderr
    left = f"{A} was left as it is: a later change modified the memory.\n"
    for dry in (("--dry-run",), ()):
        done = here(at, "undo", "--session", "s1", "--partial", *dry)
        would, this = ("would be ", "This would undo") if dry else ("", "This undid")
        assert (done.exit_code, done.stdout) == (6, f"{would}deleted\t{B}\n")
        assert done.stderr == f"{this} a part of 2 changes, r1 to r2, with 2 versions.\n{left}"
    assert texts(at) == {A: "more"}
    assert "partial undo of 2 changes, r1 to r2" in here(at, "log").stdout
    assert here(at, "undo", "--session", "s1", "--partial").exit_code == 6


def test_the_log_shows_what_an_undo_reverted(location: str, tmp_path: Path) -> None:
    here(location, "undo", "r3")
    here(location, "undo", "--session", "s1")
    here(location, "restore", A, "--to", "r3")
    lines = [line.split("\t") for line in here(location, "log").stdout.splitlines()]
    causes = {line[0]: line[6:] for line in lines}
    assert causes["r8"] == ["restore to r3"]
    assert causes["r7"] == ["undo of 3 changes, r3 to r5"]
    assert causes["r6"] == ["undo of r3"]
    assert causes["r5"] == []
    newest = json.loads(here(location, "log", "--json", "-n", "1").stdout)[0]
    assert newest["provenance"]["cause"] == "restore to r3"
    assert "cause        restore to r3" in here(location, "show").stdout
    shown = terminal(tmp_path, "--at", location, "log", "-n", "1", NO_COLOR="1").splitlines()
    assert [line.split()[-3:] for line in shown[1:]] == [["restore", "to", "r3"]]
