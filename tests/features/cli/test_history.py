"""`log`, `show`, `diff`, `blame` and past states: output for people, pipes and programs."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import retentive
from retentive.history.revisions import past_of
from retentive.storage.contract import Snapshot, Version
from support.command_line import here, terminal, version_ids

A, B = "/memories/a.md", "/memories/d e.md"


STORY: tuple[tuple[str, dict[str, str]], ...] = (
    ("user:ann", {"command": "create", "path": A, "file_text": "one\ntwo words here\nthree"}),
    ("session:s1", {"command": "str_replace", "path": A, "old_str": "two words", "new_str": "2 words"}),
    ("user:ann", {"command": "rename", "old_path": A, "new_path": B}),
    ("session:s2", {"command": "create", "path": "/memories/gone", "file_text": "x\x1b[2J"}),
    ("session:s2", {"command": "delete", "path": "/memories/gone"}),
)


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Location with a memory created by ann, edited by a session and renamed by ann, and with a deleted memory."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        for actor, command in STORY:
            assert not opened.store().execute(command, actor=actor).is_error
    return at


def versions(location: str) -> list[Version]:
    """Return all versions, oldest first."""
    with retentive.open(location) as opened:
        return list(opened.store().versions())[::-1]


def then(location: str, version_id: str) -> dict[str, str]:
    """Return the texts of all memories right after a version, by path."""
    with retentive.open(location) as opened:

        def work(now: Snapshot) -> dict[str, str]:
            return {
                memory.path: (data or b"").decode()
                for memory, data in past_of(now, version_id).list("/memories", texts=True)
            }

        return opened.store()._core.read(work)


# -- log and show --------------------------------------------------------------------------------------------------


def test_log_has_a_line_for_each_version_newest_first(location: str) -> None:
    rows = [line.split("\t") for line in here(location, "log").stdout.splitlines()]
    what = [
        ("deleted", "/memories/gone"),
        ("created", "/memories/gone"),
        ("renamed", f"{A} -> {B}"),
        ("modified", A),
        ("created", A),
    ]
    expected = [(each.id, str(each.actor), *row) for each, row in zip(reversed(versions(location)), what, strict=True)]
    assert [(row[1], *row[3:]) for row in rows] == expected
    assert [row[0] for row in rows] == ["r5", "r4", "r3", "r2", "r1"]
    assert datetime.fromisoformat(rows[0][2]) == versions(location)[-1].created_at
    assert here(location, "log", B, "-n", "1").stdout.split("\t")[4:] == ["renamed", f"{A} -> {B}\n"]


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        ((B,), [2, 1, 0]),
        ((A,), [2, 1, 0]),
        (("--by", "session:*"), [4, 3, 1]),
        (("--operation", "created"), [3, 0]),
        (("-n", "2"), [4, 3]),
        (("--since", "1h"), [4, 3, 2, 1, 0]),
        (("--since", "2 weeks ago"), [4, 3, 2, 1, 0]),
        (("--since", "2h", "--until", "2099-01-01", "--by", "user:ann", "-n", "1"), [2]),
    ],
)
def test_log_filters(location: str, arguments: tuple[str, ...], which: list[int]) -> None:
    known = version_ids(location)
    found = json.loads(here(location, "log", *arguments, "--json").stdout)
    assert [each["id"] for each in found] == [known[number] for number in which]


def test_a_name_without_a_kind_selects_a_user(location: str) -> None:
    """A mistaken name must not look like an actor without changes."""
    assert here(location, "log", "--by", "ann").stdout == here(location, "log", "--by", "user:ann").stdout != ""
    done = here(location, "undo", "--by", "ann", "--dry-run")
    assert done.stdout == here(location, "undo", "--by", "user:ann", "--dry-run").stdout != "Nothing to do.\n"
    ended = here(location, "log", "--by", "usr:ann")
    assert (ended.exit_code, "session, api_key, user, service_account, job" in ended.stderr) == (2, True)


def test_log_json_has_all_fields(location: str) -> None:
    """The JSON includes the fields of hosted memory stores, and the actor of a redaction."""
    first = versions(location)[0]
    assert here(location, "--actor", "user:bob", "redact", first.id, "--yes").exit_code == 0
    found = json.loads(here(location, "log", "--json", "-n", "5").stdout)
    assert {**found[-1], "redacted_at": None} == {
        "id": first.id,
        "memory_id": first.memory_id,
        "operation": "created",
        "path": None,
        "size_bytes": None,
        "sha256": None,
        "actor": "user:ann",
        "created_at": f"{first.created_at:%Y-%m-%dT%H:%M:%S.%fZ}",
        "redacted_at": None,
        "redacted_by": "user:bob",
        "change": "r1",
        "path_before": None,
        "provenance": dict.fromkeys(
            ("integration", "tool_use_id", "session", "source", "cause", "api_key_id", "accepted_by"), ""
        )
        | {"flags": [], "contributors": []},
    }
    assert found[-2]["provenance"]["integration"] == "python"
    assert found[-2]["path"] == A
    assert datetime.fromisoformat(found[-1]["redacted_at"]) >= first.created_at


@pytest.mark.long
def test_log_on_a_terminal_is_a_table_of_changes(location: str, tmp_path: Path) -> None:
    """Versions of one command are one change. Times have the offset of the zone; rows are never folded."""
    here(location, "create", "/memories/d/one", "1")
    here(location, "create", "/memories/d/two", "2")
    here(location, "--actor", "user:bob", "mv", "/memories/d", "/memories/e")
    at = versions(location)[-1].created_at.astimezone(timezone(timedelta(hours=1)))
    shown = terminal(tmp_path, "--at", location, "log", NO_COLOR="1", COLUMNS="100", TZ="UTC-01:00")
    lines = shown.replace("\r\n", "\n").splitlines()
    assert lines[:4] == [
        "change  time                    actor       what",
        f"r8      {at:%Y-%m-%d %H:%M}+01:00  user:bob    renamed /memories/d/one -> /memories/e/one and 1 more",
        *lines[2:4],
    ]
    assert [line.split(" ")[0] for line in lines[2:]] == [f"r{number}" for number in range(7, 0, -1)]
    assert "\x1b[" not in shown
    assert "\x1b[33m" in terminal(tmp_path, "--at", location, "log")
    assert terminal(tmp_path, "--at", location, "log", A, "--by", "job:*") == "No changes.\r\n"
    assert here(location, "log", "/memories/d", "-n", "1").stdout.count("renamed") == 2


def test_log_reads_like_that_of_git(location: str, tmp_path: Path) -> None:
    """`--oneline` has a line for each change, and `-p` the diff that `show` prints."""
    here(location, "create", "/memories/d/one", "1")
    here(location, "create", "/memories/d/two", "2")
    here(location, "--actor", "user:bob", "mv", "/memories/d", "/memories/e")
    lines = here(location, "log", "--oneline", "-n", "2").stdout.splitlines()
    assert lines[0] == "r8\tuser:bob\trenamed /memories/d/one -> /memories/e/one and 1 more"
    assert lines[1].endswith("\tcreated /memories/d/two")
    shown = {words: terminal(tmp_path, "--at", location, "log", "-n", "1", *words) for words in [(), ("--oneline",)]}
    assert ["change" in text.split("\r\n")[0] for text in shown.values()] == [True, False]  # a line has no header
    assert here(location, "log", "-p", "-n", "1").stdout == here(location, "show").stdout
    numbers = {
        "HEAD^": range(7, 0, -1), "r2..r4": [4, 3], "@~2..": [8, 7], "r1..r3 -1": [3],
        "1d..HEAD": range(8, 0, -1), "r5 gone": [5, 4], "--author bob": [8],
    }  # fmt: skip
    for words, expected in numbers.items():
        lines = here(location, "log", *words.split(), "--oneline").stdout.splitlines()
        assert [int(line.split("\t")[0][1:]) for line in lines] == list(expected), words
    (change,) = json.loads(here(location, "log", B, "-p", "-n", "1", "--json").stdout)
    assert (change["change"], [each["new"]["path"] for each in change["differences"]]) == ("r3", [B])


@pytest.mark.parametrize("name", ["HEAD~1", "HEAD^", "@^", "r1"])
def test_cat_takes_the_revision_before_the_path_as_git_does(tmp_path: Path, name: str) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    for text in ("one", "two"):
        here(at, "write", "a.md", text)
    for word in (f"{name}:a.md", f"{name}:/memories/a.md"):
        assert here(at, "cat", word).stdout == here(at, "show", word).stdout == "one"
    here(at, "write", "x:y.md", "a colon")
    assert here(at, "cat", "x:y.md").stdout == "a colon"
    assert here(at, "cat", "./r1:a.md").exit_code == 3


@pytest.mark.long
def test_a_long_log_is_paged(location: str, tmp_path: Path) -> None:
    """The pager is $PAGER; a log that fits the terminal is printed."""
    for rows, starts in (("3", "paged"), ("30", "change")):
        shown = terminal(tmp_path, "--at", location, "log", LINES=rows, PAGER="sed s/change/paged/")
        assert (rows, shown.removeprefix("\x1b[33m").startswith(starts)) == (rows, True)


def test_show_has_a_header_and_the_exact_text(location: str) -> None:
    first = versions(location)[0]
    head, _, text = here(location, "show", first.id).stdout.partition("\n\n")
    assert text == "one\ntwo words here\nthree"
    assert dict(line.split(maxsplit=1) for line in head.splitlines()) == {
        "id": first.id,
        "memory_id": first.memory_id,
        "path": A,
        "change": "r1",
        "operation": "created",
        "actor": "user:ann",
        "created_at": first.created_at.astimezone().isoformat(timespec="microseconds"),
        "integration": "python",
        "size_bytes": "24",
        "sha256": first.sha256,
    }
    assert json.loads(here(location, "show", first.id, "--json").stdout)["text"] == text
    deleted = here(location, "show", version_ids(location)[-1]).stdout
    assert "deleted" in deleted
    assert "\n\n" not in deleted
    assert here(location, "show", "memver_none").exit_code == 3


def test_texts_by_models_cannot_steer_the_terminal(location: str, tmp_path: Path) -> None:
    gone = version_ids(location)[3]
    for command in (("show", gone), ("diff", gone)):
        shown = terminal(tmp_path, "--at", location, *command, NO_COLOR="1")
        assert "x\\x1b[2J" in shown
        assert "\x1b[2J" not in shown  # a progress bar may write other codes
    here(location, "restore", "/memories/gone", "--to", gone)
    for command in (("blame", "/memories/gone"), ("search", "x")):
        shown = terminal(tmp_path, "--at", location, *command, NO_COLOR="1")
        assert "x\\x1b[2J" in shown
        assert "\x1b[2J" not in shown


# -- diff ----------------------------------------------------------------------------------------------------------


def test_diff_of_one_version_is_against_the_one_it_replaced(location: str) -> None:
    first, second, third, *_ = version_ids(location)
    body = f"--- a{A}\n+++ b{A}\n@@ -1,3 +1,3 @@\n one\n-two words here\n+2 words here\n three\n"
    body += "\\ No newline at end of file\n"
    assert here(location, "diff", second).stdout == f"r1 to r2\ndiff --git a{A} b{A}\n{body}"
    assert here(location, "diff", first, second).stdout == here(location, "diff", second).stdout
    assert here(location, "diff", third).stdout.splitlines()[1:] == [
        f"diff --git a{A} b{B}",
        f"rename from {A[1:]}",
        f"rename to {B[1:]}",
    ]
    (found,) = json.loads(here(location, "diff", second, "--json").stdout)
    assert (found["old"]["id"], found["new"]["id"], found["diff"]) == (first, second, body)
    assert here(location, "diff", second, second).stdout == ""


def test_diff_of_a_path_is_of_the_memory_across_renames(location: str) -> None:
    first, _, third, *_ = version_ids(location)
    assert here(location, "diff", B).stdout.splitlines()[0] == "r2 to r3"
    assert here(location, "diff", B, "--since", first).stdout.splitlines()[0] == "r1 to r3"
    assert here(location, "diff", B, "--since", "1d").stdout.splitlines()[0] == "nothing to r3"
    assert here(location, "diff", B, "--since", third).stdout == ""
    assert "deleted file mode" in here(location, "diff", "/memories/gone").stdout
    made = version_ids(location)[3]
    assert here(location, "diff", "/memories/gone", "--since", made).stdout.splitlines()[:3] == [
        "r4 to nothing",
        "diff --git a/memories/gone b/memories/gone",
        "deleted file mode 100644",
    ]


# -- blame and the past ----------------------------------------------------------------------------------------------


def test_blame_shows_the_version_of_each_line(location: str) -> None:
    first, second, *_ = version_ids(location)
    rows = [line.split("\t") for line in here(location, "blame", B).stdout.splitlines()]
    assert [(row[0], row[1], *row[3:]) for row in rows] == [
        ("r1", first, "user:ann", "1", "one"),
        ("r2", second, "session:s1", "2", "2 words here"),
        ("r1", first, "user:ann", "3", "three"),
    ]
    found = json.loads(here(location, "blame", B, "--json").stdout)
    assert [(each["line"], each["text"], each["version"]["id"]) for each in found][1] == (2, "2 words here\n", second)
    assert here(location, "blame", A).exit_code == 3


def test_ls_and_cat_show_past_states(location: str) -> None:
    first, second, _, made, _ = version_ids(location)
    assert here(location, "ls", "--as-of", made).stdout == f"22\t{B}\n5\t/memories/gone\n"
    assert here(location, "ls", A, "--as-of", first).stdout == f"24\t{A}\n"
    assert here(location, "ls", "--as-of", "1d").stdout == ""
    assert here(location, "ls", B, "--as-of", first).exit_code == 3
    assert here(location, "ls", "/etc", "--as-of", first).exit_code == 2
    assert here(location, "cat", A, "--as-of", second).stdout == "one\n2 words here\nthree"


# -- named revisions ---------------------------------------------------------------------------------------------------


def test_show_a_change(location: str) -> None:
    """The metadata, the versions and the differences of the change."""
    here(location, "create", "/memories/x", "x")
    shown = here(location, "show", "r3").stdout
    head, listed, patch = shown.split("\n\n")
    assert head.splitlines()[:2] == ["change       r3", "actor        user:ann"]
    assert listed == f"renamed\t{A} -> {B}"
    assert patch.splitlines()[1:] == [f"diff --git a{A} b{B}", f"rename from {A[1:]}", f"rename to {B[1:]}"]
    assert here(location, "show", "HEAD", B).stdout == shown == here(location, "show", B).stdout
    found = json.loads(here(location, "show", "HEAD~2", B, "--json").stdout)
    assert (found["change"], [each["operation"] for each in found["versions"]]) == ("r1", ["created"])
    assert [each["new"]["path"] for each in found["differences"]] == [A]
    assert json.loads(here(location, "show", "--json").stdout)["change"] == "r6"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (("show", "7"), 2, "'7' is not a revision such as r1234, HEAD, HEAD~2, a time"),
        (("diff", "--since", "soon"), 2, "'soon' is not a revision such as r1234"),
        (("log", "--since", "3 months ago"), 2, "'3 months ago' is not a time such as 2026-11-21T10:00"),
        (("cat", B, "--as-of", "HEAD~x"), 2, "'HEAD~x' is not a revision"),
        (("restore", "notes.md"), 2, "`retentive undo HEAD /memories/notes.md` reverts only the newest change"),
        (("restore", B, "--to", "r99"), 3, "there is no change r99 in the memory store; the newest change is r5"),
        (("undo", "HEAD~5"), 3, "HEAD~5 is before the history of the memory store, whose oldest change is r1"),
        (("undo", "2h"), 2, "2h is a time; specify a change instead, such as r1234 or HEAD"),
        (("show", "memver_0"), 3, "there is no version memver_0"),
        (("log", "typo.md"), 3, "there is no memory at or below /memories/typo.md, and there was none before"),
        (("log", ".", "gone"), 2, "Specify at most 2 revisions and one path"),
        (("diff", "typo"), 3, "/memories/typo has no changes"),
        (("cat", "typo", "--as-of", "r1"), 3, "there is no memory at /memories/typo"),
        (("cat", "typo", "--as-of", "HEAD"), 3, "/memories/typo has no changes"),
        (("ls", "--as-of", "HEAD~9"), 3, "HEAD~9 is before the history of"),
        (("ls", "--as-of", "memver_none"), 3, "there is no version memver_none"),
    ],
)
def test_errors_say_what_forms_are_right(location: str, command: tuple[str, ...], status: int, message: str) -> None:
    ended = here(location, *command)
    assert (ended.exit_code, message in " ".join(ended.stderr.split())) == (status, True)


def test_diff_of_a_directory_and_of_a_session_is_a_patch(location: str, tmp_path: Path) -> None:
    """The patches take one state to the next one, renames, replacements and deletions included."""
    by = ("--actor", "session:s3")
    for command in (("create", "/memories/n", "0"), ("rm", "/memories/n"), ("create", "/memories/n", "2")):
        here(location, *by, *command)
    here(location, *by, "mv", B, "/memories/moved")
    here(location, *by, "replace", "/memories/moved", "three", "3")
    known = version_ids(location)
    for since, until in ((0, 9), (4, 7), (2, 9)):
        tree = tmp_path / f"{since}-{until}"
        write(tree, then(location, known[since]))
        patch = here(location, "diff", f"r{since + 1}", f"r{until + 1}").stdout_bytes
        subprocess.run(["git", "apply"], input=patch, cwd=tree, check=True, timeout=60)
        assert files(tree) == then(location, known[until])
    for arguments in (
        ("--session", "s3"),
        ("--by", "session:s3"),
        ("r5..",),
        ("--since", known[4]),
        (known[4], "HEAD"),
    ):
        tree = tmp_path / "-".join(arguments)
        write(tree, then(location, known[4]))
        patch = here(location, "diff", *arguments).stdout_bytes
        subprocess.run(["git", "apply"], input=patch, cwd=tree, check=True, timeout=60)
        assert files(tree) == then(location, known[-1])
    assert here(location, "diff", "/memories/none", "--since", "1h").exit_code == 3
    assert here(location, "diff", "--since", "1d", "--until", "1d").stdout == ""


def write(tree: Path, memories: dict[str, str]) -> None:
    for path, text in memories.items():
        (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tree / path[1:]).write_text(text)


def files(tree: Path) -> dict[str, str]:
    return {f"/{path.relative_to(tree)}": path.read_text() for path in tree.rglob("*") if path.is_file()}
