"""Other processes of one memory store: a fork while a thread writes, and one that recovers the log of SQLite."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from support.places import SERVERS
from support.profiles import LONG
from support.targets import BACKENDS, disk_faults, open_target, url_of

from .forked import SHARED, STORE, counter

TESTS = Path(__file__).resolve().parents[2]
TIMES = 40 if LONG else 20
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


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize("backend", [*BACKENDS, *(one for one in SERVERS if LONG and one != "s3")])
def test_a_backend_opened_before_a_fork_works_on_both_sides(backend: str, tmp_path: Path) -> None:
    """No edit is lost or refused, and no call hangs.

    Object storage refuses to work in the child of the process that opened it; the tests of that backend check this.
    """
    url = url_of(backend, tmp_path)
    program = ["-W", "ignore::DeprecationWarning", "-m", "contract.concurrency.forked", url, str(TIMES)]
    done = subprocess.run(
        [sys.executable, *program], cwd=TESTS, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with closing(open_target(url)) as target:
        state = target.state(STORE)
        assert state.tree == {SHARED: "".join(counter(worker, TIMES) + "\n" for worker in range(3))}
        assert sum(state.versions.values()) == 1 + 3 * TIMES
        assert disk_faults(backend, tmp_path, {STORE: state.tree}) == []


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
