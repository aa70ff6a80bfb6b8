"""Rounds of work, crash and check, which all crash tests share."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from support.oracle import Command, Outcome, allowed, below, differs
from support.targets import STORES, UNKNOWN, disk_faults, leftovers, open_target, url_of

from .stream import Writer, commands

TESTS = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
EARLY = 0.3  # share of rounds that crash while the backend is being opened
BUSY_ACKNOWLEDGED = 60  # maximum number of acknowledged changes before a crash is requested
BUSY_S = 0.05  # maximum time of work after that, so that the crash can happen at any moment of a command
RAISED = "RAISED"  # prefix by which a worker reports an exception that no command may raise
States = dict[str, Outcome]


@dataclass
class Story:
    """The acknowledgements of one writer of a crashed process.

    `doubtful` counts commands that were acknowledged during the power cut. These may be lost, because a sync during the
    cut can return success. Measured on Linux 6.18 with a plain loop of write, fdatasync and acknowledgement: 12 such
    losses in 150 cuts, and no loss of a write acknowledged before the cut.
    """

    acknowledged: int = 0
    doubtful: int = 0
    error: str | None = None


def writers_for(seed: int) -> list[Writer]:
    """Return three writers: two in different directories of one memory store, and one in another store."""
    places = [("default", "/memories/a"), ("default", "/memories/b"), (STORES[1], "/memories/a")]
    return [Writer(store, home, seed * 10 + number) for number, (store, home) in enumerate(places)]


def work_until(
    url: str, writers: list[Writer], rng: random.Random, *, cut: Callable[[], None] | None = None
) -> list[Story]:
    """Run a worker, kill it or cut its power at a random moment, and return its acknowledgements.

    A worker that is killed after the opening has acknowledged at least one change, however slow the machine is.
    """
    out, into = os.pipe()
    arguments = [url, json.dumps([asdict(writer) for writer in writers]), str(into)]
    process = subprocess.Popen([sys.executable, "-m", "faults.process.worker", *arguments], cwd=TESTS, pass_fds=[into])
    os.close(into)
    try:
        early = rng.random() < EARLY
        text = _read_until(out, b"opening\n") if early else _read_work(out, rng.randint(1, BUSY_ACKNOWLEDGED))
        text += _read_for(out, rng.random() * BUSY_S)
        if cut is not None:
            text += _read_for(out, 0.0)
            cut()
        process.kill()
        rest = _read_rest(out)
    finally:
        process.kill()
        process.wait()
        os.close(out)
    if cut is not None:
        whole, _, part = text.rpartition(b"\n")
        return _stories(whole.decode(), len(writers), doubtful=(part + rest).decode())
    return _stories((text + rest).decode(), len(writers))


def judge(start: States, writers: list[Writer], stories: list[Story], found: States) -> list[str]:
    """Return the problems: lost acknowledged changes, refused changes that were applied, and partial changes."""
    problems = [
        f"{store}: {path} belongs to no writer"
        for store, state in found.items()
        for path in state.tree
        if not any(path.startswith(each.home + "/") for each in writers if each.store == store)
    ]
    problems += [story.error for story in stories if story.error is not None and story.error.startswith(RAISED)]
    for writer, story in zip(writers, stories, strict=True):
        before = part_of(start[writer.store], writer.home)
        count = story.acknowledged + story.doubtful + 1
        stream = [command for command, _ in islice(commands(writer, before.tree), count)]
        done, open_ended = stream[: story.acknowledged], stream[story.acknowledged :]
        refused = story.error is not None and UNKNOWN not in story.error
        states = allowed(before, done, open_ended[:-1] if refused else open_ended)
        part = part_of(found[writer.store], writer.home)
        if all(differs(part, state) for state in states):
            problems.append(
                f"{writer.store} {writer.home}, {story.acknowledged} acknowledged, error {story.error}: "
                f"{differs(part, states[0])}; last {told(done[-1:])}, in flight {told(open_ended)}"
            )
    return problems


def part_of(state: Outcome, home: str) -> Outcome:
    """Return the part of a store that belongs to the writer with this home."""
    versions = {key: count for key, count in state.versions.items() if key[1].startswith(home + "/")}
    return Outcome({path: state.tree[path] for path in below(state.tree, home)}, Counter(versions))


def look(backend: str, directory: Path) -> tuple[States, list[str]]:
    """Open the location like the next process, and return the state of every store and the inconsistencies on disk."""
    target = open_target(url_of(backend, directory))
    try:
        for store in STORES:
            target.execute(store, {"command": "view", "path": "/memories"})
        states = {store: target.state(store) for store in STORES}
        faults = disk_faults(backend, directory, {store: states[store].tree for store in STORES})
    finally:
        target.close()
    return states, faults + leftovers(directory)


def told(each: Sequence[Command]) -> str:
    """Format commands for a message, with long texts truncated."""
    return str([{name: str(value)[:60] for name, value in command.items()} for command in each])


def _stories(text: str, count: int, doubtful: str = "") -> list[Story]:
    stories = [Story() for _ in range(count)]
    certain = len(text.splitlines())
    for at, line in enumerate(text.splitlines() + doubtful.splitlines()):
        match line.split(" ", 2):
            case [number, "ok"] if at < certain:
                stories[int(number)].acknowledged += 1
            case [number, "ok"]:
                stories[int(number)].doubtful += 1
            case [number, "error", error]:
                stories[int(number)].error = json.loads(error)
    return stories


def _read_until(pipe: int, end: bytes, times: int = 1) -> bytes:
    """Read the worker's output until it contains `end` this many times."""
    data = b""
    while data.count(end) < times:
        chunk = os.read(pipe, 1 << 16) if select.select([pipe], [], [], START_TIMEOUT_S)[0] else b""
        assert chunk, f"the worker did not come to {end!r}: {data[-2_000:]!r}"
        data += chunk
    return data


def _read_work(pipe: int, acknowledged: int) -> bytes:
    """Read the worker's output until it has acknowledged this many changes."""
    return _read_until(pipe, b" ok\n", acknowledged)


def _read_for(pipe: int, seconds: float) -> bytes:
    """Read the output that arrives within this time, so that the pipe does not fill up."""
    data, end = b"", time.monotonic() + seconds
    while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            break
        data += chunk
    return data


def _read_rest(pipe: int) -> bytes:
    return b"".join(iter(lambda: os.read(pipe, 1 << 16), b""))
