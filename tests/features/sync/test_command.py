"""`retentive sync`: its output and exit status, a server as the location, watching, and kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from support.http_api import Api, serving
from support.profiles import sized
from support.waiting import DEADLINE_S, until

MAIN = "from retentive.cli import main; raise SystemExit(main())"
KILLED = """
import os, signal, sys
left = int(sys.argv.pop(1))
def count(event, _):
    global left
    if event.startswith(("open", "os.", "sqlite3")) and "retentive" not in str(_):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
import retentive.cli.app, retentive.sync.session
sys.addaudithook(count)
"""
KILLS = sized(quick=1, long=40, full=200)


@pytest.fixture
def api() -> Iterator[Api]:
    with retentive.open("sqlite://") as opened, serving(opened) as found:
        yield found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RETENTIVE_")}
    return kept | {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}


def run(
    environment: dict[str, str], *arguments: str, code: str = MAIN, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=cwd)


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    at = path.stat().st_mtime_ns - 60_000_000_000
    os.utime(path, ns=(at, at))


def test_over_a_server(api: Api, environment: dict[str, str], tmp_path: Path) -> None:
    store, notes = api.place.opened.store(), tmp_path / "notes"
    environment |= {"RETENTIVE_AT": api.url, "RETENTIVE_API_KEY": api.key, "RETENTIVE_STORE": store.id}
    for number in range(3):
        save(notes / f"{number}.md", f"{number}\n")
    store.create("/memories/there.md", "there\n")
    dry = run(environment, "sync", str(notes), "--dry-run", "--json")
    assert sorted(each["became"] for each in json.loads(dry.stdout)["files"]) == ["pushed"] * 3 + ["written"]
    assert len(store.memories()) == 1
    done = run(environment, "sync", str(notes))
    assert (done.returncode, done.stderr) == (0, "3 pushed, 1 written.\n")
    assert done.stdout.splitlines()[0] == "pushed\t/memories/0.md\tstore\t"
    assert {each.path for each in store.memories()} == {f"/memories/{name}.md" for name in ("0", "1", "2", "there")}
    store.write("/memories/0.md", "zero\n")
    save(notes / "0.md", "null\n")
    conflict = run(environment, "sync", str(notes))
    assert conflict.returncode == 6
    assert (notes / "0.md").read_text() == "zero\n"


@pytest.mark.parametrize(
    ("at", "directory"),
    [
        ("../link/memory", "../notes"),
        *[
            pytest.param(*each, marks=pytest.mark.long)
            for each in ((None, "."), ("sqlite:///x/../memory.db", "."), ("memory", "../link"), (".", "."))
        ],
    ],
)
def test_a_directory_is_not_copied_into_itself(
    environment: dict[str, str], tmp_path: Path, at: str | None, directory: str
) -> None:
    """The location would be in the directory. Nothing is created, and `--ignore` is one of the remedies."""
    notes = tmp_path / "notes"
    save(notes / "ada.md", "# Ada\n")
    (tmp_path / "link").symlink_to(notes)
    environment |= {} if at is None else {"RETENTIVE_AT": at}
    for more in ([], ["--dry-run"], ["--watch"]):
        done = run(environment, "sync", directory, *more, cwd=notes)
        assert (done.returncode, "its files would be copied without end" in done.stderr) == (2, True)
    assert list(notes.iterdir()) == [notes / "ada.md"]
    done = run(environment, "sync", directory, "--ignore", "memor*", cwd=notes)
    assert (done.returncode, done.stdout) == (0, "pushed\t/memories/ada.md\tstore\t\n")


def test_a_dry_run_creates_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    """Neither the location nor a state."""
    notes = tmp_path / "notes"
    save(notes / "a.md", "a\n")
    for at in (f"sqlite:///{tmp_path}/memory.db", f"{tmp_path}/memory"):
        done = run(environment, "--at", at, "sync", str(notes), "--dry-run")
        assert (done.returncode, done.stdout) == (0, "pushed\t/memories/a.md\tstore\t\n")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.md", "notes"]


@pytest.mark.long
def test_the_status_tells_what_is_in_step_and_what_waits(environment: dict[str, str], tmp_path: Path) -> None:
    """It creates and changes nothing, and `last_round` is the time of the last round also if that changed nothing."""
    notes, at = tmp_path / "notes", f"sqlite:///{tmp_path}/memory.db"
    names = [f"{number}.md" for number in range(8)]
    for name in names:
        save(notes / name, f"{name}\n")

    def status() -> tuple[dict[str, object], set[tuple[str, str, str]]]:
        done = run(environment, "--at", at, "sync", str(notes), "--status", "--json")
        found: dict[str, object] = json.loads(done.stdout)
        files: list[dict[str, str]] = found.pop("files")  # type: ignore[assignment]
        waits = found["conflict_copies"] or {"held", "conflict"} & {each["became"] for each in files}
        assert done.returncode == (6 if waits else 0), done.stderr
        return found, {(each["became"], each["path"], each["side"]) for each in files}

    none: dict[str, object] = {"settled": True, "dry_run": True, "last_round": None, "running": False}
    none |= {"in_step": 0, "conflict_copies": []}
    assert status() == (none, {("pushed", f"/memories/{name}", "store") for name in names})
    assert sorted(path.name for path in tmp_path.rglob("*")) == [*names, "notes"]
    assert run(environment, "--at", at, "sync", str(notes)).returncode == 0
    first, files = status()
    assert (first["in_step"], files) == (8, set())
    assert run(environment, "--at", at, "sync", str(notes)).returncode == 0
    assert str(first["last_round"]) < str(status()[0]["last_round"])
    with retentive.open(at) as opened:
        opened.store().write("/memories/0.md", "there\n")
        opened.store().create("/memories/new.md", "there\n")
    save(notes / "0.md", "here\n")
    save(notes / "1.md", "here\n")
    here, there = "directory", "store"
    planned = {("conflict", "/memories/0.md", here), ("pushed", "/memories/1.md", there)}
    planned.add(("written", "/memories/new.md", here))
    found, files = status()
    assert (found["in_step"], files) == (6, planned)
    assert run(environment, "--at", at, "sync", str(notes)).returncode == 6
    (copy,) = [path.name for path in notes.iterdir() if ".conflict-" in path.name]
    for name in names[2:]:
        (notes / name).unlink()
    found, files = status()
    assert (found["in_step"], found["conflict_copies"]) == (4, [f"/memories/{copy}"])
    assert files == {("held", f"/memories/{name}", "") for name in names[2:]}
    shown = run(environment, "--at", at, "sync", str(notes), "--status").stdout.splitlines()
    assert shown[1:5] == ["running\tno", "in step\t4", f"conflict copies\t/memories/{copy}", shown[4]]
    assert shown[4].startswith("held\t/memories/2.md\t\tmore than half")


def test_names_cannot_control_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    """Control characters of names are shown escaped, and what was skipped gives status 6."""
    notes, at = tmp_path / "notes", f"sqlite:///{tmp_path}/memory.db"
    for name in ("a\x1b]0;owned\x07\x1b[31m.md", "new\nline.md", "tab\t.md", "ok.md"):
        save(notes / name, "x\n")
    done = run(environment, "--at", at, "sync", str(notes))
    assert all(char.isprintable() for line in done.stdout.splitlines() for char in line.replace("\t", ""))
    assert "\nline.md" not in done.stdout
    assert (done.returncode, "skipped\t/memories/new\\u000aline.md\t\t" in done.stdout) == (6, True)


def test_mistakes_name_the_remedy(environment: dict[str, str], tmp_path: Path) -> None:
    at = f"--at={tmp_path}/memory"
    (tmp_path / "file").touch()
    for directory, status, text in (("none", 3, "does not exist"), ("file", 2, "the path is a file")):
        done = run(environment, at, "sync", str(tmp_path / directory))
        assert done.returncode == status
        assert text in done.stderr


@pytest.mark.long
def test_watching_carries_both_directions(environment: dict[str, str], tmp_path: Path) -> None:
    notes, at = tmp_path / "notes", f"sqlite:///{tmp_path}/memory.db"
    notes.mkdir()
    command = [sys.executable, "-c", MAIN, "--at", at, "sync", str(notes), "--watch"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            carry_both_directions(environment, process, notes, at)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert process.returncode == 130


def carry_both_directions(environment: dict[str, str], process: subprocess.Popen[str], notes: Path, at: str) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "Synchronising until Ctrl-C.\n"
    with retentive.open(at) as opened:
        store = opened.store()
        (notes / "a.md").write_text("here\n")
        until(lambda: [each.path for each in store.memories()] == ["/memories/a.md"])
        store.create("/memories/b.md", "there\n")
        until((notes / "b.md").exists)
        again = run(environment, "--at", at, "sync", str(notes))
        assert (again.returncode, "another process" in again.stderr) == (11, True)
        asked = run(environment, "--at", at, "sync", str(notes), "--status")
        assert (asked.returncode, "running\tyes\n" in asked.stdout) == (0, True)


def test_kill_9_at_any_call_loses_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    """The next run completes what the killed one began, without a conflict and without a version too many."""
    notes, at = tmp_path / "notes", f"sqlite:///{tmp_path}/memory.db"
    chosen, kills = random.Random(1), 0
    with retentive.open(at) as opened:
        store = opened.store()
        for number in range(KILLS):
            edit_both(store, notes, number)
            killed = run(environment, str(chosen.randrange(1, 50)), "--at", at, "sync", str(notes), code=KILLED + MAIN)
            assert killed.returncode in {-signal.SIGKILL, 0}, killed.stderr
            kills += killed.returncode != 0
            done = run(environment, "--at", at, "sync", str(notes), "--json")
            assert done.returncode == 0, done.stderr + done.stdout
            expected = {f"here{number}.md": f"{number}\n", f"there{number}.md": f"{number}\n", "both.md": both(number)}
            assert {name: (notes / name).read_text() for name in expected} == expected
            found = {each.path: store.read(each.path) for each in store.memories()}
            assert {name: found[f"/memories/{name}"] for name in expected} == expected
            assert len(found) == 2 * number + 3
        assert kills > KILLS // 2
        assert not [path for path in notes.rglob(".retentive-*") if path.name != ".retentive-sync"]


def both(number: int, *, upper: bool = True, lower: bool = True) -> str:
    return f"{number if upper else number - 1}\n\nmiddle\n\n{number if lower else number - 1}\n"


def edit_both(store: MemoryStore, notes: Path, number: int) -> None:
    save(notes / f"here{number}.md", f"{number}\n")
    save(notes / "both.md", both(number, lower=number == 0))
    store.create(f"/memories/there{number}.md", f"{number}\n")
    if number:
        store.write("/memories/both.md", both(number, upper=False))
