"""A person edits the files between two runs. However the first one ended, no edit is undone, and each is a version."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest

import retentive
from retentive.server.calls import ServedLocation
from support.command_line import RETENTIVE, environment
from support.profiles import LONG, sized
from support.waiting import until

from .ext4 import disk, why_not

PROGRAM = """
import json, os, sys
import retentive
from retentive.storage.files import backend
place, commands, sync_after_s, end = sys.argv[1:]
backend.SYNC_AFTER_S = float(sync_after_s)
store = retentive.open(place).store()
for command in json.loads(commands):
    assert not store.execute(command, actor="session:1").is_error
if end == "exception":
    raise ValueError("of the program")
if end == "wait":
    print("done", flush=True)
    sys.stdin.read()
if end != "exit":
    os.kill(os.getpid(), int(end))
"""
EARLIER, NOW, PRECIOUS = "status: no\nnotes\n", "status: yes\nnotes\n", "precious\n"


def _saved(folder: Path, text: str) -> None:
    """Save as editors do, so that a service cannot see the file empty in between."""
    (folder / "a.md~").write_text(text)
    (folder / "a.md~").replace(folder / "a.md")


EDITS: dict[str, Callable[[Path], object]] = {
    "set-back": lambda folder: _saved(folder, EARLIER),
    "cut": lambda folder: _saved(folder, NOW[:9]),
    "emptied": lambda folder: (folder / "a.md").write_text(""),
    "removed": lambda folder: (folder / "a.md").unlink(),
    "put-back": lambda folder: (folder / "gone.md").write_text(PRECIOUS),
    "renamed": lambda folder: (folder / "a.md").rename(folder / "b.md"),
}
BEFORE = {f"{edit}/{name}": NOW for edit in EDITS for name in ("a.md", "kept.md")}
AFTER = {path: text for path, text in BEFORE.items() if path not in {"removed/a.md", "renamed/a.md"}}
AFTER |= {"set-back/a.md": EARLIER, "cut/a.md": NOW[:9], "emptied/a.md": ""}
AFTER |= {"put-back/gone.md": PRECIOUS, "renamed/b.md": NOW}
VERSIONS = [
    "created put-back/gone.md",
    "created renamed/b.md",
    "deleted removed/a.md",
    "deleted renamed/a.md",
    "modified cut/a.md",
    "modified emptied/a.md",
    "modified set-back/a.md",
]
ENDS = {"exit": 0, str(int(signal.SIGKILL)): -signal.SIGKILL}
ENDS |= {"exception": 1, str(int(signal.SIGTERM)): -signal.SIGTERM} if LONG else {}


def commands() -> Iterator[dict[str, object]]:
    for edit in EDITS:
        a, kept, gone = (f"/memories/{edit}/{name}.md" for name in ("a", "kept", "gone"))
        yield {"command": "create", "path": a, "file_text": EARLIER}
        yield {"command": "create", "path": kept, "file_text": NOW}
        yield {"command": "create", "path": gone, "file_text": PRECIOUS}
        yield {"command": "str_replace", "path": a, "old_str": "no\n", "new_str": "yes\n"}
        yield {"command": "delete", "path": gone}


@contextmanager
def program(place: Path, end: str, *, sync_after_s: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A program that does not close its memory."""
    arguments = [str(place), json.dumps(list(commands())), str(sync_after_s), end]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        try:
            yield it
        finally:
            it.kill()


def edit_all(place: Path) -> None:
    assert files(place / "memories") == BEFORE
    for name, edit in EDITS.items():
        edit(place / "memories" / name)


def files(root: Path) -> dict[str, str]:
    found = {}
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # a running program may remove its temporary files meanwhile
            if path.is_file():
                found[str(path.relative_to(root))] = path.read_text()
    return found


def of_jobs(store: retentive.MemoryStore) -> list[str]:
    """Versions by `job:external`, as `operation path`, and by `job:recovery`, with this actor."""
    names = {"job:external": "", "job:recovery": "job:recovery "}
    found = [(names.get(str(version.actor)), version) for version in store.versions()]
    return sorted(f"{who}{one.operation} {one.path[10:]}" for who, one in found if who is not None)


def assert_kept(place: Path) -> None:
    """The next run finds all edits as they were made, and each is a version by `job:external`."""
    with retentive.open(place) as opened:
        store = opened.store()
        assert not store.execute({"command": "view", "path": "/memories"}).is_error
        assert (files(place / "memories"), of_jobs(store)) == (AFTER, VERSIONS)
        assert {memory.path[10:]: store.read(memory.path) for memory in store.memories()} == AFTER


@pytest.mark.parametrize("end", ENDS)
def test_no_edit_between_two_runs_is_undone(end: str, tmp_path: Path) -> None:
    with program(tmp_path / "memory", end) as ended:
        _, error = ended.communicate()
    assert ended.returncode == ENDS[end], error
    edit_all(tmp_path / "memory")
    assert_kept(tmp_path / "memory")


FORKING = """
import os, sys
import retentive
from retentive.storage.files import backend
backend.SYNC_AFTER_S = 1_000.0
store = retentive.open(sys.argv[1]).store()
store.create("/memories/a.md", "")
if os.fork() == 0:
    sys.exit()
os.wait()
store.create("/memories/b.md", "")
if sys.argv[2] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_the_end_of_a_program_syncs_its_files(end: str, tmp_path: Path) -> None:
    """The end of a forked child does not."""
    place = str(tmp_path / "memory")
    subprocess.run([sys.executable, "-c", FORKING, place, end], check=False)
    with closing(sqlite3.connect(tmp_path / "memory" / ".retentive" / "memory.db")) as database:
        ((behind,),) = database.execute("SELECT (SELECT seq FROM synced) < (SELECT max(seq) FROM versions)")
    assert behind == (end == "kill")


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_no_edit_while_a_program_waits_is_undone(end: signal.Signals, tmp_path: Path) -> None:
    """Another process has the directory open all the time, and comes across the edits first."""
    place = tmp_path / "memory"
    with retentive.open(place) as another, program(place, "wait") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "done\n"
        edit_all(place)
        waiting.send_signal(end)
        waiting.wait()
        assert of_jobs(another.store()) == []
        assert not another.store().execute({"command": "view", "path": "/memories"}).is_error
        assert of_jobs(another.store()) == VERSIONS
    assert_kept(place)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_no_edit_after_a_power_cut_is_undone(tmp_path: Path) -> None:
    """If the files were synced before. Here, every second change syncs them."""
    with disk(tmp_path) as hardware:
        place = hardware.mount_point / "memory"
        with program(place, "wait", sync_after_s=0) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "done\n"
            hardware.cut()
        hardware.recover()
        edit_all(place)
        assert_kept(place)


QUICK = {("serve", signal.SIGKILL), ("sync", signal.SIGTERM)}
ENDED = [
    pytest.param(door, end, marks=[] if (door, end) in QUICK else pytest.mark.long)
    for door, end in product(("mcp", "serve", "sync"), (signal.SIGTERM, signal.SIGKILL))
]


@pytest.mark.parametrize(("door", "end"), ENDED)
def test_no_edit_while_a_service_runs_is_undone(door: str, end: signal.Signals, tmp_path: Path) -> None:
    """`retentive mcp`, `serve` and `sync --watch` on a directory end with the status of the signal, or with 0."""
    place, notes = tmp_path / "memory", tmp_path / "notes"
    notes.mkdir()
    with retentive.open(place) as opened:
        for command in commands():
            assert not opened.store().execute(command, actor="session:1").is_error
        ServedLocation(opened).keys.create("test")
    arguments = {"mcp": ["mcp"], "serve": ["serve", "--port", "0"], "sync": ["sync", str(notes), "--watch"]}[door]
    with service(tmp_path, "--at", str(place), *arguments) as running:
        assert running.stdin is not None
        if door == "mcp":
            running.stdin.write(INITIALIZE)
            running.stdin.flush()
        if door != "sync":
            assert running.stdout is not None
            assert running.stdout.readline()
        else:
            until(lambda: {path: text for path, text in files(notes).items() if path in BEFORE} == BEFORE)
        edit_all(place)
        running.send_signal(end)
        status = running.wait()
    assert status == (-signal.SIGKILL if end == signal.SIGKILL else {"serve": 0}.get(door, 143))
    assert_kept(place)


INITIALIZE = json.dumps({
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}) + "\n"  # fmt: skip


@contextmanager
def service(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [RETENTIVE, *arguments],
        env=environment(directory),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


WRITER = """
import sys
import retentive
place, name, count = sys.argv[1:]
store = retentive.open(place).store()
for number in range(int(count)):
    line = f"{name}.{number}"
    command = {"command": "insert", "path": "/memories/shared.md", "insert_line": 0, "insert_text": line}
    if store.execute(command).is_error:
        break
    print(line, flush=True)
"""


@pytest.mark.long
def test_removed_files_of_the_bookkeeping_lose_nothing(tmp_path: Path) -> None:
    """Processes that write the same memory go on, also with those that start afterwards."""
    place = tmp_path / "memory"
    with retentive.open(place) as opened, ExitStack() as ends:
        opened.store().write("/memories/shared.md", "")
        writers = [ends.enter_context(writing(place, f"early{number}")) for number in range(2)]
        acknowledged = [line for writer in writers for line in first_lines(writer)]
        for name in ("journal", "live"):
            (place / ".retentive" / name).unlink()
        writers += [ends.enter_context(writing(place, f"late{number}")) for number in range(2)]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged += writer.stdout.read().split()
        assert len(acknowledged) == len(writers) * COUNT
        assert sorted(opened.store().read("/memories/shared.md").split()) == sorted(acknowledged)
        assert of_jobs(opened.store()) == []


COUNT = sized(quick=50, long=400, full=400)


def writing(place: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(place), name, str(COUNT)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_lines(writer: subprocess.Popen[str]) -> list[str]:
    assert writer.stdout is not None
    return [writer.stdout.readline().strip() for _ in range(10)]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_an_edit_of_equal_size_in_the_same_second_is_noticed(tmp_path: Path) -> None:
    """The file system has whole seconds. The files are looked at before and after the edit."""
    with disk(tmp_path, inode_bytes=128) as hardware, retentive.open(hardware.mount_point / "memory") as opened:
        store, root = opened.store(), hardware.mount_point / "memory" / "memories"
        for number in range(20):
            path = f"/memories/{number}.md"
            store.create(path, "price: 100\n")
            assert store.read(path) == "price: 100\n"
            (root / f"{number}.md").write_text("price: 200\n")
            assert store.read(path) == "price: 200\n"
            store.write(path, "price: 300\n")
            (root / f"{number}.md").write_text("price: 400\n")
            store.execute({"command": "insert", "path": path, "insert_line": 1, "insert_text": "more"})
            assert (root / f"{number}.md").read_text() == "price: 400\nmore\n"


BATCH = """
import sys
import retentive
store = retentive.open(sys.argv[1]).store()
paths = [f"/memories/{number:03}.md" for number in range(int(sys.argv[2]))]
store.batch([{"command": "create", "path": path, "file_text": "one"} for path in paths])
edits = [{"command": "str_replace", "path": path, "old_str": "one", "new_str": "two"} for path in paths]
print("ready", flush=True)
store.batch(edits)
"""
MANY = 100


def test_a_batch_that_was_killed_in_the_middle_is_completed(tmp_path: Path) -> None:
    """Its files are written by the next process, except one that a person edited meanwhile."""
    place = tmp_path / "memory"
    root = place / "memories"
    with subprocess.Popen(
        [sys.executable, "-c", BATCH, str(place), str(MANY)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: (root / "000.md").read_text() == "two", pause_s=0.0)
        process.kill()
    (root / f"{MANY - 1:03}.md").write_text("by hand")
    with retentive.open(place) as opened:
        store = opened.store()
        assert not store.execute({"command": "view", "path": "/memories"}).is_error
        assert of_jobs(store) == [f"modified {MANY - 1:03}.md"]
        expected = {f"{number:03}.md": "two" for number in range(MANY - 1)} | {f"{MANY - 1:03}.md": "by hand"}
        assert files(root) == expected
        assert {memory.path[10:]: store.read(memory.path) for memory in store.memories()} == expected
