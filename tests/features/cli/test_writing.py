"""`create`, `replace`, `insert`, `rm` and `mv`: their changes, the sources of texts, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive
from support.command_line import here

PATH = "/memories/notes.md"


def text_at(location: str, path: str = PATH) -> str:
    with retentive.open(location) as opened:
        return opened.store().read(path)


def test_create_creates_the_location_and_stores_the_exact_bytes(lasting_place: str) -> None:
    ended = here(lasting_place, "create", PATH, "no newline")
    assert (ended.exit_code, ended.stdout) == (0, f"File created successfully at: {PATH}\n")
    assert text_at(lasting_place) == "no newline"


def test_create_reads_standard_input(lasting_place: str) -> None:
    data = "\ufeffone\r\ntwo\x85é\n\n".encode()
    assert here(lasting_place, "create", PATH, text=data).exit_code == 0
    assert here(lasting_place, "cat", PATH).stdout_bytes == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ab\xff", "Error: the text is not UTF-8 (byte 3 of 3)\n"),
        (b"\xed\xa0\x80", "Error: the text is not UTF-8 (byte 1 of 3)\n"),
        (b"ab\0c", "Error: the text contains a NUL character (at position 2)\n"),
    ],
)
def test_an_invalid_text_is_rejected_and_nothing_is_created(tmp_path: Path, data: bytes, said: str) -> None:
    ended = here(tmp_path / "memory", "create", PATH, text=data)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("actor", [None, "session:s1", "ci"])
def test_the_actor_is_the_option_or_the_login_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actor: str | None
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    at = f"sqlite:///{tmp_path}/memory.db"
    options = [] if actor is None else ["--actor", actor]
    here(at, *options, "create", PATH, "text")
    with retentive.open(at) as opened:
        (version,) = opened.store().versions()
    assert str(version.actor) == {None: "user:ann", "ci": "user:ci"}.get(actor, actor)


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Location with one memory."""
    location = f"sqlite:///{tmp_path}/memory.db"
    assert here(location, "create", PATH, "one\ntwo\n").exit_code == 0
    return location


def test_changes_print_the_replies_of_the_tool(at: str) -> None:
    assert here(at, "replace", PATH, "two", "2").stdout == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tone\n     2\t2\n"
    )
    assert here(at, "insert", PATH, "0", "zero").stdout == f"The file {PATH} has been edited.\n"
    assert here(at, "insert", PATH, "3", text=b"three\n").exit_code == 0
    assert here(at, "cp", PATH, "d/copy.md").stdout == "File created successfully at: /memories/d/copy.md\n"
    assert here(at, "mv", PATH, "a/b.md").stdout == f"Successfully renamed {PATH} to /memories/a/b.md\n"
    assert text_at(at, "/memories/a/b.md") == text_at(at, "/memories/d/copy.md") == "zero\none\n2\nthree\n"


def test_a_slash_at_the_end_names_the_directory_to_put_it_into(at: str) -> None:
    """As in a shell and in Git."""
    assert here(at, "cp", PATH, "d/").stdout == "File created successfully at: /memories/d/notes.md\n"
    assert here(at, "mv", "d", "e/").stdout == "Successfully renamed /memories/d to /memories/e/d\n"
    assert here(at, "mv", PATH, "/memories/e/").stdout == f"Successfully renamed {PATH} to /memories/e/notes.md\n"
    assert here(at, "ls").stdout == "8\t/memories/e/d/notes.md\n8\t/memories/e/notes.md\n"


def test_rm_continues_after_an_error_and_exits_with_the_first(at: str) -> None:
    here(at, "create", "/memories/d/e", "x")
    ended = here(at, "rm", PATH, "/memories/none", "/memories", "/memories/d")
    assert ended.exit_code == 3
    assert ended.stdout == f"Successfully deleted {PATH}\nSuccessfully deleted /memories/d\n"
    assert ended.stderr == (
        "Error: The path /memories/none does not exist\nError: Cannot delete the /memories directory itself\n"
    )
    assert here(at, "ls").stdout == ""


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["create", "/memories/big", "x" * 102_401], 8),
        (["replace", PATH, "nosuch", "x"], 5),
        (["replace", PATH, "o", "x"], 5),
        (["replace", "/memories/none", "o", "x"], 3),
        (["insert", PATH, "3", "x"], 2),
        (["rm", "/memories"], 7),
        (["mv", "/memories", "/memories/x"], 7),
        (["append", "/memories/d", "x"], 4),
        (["write", PATH + "/x", "x"], 4),
        (["append", PATH, "x" * 102_400], 8),
        (["cp", "/memories/none", "/memories/x"], 3),
        (["cp", PATH, "/memories/d"], 4),
    ],
)
def test_every_error_has_its_status_and_changes_nothing(at: str, command: list[str], status: int) -> None:
    here(at, "create", "/memories/d/e", "x")
    ended = here(at, *command)
    assert (ended.exit_code, ended.stdout) == (status, "")
    as_json = here(at, *command, "--json")
    assert json.loads(as_json.stdout)["text"] + "\n" == ended.stderr
    assert (as_json.exit_code, as_json.stderr) == (status, "")
    assert here(at, "ls").stdout == f"1\t/memories/d/e\n8\t{PATH}\n"


@pytest.mark.parametrize(
    "command",
    [["rm", PATH], ["mv", PATH, "/memories/x"], ["replace", PATH, "a", "b"], ["insert", PATH, "0", "a"]],
)
def test_commands_for_existing_memories_create_no_location(tmp_path: Path, command: list[str]) -> None:
    assert here(tmp_path / "typo", *command).exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_a_text_with_a_leading_dash_follows_two_dashes(at: str) -> None:
    assert here(at, "create", "/memories/list", "--", "- eggs").exit_code == 0
    assert text_at(at, "/memories/list") == "- eggs"


def test_create_reads_a_file_or_a_dash(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").write_bytes(b"one\n")
    assert here(at, "create", "/memories/b", "--file", "old").exit_code == 0
    assert here(at, "create", "/memories/c", "-", text=b"piped").exit_code == 0
    assert here(at, "create", "/memories/d", "--file", "-", text=b"piped too").exit_code == 0
    assert [text_at(at, f"/memories/{name}") for name in "bcd"] == ["one\n", "piped", "piped too"]
    twice = here(at, "create", "/memories/e", "text", "--file", "old")
    assert (twice.exit_code, "A text was passed twice" in twice.stderr) == (2, True)
    missing = here(at, "create", "/memories/e", "--file", "none")
    assert (missing.exit_code, "'none': No such file" in missing.stderr) == (2, True)


def test_write_creates_or_replaces_the_whole_text(tmp_path: Path) -> None:
    location = str(tmp_path / "memory")
    assert here(location, "write", PATH, "one").stdout == f"File created successfully at: {PATH}\n"
    assert here(location, "write", PATH, "-", text=b"two\r\n").stdout == f"The file {PATH} has been edited.\n"
    assert text_at(location) == "two\r\n"
    with retentive.open(location) as opened:
        assert [version.operation for version in opened.store().versions()] == ["modified", "created"]


def test_append_adds_whole_lines(at: str) -> None:
    assert here(at, "append", PATH, "three").exit_code == 0
    assert here(at, "append", PATH, text=b"four\n").exit_code == 0
    assert text_at(at) == "one\ntwo\nthree\nfour\n"
    here(at, "create", "/memories/open", "no newline")
    here(at, "append", "/memories/open", "next")
    here(at, "append", "/memories/new", "first")
    assert (text_at(at, "/memories/open"), text_at(at, "/memories/new")) == ("no newline\nnext\n", "first\n")


def test_a_refused_write_says_where_to_look(tmp_path: Path) -> None:
    """For people only: the reply itself stays the same."""
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "create", PATH, "one")
    taken = here(at, "create", PATH, "two")
    assert (taken.exit_code, taken.stderr.splitlines()[0]) == (4, f"Error: File {PATH} already exists")
    assert "`retentive write` replaces the text" in taken.stderr
    assert here(at, "create", PATH, "two", "--json").stderr == ""
    here(at, "settings", "set", "read_only=true")
    for words in (("write", PATH, "two"), ("rm", PATH), ("undo", "r1"), ("erase", PATH, "--yes")):
        ended = here(at, "--actor", "user:ann", *words)
        assert (ended.exit_code, "is read-only\n`retentive settings` shows" in ended.stderr) == (9, True), ended.stderr
    assert json.loads(here(at, "write", PATH, "two", "--json").stdout)["text"] == f"Error: {PATH} is read-only"


def test_settings_set_prints_what_changed(at: str) -> None:
    """Numbers take units, and a mistyped name gets a suggestion."""
    given = ("max_memory_bytes=100k", "max_memories=5k", "expire_after_days=2w", "read_only=false")
    assert here(at, "settings", "set", *given).stdout == ("max_memories: 10000 -> 5000\nexpire_after_days: 0 -> 14\n")
    assert here(at, "settings", "set", "max_store_bytes=1G").stdout == "max_store_bytes: 268435456 -> 1073741824\n"
    assert here(at, "settings", "set", "read_only=false").stdout == "Nothing changed.\n"
    refused = here(at, "settings", "set", "max_memory=3")
    assert (refused.exit_code, "did you mean max_memories or max_memory_bytes" in refused.stderr) == (2, True)
    assert here(at, "settings", "set", "max_memories=3d").exit_code == 2


def test_an_id_stands_for_the_path_of_a_memory(at: str) -> None:
    made = json.loads(here(at, "cat", PATH, "--json").stdout)["memory_id"]
    assert here(at, "mv", made, "b.md").exit_code == 0
    assert here(at, "append", made, "three").stdout == "The file /memories/b.md has been edited.\n"
    for command in ("cat", "blame", "log", "diff"):
        assert here(at, command, made).stdout == here(at, command, "b.md").stdout
    assert here(at, "write", made, "x", "--if-version", "memver_0").exit_code == 6
    assert here(at, "rm", made).exit_code == 0
    assert here(at, "rm", made).exit_code == 3
    assert here(at, "create", "./mem_0", "a file of this name").exit_code == 0
    assert here(at, "cat", "./mem_0").stdout == "a file of this name"
