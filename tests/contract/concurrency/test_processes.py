"""Several processes write to one memory store at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.places import SERVERS
from support.profiles import LONG, sized
from support.targets import BACKENDS, disk_faults, open_target, url_of

from .tasks import STORE, counter, creation_faults, expected, lines_of, prepare

TESTS = Path(__file__).resolve().parents[2]
EDITORS = 8
EDITS = sized(quick=10, long=100, full=200)
FORKED_EDITS = sized(quick=20, long=40, full=40)
EDITS_ON_SERVERS = sized(quick=10, long=40, full=80)
CREATORS = sized(quick=8, long=32, full=32)
TIMEOUT_S = 300
RECOVERY = """
import fcntl, sys, time
with open(sys.argv[1], "r+b") as index:
    for byte in 120, 122:
        fcntl.lockf(index, fcntl.LOCK_EX, 1, byte)
    index.write(bytes(96))
    index.flush()
    print("holds", flush=True)
    time.sleep(0.3)
"""


EVERY_BACKEND = [*BACKENDS, *SERVERS] if LONG else ["sqlite"]


@pytest.mark.parametrize("backend", EVERY_BACKEND)
def test_no_edit_of_eight_processes_is_lost(backend: str, tmp_path: Path) -> None:
    """All processes edit one memory. No edit fails, and each edit adds one version."""
    edits = EDITS_ON_SERVERS if backend in SERVERS else EDITS
    url = url_of(backend, tmp_path)
    target = open_target(url)
    prepare(target, EDITORS)
    target.close()
    said = sorted(run(url, "edit", EDITORS, edits))
    assert said == [[worker, []] for worker in range(EDITORS)]
    target = open_target(url)
    state = target.state(STORE)
    assert lines_of(target) == expected(EDITORS, edits)
    assert sum(state.versions.values()) == 1 + EDITORS * edits
    assert disk_faults(backend, tmp_path, {STORE: state.tree}) == []
    target.close()


@pytest.mark.long
@pytest.mark.parametrize("backend", EVERY_BACKEND)
def test_one_of_many_processes_creates_a_path(backend: str, tmp_path: Path) -> None:
    """Exactly one process succeeds, even if the store itself is created at the same moment."""
    url = url_of(backend, tmp_path)
    replies = [str(reply) for _, reply in sorted(run(url, "create", CREATORS, 1))]
    target = open_target(url)
    assert len(replies) == CREATORS
    assert creation_faults(replies, target) == []
    target.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize("mode", ["idle", "busy"])
@pytest.mark.parametrize("backend", [*BACKENDS, *(one for one in SERVERS if LONG and one != "s3")])
def test_a_backend_opened_before_a_fork_works_on_both_sides(backend: str, mode: str, tmp_path: Path) -> None:
    """Parent, child and, in mode busy, a thread that writes during the fork lose no edit, and no call hangs.

    Object storage refuses to work in the child of the process that opened it; the tests of that backend check this.
    """
    url, count = url_of(backend, tmp_path), FORKED_EDITS
    said = run(url, mode, 2, count)
    workers = 3 if mode == "busy" else 2
    assert sorted({worker for worker, _ in said}) == list(range(workers))
    assert [errors for _, errors in said if errors] == []
    target = open_target(url)
    unused = {} if mode == "busy" else {counter(2, 0): 1}
    assert lines_of(target) - Counter(unused) == expected(workers, count)
    assert sum(target.state(STORE).versions.values()) == 1 + workers * count
    target.close()


@pytest.mark.skipif(sys.platform == "win32", reason="SQLite locks other bytes there")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recovery_of_the_log_is_waited_for(backend: str, tmp_path: Path) -> None:
    """Another process holds SQLite's locks for it (bytes 120 and 122) and has emptied the header of the index."""
    target = open_target(url_of(backend, tmp_path))
    target.execute(STORE, {"command": "create", "path": "/memories/a", "file_text": "1"})
    (index,) = tmp_path.rglob("*.db-shm")
    with subprocess.Popen([sys.executable, "-c", RECOVERY, index], stdout=subprocess.PIPE, text=True) as recovery:
        assert recovery.stdout is not None
        assert recovery.stdout.readline() == "holds\n"
        assert not target.execute(STORE, {"command": "create", "path": "/memories/b", "file_text": "2"}).is_error
        assert target.state(STORE).tree == {"/memories/a": "1", "/memories/b": "2"}
    target.close()


def run(*arguments: object) -> list[list[Any]]:
    """Run a program and return the JSON lines that its processes print."""
    module = ["-W", "ignore::DeprecationWarning", "-m", "contract.concurrency.crowd"]
    command = [sys.executable, *module, *map(str, arguments)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]
