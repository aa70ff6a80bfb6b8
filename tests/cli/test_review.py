"""`review`: what a person sees of the changes that wait, and what comes of accepting and refusing them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive

from .running import here, terminal

A, B = "/memories/a", "/memories/b"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A memory in which a session edited /memories/a and made /memories/b, which waits."""
    at = f"sqlite:///{tmp_path}/memory.db"
    for arguments in (
        ("create", A, "one\ntwo\n"),
        ("settings", "set", 'review=["session:*"]'),
        ("--actor", "session:s1", "replace", A, "one", "ONE"),
        ("--actor", "session:s2", "create", B, "b"),
    ):
        assert here(at, *arguments).exit_code == 0
    return at


def ids(place: str) -> list[str]:
    with retentive.open(place) as opened:
        return [each.id for each in opened.store().review.pending()]


def present(place: str) -> dict[str, str]:
    with retentive.open(place) as opened:
        store = opened.store()
        return {memory.path: store.text(memory.path) for memory in store.memories()}


def test_list_has_a_line_for_each(place: str) -> None:
    first, second = ids(place)
    lines = [line.split("\t") for line in here(place, "review", "list").stdout.splitlines()]
    assert [(line[0], *line[2:]) for line in lines] == [
        (first, "session:s1", f"modified {A}"),
        (second, "session:s2", f"created {B}"),
    ]
    assert here(place, "review", "list", "--actor", "session:s2").stdout.startswith(second)
    assert here(place, "review", "list", "--actor", "session:s3").stdout == ""
    found = json.loads(here(place, "review", "list", "--json", "--actor", "session:s2").stdout)
    assert [(each["id"], each["actor"], each["changes"]) for each in found] == [
        (
            second,
            "session:s2",
            [{"operation": "created", "path_before": None, "path": B, "size_bytes": 1}],
        )
    ]


def test_list_is_a_table_on_a_terminal(place: str, tmp_path: Path) -> None:
    shown = terminal(tmp_path, "--at", place, "review", "list")
    assert "actor" in shown
    assert f"modified {A}" in shown
    here(place, "review", "refuse", "--all")
    assert terminal(tmp_path, "--at", place, "review", "list") == "No changes await review.\r\n"


def test_show_is_a_diff(place: str) -> None:
    first, second = ids(place)
    shown = here(place, "review", "show", first).stdout.splitlines()
    assert shown[0].startswith(f"{first}, by session:s1 at 20")
    assert shown[1:] == [f"modified {A}", f"--- {A}", f"+++ {A}", "@@ -1,2 +1,2 @@", "-one", "+ONE", " two"]
    assert here(place, "review", "show", second).stdout.splitlines()[1:] == [
        f"created {B}",
        "--- /dev/null",
        f"+++ {B}",
        "@@ -0,0 +1 @@",
        "+b",
        "\\ No newline at end of file",
    ]
    found = json.loads(here(place, "review", "show", first, "--json").stdout)
    change = found["changes"][0]
    assert (change["text_before"], change["text_after"]) == ("one\ntwo\n", "ONE\ntwo\n")
    assert here(place, "review", "show", "prop_none").exit_code == 3


def test_show_of_a_directory_that_goes_or_moves(place: str) -> None:
    for name in "xy":
        here(place, "create", f"/memories/d/{name}", f"{name}\n")
    assert here(place, "--actor", "session:s3", "mv", "/memories/d", "/memories/e").exit_code == 0
    assert here(place, "--actor", "session:s3", "rm", "/memories/e").exit_code == 0
    moved, gone = ids(place)[-2:]
    assert here(place, "review", "show", moved).stdout.splitlines()[1:] == [
        "renamed /memories/d/x to /memories/e/x",
        "renamed /memories/d/y to /memories/e/y",
    ]
    assert here(place, "review", "show", gone).stdout.splitlines()[1:6] == [
        "deleted /memories/e/x",
        "--- /memories/e/x",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-x",
    ]
    last = here(place, "review", "list").stdout.splitlines()[-1]
    assert last.endswith("deleted 2 memories, the first /memories/e/x")


def test_control_characters_do_not_steer_the_terminal(place: str, tmp_path: Path) -> None:
    here(place, "--actor", "session:s1", "create", "/memories/c", "\x1b]0;owned\x07")
    shown = terminal(tmp_path, "--at", place, "review", "show", ids(place)[-1], NO_COLOR="1")
    assert "\x1b" not in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_accept_makes_the_change(place: str) -> None:
    first, second = ids(place)
    assert here(place, "review", "accept", first).stdout == f"{first} was accepted: modified {A}.\n"
    assert present(place) == {A: "ONE\ntwo\n"}
    assert here(place, "review", "accept", first).stdout == f"{first} was accepted before.\n"
    ended = here(place, "review", "accept", "--all", "--json")
    assert json.loads(ended.stdout) == {"accepted": [second], "already": [], "obstacles": []}
    assert present(place) == {A: "ONE\ntwo\n", B: "b"}
    assert here(place, "review", "accept", "--all").stdout == "No changes await review.\n"


def test_accept_of_what_changed_meanwhile(place: str) -> None:
    """All or none; with `--merge` or `--force` it is done."""
    first, second = ids(place)
    here(place, "replace", A, "one\ntwo", "1\ntwo")
    ended = here(place, "review", "accept", "--all")
    assert (ended.exit_code, ended.stdout) == (6, "")
    assert ended.stderr == f"Error: nothing was accepted.\n{first}: {A} was edited meanwhile\n"
    assert present(place) == {A: "1\ntwo\n"}
    assert ids(place) == [first, second]
    ended = here(place, "review", "accept", first, "--merge", "--json")
    assert ended.exit_code == 6
    text = f"{A} was edited meanwhile in the same lines"
    assert json.loads(ended.stdout)["obstacles"] == [{"id": first, "what": "edited", "path": A, "text": text}]
    assert here(place, "review", "accept", first, "--force").exit_code == 0
    assert present(place) == {A: "ONE\ntwo\n"}


def test_accept_merges(place: str) -> None:
    """What a session made of one end of a memory, and a person of the other."""
    here(place, "create", "/memories/c", "1\n2\n3\n4\n5\n")
    here(place, "--actor", "session:s3", "replace", "/memories/c", "1", "one")
    here(place, "replace", "/memories/c", "5", "five")
    chosen = ("review", "accept", "--all", "--actor", "session:s3")
    assert here(place, *chosen).exit_code == 6
    assert here(place, *chosen, "--merge").exit_code == 0
    assert present(place) == {A: "one\ntwo\n", "/memories/c": "one\n2\n3\n4\nfive\n"}
    assert len(ids(place)) == 2


def test_refuse_removes_the_change_and_what_builds_on_it(place: str) -> None:
    here(place, "--actor", "session:s1", "replace", A, "ONE", "three")
    first, second, third = ids(place)
    assert here(place, "review", "refuse", first).stdout.splitlines() == [
        f"{first} was refused: modified {A}.",
        f"{third} was refused too, since it builds on another of these.",
    ]
    assert ids(place) == [second]
    ended = here(place, "review", "accept", first)
    assert ended.exit_code == 6
    assert f"{first}: it was refused by user:" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("accept",), 2),
        (("refuse",), 2),
        (("accept", "prop_none", "--all"), 2),
        (("accept", "prop_none", "--actor", "session:s1"), 2),
        (("accept", "prop_none"), 3),
        (("refuse", "prop_none"), 3),
    ],
)
def test_asked_wrongly(place: str, arguments: tuple[str, ...], status: int) -> None:
    assert here(place, "review", *arguments).exit_code == status
    assert len(ids(place)) == 2


def test_who_is_under_review_decides_nothing(place: str) -> None:
    ended = here(place, "--actor", "session:s1", "review", "accept", "--all")
    assert (ended.exit_code, ended.stderr) == (9, "Error: session:s1 is under review, and cannot decide on it\n")


def test_a_place_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert here(tmp_path / "none", "review", "list").exit_code == 3
    assert not (tmp_path / "none").exists()
