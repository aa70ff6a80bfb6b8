"""`restore` and `undo`: what is told of what was done, and of what stood in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive

from .running import here, terminal

A, B, C = "/memories/a", "/memories/b", "/memories/d/c"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """What ann wrote, and what session s1 made of it."""
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


def ids(place: str) -> list[str]:
    """Of all versions, oldest first."""
    with retentive.open(place) as opened:
        return [version.id for version in opened.store().versions()][::-1]


def present(place: str) -> dict[str, str]:
    with retentive.open(place) as opened:
        store = opened.store()
        return {memory.path: store.text(memory.path) for memory in store.memories()}


FIRST = {A: "one\ntwo\nthree\nfour\n", C: "c"}


def test_a_session_is_undone(place: str) -> None:
    """In one change, which can be undone itself, by whoever asks."""
    before = present(place)
    ended = here(place, "--actor", "user:bob", "undo", "--session", "s1")
    assert (ended.exit_code, ended.stdout) == (
        0,
        f"set back\t{A}\nmoved\t{B} -> {C}\ndeleted\t/memories/e\n",
    )
    assert present(place) == FIRST
    newest = json.loads(here(place, "log", "--json", "-n", "1").stdout)[0]
    assert newest["actor"] == "user:bob"
    assert here(place, "undo", newest["id"]).exit_code == 0
    assert present(place) == before


def test_a_dry_run_only_tells(place: str) -> None:
    before = present(place)
    ended = here(place, "undo", "--actor", "session:*", "--dry-run", "--since", "1h")
    assert ended.stdout.splitlines()[1] == f"would be moved\t{B} -> {C}"
    ended = here(place, "restore", "/memories", "--to", ids(place)[1], "--dry-run", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["done"], found["dry_run"], found["conflicts"]) == (0, False, True, [])
    assert [(step["what"], step["path_before"], step["path"]) for step in found["steps"]] == [
        ("changed", A, A),
        ("moved", B, C),
        ("deleted", "/memories/e", "/memories/e"),
    ]
    assert present(place) == before


def test_what_was_is_restored(place: str) -> None:
    """The whole store, a memory to a version, and one that is gone."""
    at = ids(place)[1]
    assert here(place, "restore", A, "--to", at).stdout == f"set back\t{A}\n"
    assert here(place, "restore", A, "--to", at).stdout == "Nothing is to be done: all is as it was.\n"
    here(place, "rm", B)
    assert here(place, "restore", "/memories", "--to", at).stdout == f"made again\t{C}\ndeleted\t/memories/e\n"
    assert present(place) == FIRST
    assert here(place, "restore", "/memories/none", "--to", "1s").exit_code == 3
    assert here(place, "restore", "/etc", "--to", at).exit_code == 2
    assert here(place, "restore", A).exit_code == 2


def test_what_stands_in_the_way_is_told(place: str, tmp_path: Path) -> None:
    """Nothing is done then, and the status is that of a conflict; until it is forced."""
    change = ids(place)[2]
    here(place, "replace", A, "1", "ONE")
    before = present(place)
    for extra in ((), ("--dry-run",), ("--merge",)):
        ended = here(place, "undo", change, *extra)
        assert (ended.exit_code, ended.stdout) == (6, "")
        assert f"{A}: its text was changed later" in ended.stderr
    found = json.loads(here(place, "undo", change, "--json").stdout)
    assert (found["done"], [each["path"] for each in found["conflicts"]]) == (False, [A])
    assert "Error: nothing was done." in terminal(tmp_path, "--at", place, "undo", change)
    assert present(place) == before
    assert here(place, "undo", change, "--force").exit_code == 0
    assert present(place)[A] == FIRST[A]


def test_later_changes_of_other_lines_are_merged(place: str) -> None:
    change = ids(place)[2]
    here(place, "replace", A, "four", "4")
    assert here(place, "undo", change).exit_code == 6
    assert here(place, "undo", change, "--merge").exit_code == 0
    assert present(place)[A] == "one\ntwo\nthree\n4\n"


def test_what_came_since_can_be_forced_away(place: str) -> None:
    at = ids(place)[1]
    here(place, "rm", B)
    here(place, "create", C, "another")
    ended = here(place, "restore", "/memories/d", "--to", at)
    assert ended.exit_code == 0
    assert present(place)[C] == "c"
    here(place, "mv", C, B)
    here(place, "create", "/memories/d", "in the way")
    ended = here(place, "undo", ids(place)[-2])
    assert (ended.exit_code, "/memories/d stands where it was" in ended.stderr) == (6, True)
    assert here(place, "undo", ids(place)[-2], "--force").exit_code == 0
    assert present(place)[C] == "c"
    assert "/memories/d" not in present(place)


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
def test_undo_says_how_it_is_asked(place: str, arguments: tuple[str, ...]) -> None:
    before = present(place)
    assert here(place, "undo", *arguments).exit_code == 2
    assert present(place) == before


def test_what_is_not_there_cannot_be_undone(place: str) -> None:
    assert here(place, "undo", "memver_none").exit_code == 3
    assert here(place, "undo", "--session", "nobody").exit_code == 3


def test_what_was_edited_by_hand_is_known_and_undone(tmp_path: Path) -> None:
    """Also by commands that look at no memory."""
    at = tmp_path / "memory"
    here(at, "create", A, "one")
    (at / "memories" / "a").write_text("by hand")
    assert here(at, "log").stdout.splitlines()[0].split("\t")[2:] == ["job:external", "modified", A]
    (at / "memories" / "a").write_text("by hand again")
    assert here(at, "undo", "--actor", "job:external").stdout == f"set back\t{A}\n"
    assert (at / "memories" / "a").read_text() == "one"
