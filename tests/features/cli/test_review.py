"""`review`: proposed changes are listed, shown, accepted and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive
from support.command_line import here, texts

A, B = "/memories/a", "/memories/b"


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Location with a memory and two proposals: an edit of /memories/a, and the new memory /memories/b."""
    at = f"sqlite:///{tmp_path}/memory.db"
    for arguments in (
        ("create", A, "one\ntwo\n"),
        ("settings", "set", 'review=["session:*"]'),
        ("--actor", "session:s1", "replace", A, "one", "ONE"),
        ("--actor", "session:s2", "create", B, "b"),
    ):
        assert here(at, *arguments).exit_code == 0
    return at


def ids(location: str) -> list[str]:
    with retentive.open(location) as opened:
        return [each.id for each in opened.store().review.pending()]


def test_list_has_a_line_for_each(location: str) -> None:
    first, second = ids(location)
    lines = [line.split("\t") for line in here(location, "review", "list").stdout.splitlines()]
    assert [(line[0], *line[2:]) for line in lines] == [
        (first, "session:s1", f"modified {A}"),
        (second, "session:s2", f"created {B}"),
    ]
    assert here(location, "review", "list", "--by", "session:s2").stdout.startswith(second)
    assert here(location, "review", "list", "--by", "s1").stdout == ""  # the user of this name
    found = json.loads(here(location, "review", "list", "--json", "--by", "session:s2").stdout)
    assert [(each["id"], each["actor"], each["changes"]) for each in found] == [
        (
            second,
            "session:s2",
            [{"operation": "created", "path_before": None, "path": B, "size_bytes": 1}],
        )
    ]


def test_show_is_a_diff(location: str) -> None:
    first, second = ids(location)
    shown = here(location, "review", "show", first).stdout.splitlines()
    assert shown[0].startswith(f"{first}, by session:s1 at 20")
    assert shown[1:] == [f"modified {A}", f"--- {A}", f"+++ {A}", "@@ -1,2 +1,2 @@", "-one", "+ONE", " two"]
    assert here(location, "review", "show", second).stdout.splitlines()[1:] == [
        f"created {B}",
        "--- /dev/null",
        f"+++ {B}",
        "@@ -0,0 +1 @@",
        "+b",
        "\\ No newline at end of file",
    ]
    found = json.loads(here(location, "review", "show", first, "--json").stdout)
    change = found["changes"][0]
    assert (change["text_before"], change["text_after"]) == ("one\ntwo\n", "ONE\ntwo\n")
    assert here(location, "review", "show", "prop_none").exit_code == 3


def test_accept_makes_the_change(location: str) -> None:
    first, second = ids(location)
    assert here(location, "review", "accept", first).stdout == f"{first} was accepted: modified {A}.\n"
    assert texts(location) == {A: "ONE\ntwo\n"}
    assert here(location, "review", "accept", first).stdout == f"{first} was already accepted.\n"
    ended = here(location, "review", "accept", "--all", "--json")
    found = json.loads(ended.stdout)
    assert (found["done"], found["already"], found["obstacles"]) == ([second], [], [])
    assert texts(location) == {A: "ONE\ntwo\n", B: "b"}
    assert here(location, "review", "accept", "--all").stdout == "No proposed changes.\n"


def test_accept_reports_conflicts(location: str) -> None:
    """If one proposal has a conflict, none is accepted. `--merge` or `--force` resolves the conflict."""
    first, second = ids(location)
    here(location, "replace", A, "one\ntwo", "1\ntwo")
    ended = here(location, "review", "accept", "--all")
    assert (ended.exit_code, ended.stdout) == (6, "")
    assert ended.stderr == (
        f"Error: nothing was accepted.\n{first}: {A}: a later change modified the text\n--partial accepts the others.\n"
    )
    assert texts(location) == {A: "1\ntwo\n"}
    assert ids(location) == [first, second]
    ended = here(location, "review", "accept", first, "--merge", "--json")
    assert ended.exit_code == 6
    text = f"{A}: a later change modified the same lines (from line 1)"
    assert json.loads(ended.stdout)["obstacles"] == [{"proposal_id": first, "path": A, "text": text}]
    ended = here(location, "review", "accept", "--all", "--partial")
    assert (ended.exit_code, ended.stdout) == (6, f"{second} was accepted: created {B}.\n")
    assert ended.stderr == f"Error: not everything was accepted.\n{first}: {text}\n"
    assert here(location, "review", "accept", first, "--force").exit_code == 0
    assert texts(location) == {A: "ONE\ntwo\n", B: "b"}


def test_refuse_removes_the_change_and_those_that_build_on_it(location: str) -> None:
    here(location, "--actor", "session:s1", "replace", A, "ONE", "three")
    first, second, third = ids(location)
    assert here(location, "review", "refuse", first).stdout.splitlines() == [
        f"{first} was refused: modified {A}.",
        f"{third} was refused too, because it builds on a refused proposal.",
    ]
    assert ids(location) == [second]
    ended = here(location, "review", "accept", first)
    assert ended.exit_code == 6
    assert f"{first}: the proposal was already refused by user:" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("accept",), 2),
        (("refuse",), 2),
        (("accept", "prop_none", "--all"), 2),
        (("accept", "prop_none"), 3),
    ],
)
def test_invalid_selections(location: str, arguments: tuple[str, ...], status: int) -> None:
    assert here(location, "review", *arguments).exit_code == status
    assert len(ids(location)) == 2


def test_one_session_at_once_and_who_decided(location: str) -> None:
    first, second = ids(location)
    assert here(location, "review", "list", "--session", "s1").stdout.split("\t")[0] == first
    assert here(location, "review", "accept", "--session", "s1").stdout == f"{first} was accepted: modified {A}.\n"
    assert here(location, "--actor", "session:s2", "review", "refuse", second).exit_code == 0  # its own
    decided = [line.split("\t") for line in here(location, "review", "list", "--decided").stdout.splitlines()]
    by = decided[1][4]
    assert [(line[0], *line[2:]) for line in decided] == [
        (second, "session:s2", "refused", "session:s2"),
        (first, "session:s1", "accepted", by),
    ]
    shown = json.loads(here(location, "log", A, "--json").stdout)[0]
    assert (shown["actor"], shown["provenance"]["accepted_by"]) == ("session:s1", by)
    assert here(location, "review", "list", "--decided", "--session", "s1").exit_code == 2
