"""`log`, `show`, `diff`, `blame`, and looking at the past: what people, pipes and programs get."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import retentive
from retentive.cli.parameters import parse_time
from retentive.storage.contract import Snapshot, Version

from .running import here, terminal

A, B = "/memories/a.md", "/memories/d e.md"
NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


STORY: tuple[tuple[str, dict[str, str]], ...] = (
    ("user:ann", {"command": "create", "path": A, "file_text": "one\ntwo words here\nthree"}),
    ("session:s1", {"command": "str_replace", "path": A, "old_str": "two words", "new_str": "2 words"}),
    ("user:ann", {"command": "rename", "old_path": A, "new_path": B}),
    ("session:s2", {"command": "create", "path": "/memories/gone", "file_text": "x\x1b[2J"}),
    ("session:s2", {"command": "delete", "path": "/memories/gone"}),
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A memory that ann made, a session edited, and ann moved; beside it one that is gone."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        for actor, command in STORY:
            assert not opened.store().execute(command, actor=actor).is_error
    return at


def versions(place: str) -> list[Version]:
    """All, oldest first."""
    with retentive.open(place) as opened:
        return list(opened.store().versions())[::-1]


def ids(place: str) -> list[str]:
    return [version.id for version in versions(place)]


def then(place: str, version_id: str) -> dict[str, str]:
    """Paths and texts of all memories right after a version."""
    with retentive.open(place) as opened:
        history = opened.store().history

        def work(now: Snapshot) -> dict[str, str]:
            return {memory.path: data.decode() for memory, data in history.at(version_id, now).texts("/memories")}

        return opened.store().read(work)


# -- log and show --------------------------------------------------------------------------------------------------


def test_log_has_a_line_for_each_version_newest_first(place: str) -> None:
    rows = [line.split("\t") for line in here(place, "log").stdout.splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        (each.id, str(each.actor), each.operation, each.path) for each in reversed(versions(place))
    ]
    assert [datetime.fromisoformat(row[1]) for row in rows] == [each.created_at for each in reversed(versions(place))]


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        ((B,), [2, 1, 0]),
        ((A,), [2, 1, 0]),
        (("--actor", "session:*"), [4, 3, 1]),
        (("--operation", "created"), [3, 0]),
        (("-n", "2"), [4, 3]),
        (("--since", "1h"), [4, 3, 2, 1, 0]),
        (("--until", "1h"), []),
        (("--since", "2h ago", "--until", "2099-01-01", "--actor", "user:ann", "-n", "1"), [2]),
    ],
)
def test_log_can_be_narrowed(place: str, arguments: tuple[str, ...], which: list[int]) -> None:
    known = ids(place)
    found = json.loads(here(place, "log", *arguments, "--json").stdout)
    assert [each["id"] for each in found] == [known[number] for number in which]


def test_log_json_has_all_that_is_known(place: str) -> None:
    """As the hosted memory stores name it; of a redacted version also who redacted it."""
    first = versions(place)[0]
    assert here(place, "--actor", "user:bob", "redact", first.id, "--yes").exit_code == 0
    found = json.loads(here(place, "log", "--json", "-n", "5").stdout)
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
    }
    assert found[-2]["path"] == A
    assert datetime.fromisoformat(found[-1]["redacted_at"]) >= first.created_at


def test_log_on_a_terminal_is_aligned_and_never_folded(place: str, tmp_path: Path) -> None:
    shown = terminal(tmp_path, "--at", place, "log", NO_COLOR="1", COLUMNS="40")
    lines = shown.replace("\r\n", "\n").splitlines()
    assert [line.split()[0] for line in lines] == ids(place)[::-1]
    assert len({line.index("/memories") for line in lines}) == 1
    assert "\x1b[" not in shown
    assert "\x1b[33m" in terminal(tmp_path, "--at", place, "log")
    assert terminal(tmp_path, "--at", place, "log", "/memories/none") == "No versions.\r\n"


def test_show_has_a_header_and_the_exact_text(place: str) -> None:
    first = versions(place)[0]
    head, _, text = here(place, "show", first.id).stdout.partition("\n\n")
    assert text == "one\ntwo words here\nthree"
    assert dict(line.split(maxsplit=1) for line in head.splitlines()) == {
        "version": first.id,
        "memory": first.memory_id,
        "path": A,
        "change": "created",
        "actor": "user:ann",
        "time": f"{first.created_at:%Y-%m-%dT%H:%M:%S.%fZ}",
        "size": "24 bytes",
    }
    assert json.loads(here(place, "show", first.id, "--json").stdout)["text"] == text
    deleted = here(place, "show", ids(place)[-1]).stdout
    assert "deleted" in deleted
    assert "\n\n" not in deleted
    assert here(place, "show", "memver_none").exit_code == 3


def test_what_a_model_wrote_does_not_steer_the_terminal(place: str, tmp_path: Path) -> None:
    gone = ids(place)[3]
    for command in (("show", gone), ("diff", gone), ("view", "/memories/gone", "--as-of", gone)):
        shown = terminal(tmp_path, "--at", place, *command, NO_COLOR="1")
        assert "x\\x1b[2J" in shown
        assert "\x1b" not in shown
    here(place, "restore", "/memories/gone", "--to", gone)
    for command in (("blame", "/memories/gone"), ("search", "x")):
        shown = terminal(tmp_path, "--at", place, *command, NO_COLOR="1")
        assert "x\\x1b[2J" in shown
        assert "\x1b" not in shown


# -- diff ----------------------------------------------------------------------------------------------------------


def test_diff_of_one_version_is_against_the_one_it_replaced(place: str) -> None:
    first, second, third, *_ = ids(place)
    body = f"--- a{A}\n+++ b{A}\n@@ -1,3 +1,3 @@\n one\n-two words here\n+2 words here\n three\n"
    body += "\\ No newline at end of file\n"
    assert here(place, "diff", second).stdout == f"{first} to {second}\ndiff --git a{A} b{A}\n{body}"
    assert here(place, "diff", first, second).stdout == here(place, "diff", second).stdout
    assert here(place, "diff", third).stdout.splitlines()[1:] == [
        f"diff --git a{A} b{B}",
        f"rename from {A[1:]}",
        f"rename to {B[1:]}",
    ]
    found = json.loads(here(place, "diff", second, "--json").stdout)
    assert (found["old"]["id"], found["new"]["id"], found["diff"]) == (first, second, body)
    assert here(place, "diff", second, second).stdout == ""


def test_diff_of_a_path_is_of_the_memory_across_renames(place: str) -> None:
    first, second, third, *_ = ids(place)
    assert here(place, "diff", B).stdout.splitlines()[0] == f"{second} to {third}"
    assert here(place, "diff", B, "--since", first).stdout.splitlines()[0] == f"{first} to {third}"
    assert here(place, "diff", B, "--since", "1d").stdout.splitlines()[0] == f"nothing to {third}"
    assert here(place, "diff", B, "--since", third).stdout == ""
    assert here(place, "diff", "/memories/gone").exit_code == 3
    made = ids(place)[3]
    assert here(place, "diff", "/memories/gone", "--since", made).stdout.splitlines()[:3] == [
        f"{made} to nothing",
        "diff --git a/memories/gone b/memories/gone",
        "deleted file mode 100644",
    ]


def test_in_a_pipe_a_diff_is_a_patch(place: str, tmp_path: Path) -> None:
    """All of them, one after the other, make in a directory what the store went through; empty memories too."""
    here(place, "create", "/memories/empty", "")
    here(place, "rm", B)
    tree = tmp_path / "tree"
    tree.mkdir()
    for version in ids(place):
        patch = here(place, "diff", version).stdout_bytes
        subprocess.run(["git", "apply"], input=patch, cwd=tree, check=True, timeout=60)
        files = {f"/{path.relative_to(tree)}": path.read_text() for path in tree.rglob("*") if path.is_file()}
        assert files == then(place, version)


def test_on_a_terminal_the_words_that_differ_are_marked(place: str, tmp_path: Path) -> None:
    shown = terminal(tmp_path, "--at", place, "diff", ids(place)[1])
    assert "\x1b[30;41mtwo\x1b[0m\x1b[31m words here" in shown
    assert "\x1b[30;42m2\x1b[0m\x1b[32m words here" in shown


@pytest.mark.parametrize("arguments", [(A, "memver_x"), ("memver_x", "--since", "1d"), ()])
def test_diff_says_how_it_is_asked(place: str, arguments: tuple[str, ...]) -> None:
    assert here(place, "diff", *arguments).exit_code == 2


def test_diff_says_what_is_gone(place: str) -> None:
    first, second, *_ = ids(place)
    here(place, "redact", first, "--yes")
    ended = here(place, "diff", second)
    assert (ended.exit_code, "was redacted" in ended.stderr) == (2, True)


def test_diff_says_what_is_kept_no_longer(tmp_path: Path) -> None:
    """It does not make a new memory of one whose past is gone."""
    at, now = f"sqlite:///{tmp_path}/memory.db", [NOW.timestamp()]
    with retentive.open(at, clock=lambda: now[0], keep_versions_days=1, keep_versions=1) as opened:
        store = opened.store()
        store.execute({"command": "create", "path": A, "file_text": "one"})
        store.execute({"command": "str_replace", "path": A, "old_str": "one", "new_str": "two"})
        now[0] += 5 * 86_400
        assert store.sweep().versions_pruned == 1
    ended = here(at, "diff", A)
    assert (ended.exit_code, "kept no longer" in ended.stderr) == (2, True)
    assert here(at, "diff", A, "--since", "2026-11-21T12:30:00Z").exit_code == 2


# -- blame and the past ----------------------------------------------------------------------------------------------


def test_blame_tells_each_line_with_its_version(place: str) -> None:
    first, second, *_ = ids(place)
    rows = [line.split("\t") for line in here(place, "blame", B).stdout.splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        (first, "user:ann", "1", "one"),
        (second, "session:s1", "2", "2 words here"),
        (first, "user:ann", "3", "three"),
    ]
    found = json.loads(here(place, "blame", B, "--json").stdout)
    assert [(each["line"], each["text"], each["version"]["id"]) for each in found][1] == (2, "2 words here\n", second)
    assert here(place, "blame", A).exit_code == 3


def test_ls_view_and_cat_show_the_store_as_it_was(place: str) -> None:
    first, second, _, made, _ = ids(place)
    assert here(place, "ls", "--as-of", made).stdout == f"22\t{B}\n5\t/memories/gone\n"
    assert here(place, "ls", A, "--as-of", first).stdout == f"24\t{A}\n"
    assert here(place, "ls", "--as-of", "1d").stdout == ""
    assert here(place, "ls", B, "--as-of", first).exit_code == 3
    assert here(place, "ls", "/etc", "--as-of", first).exit_code == 2
    assert here(place, "cat", A, "--as-of", second).stdout == "one\n2 words here\nthree"
    assert here(place, "view", A, "--as-of", first, "--range", "2").stdout == (
        f"Here's the content of {A} with line numbers:\n     2\ttwo words here\n"
    )
    listing = here(place, "view", "--as-of", first).stdout.splitlines()[1:]
    assert listing == ["24B\t/memories", f"24B\t{A}"]
    missing = here(place, "view", B, "--as-of", first)
    assert (missing.exit_code, missing.stderr) == (
        3,
        f"The path {B} does not exist. Please provide a valid path.\n",
    )
    assert here(place, "view", "/etc", "--as-of", first).exit_code == 2
    assert here(place, "view", "--as-of", "memver_none").exit_code == 3


# -- times -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local zone is that of Berlin: an hour before UTC in winter, two in summer."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T10:00:00Z", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("2026-11-20T10:00+05:30", datetime(2026, 11, 20, 4, 30, tzinfo=UTC)),
        ("2026-11-20T10:00", datetime(2026, 11, 20, 9, tzinfo=UTC)),
        ("2026-07-20 10:00:01.5", datetime(2026, 7, 20, 8, 0, 1, 500_000, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 19, 23, tzinfo=UTC)),
        ("today", datetime(2026, 11, 20, 23, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 19, 23, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        ("15min ago", NOW - timedelta(minutes=15)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("2w", NOW - timedelta(weeks=2)),
    ],
)
def test_times_are_written_in_many_ways(text: str, expected: datetime) -> None:
    """Without a zone they are local; a day is its beginning; or how long ago."""
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "3", "d", "-1d", "10:00", "2026-13-01", "999999999d", "٣d"])
def test_other_times_are_refused_with_what_would_be_right(text: str) -> None:
    ended = here("sqlite://", "log", "--since", text)
    assert ended.exit_code == 2
    assert "is not a time such as 2026-11-21T10:00" in ended.stderr
