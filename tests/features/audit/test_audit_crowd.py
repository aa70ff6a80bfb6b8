"""Audit logs under contention of threads and processes. Some processes are killed while they write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import opened, place_of
from support.profiles import LONG

PROGRAM = """
import sys, threading
import retentive
at, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with retentive.open(at) as memory:
    store = memory.store()
    def work(thread):
        for number in range(count):
            path = f"/memories/{name}/{thread}-{number}"
            for command in ({"command": "create", "path": path, "file_text": ""}, {"command": "view", "path": path}):
                reply = store.execute(command)
                assert not reply.is_error, reply
            print(number, flush=True)
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
BACKENDS = ["sqlite", "directory", "postgresql"]


def start(at: str, name: str, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, at, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("backend", BACKENDS if LONG else ["sqlite"])
def test_a_process_killed_under_load_leaves_a_valid_chain(backend: str, tmp_path: Path) -> None:
    """Every version has an entry, and every entry of a change has its version."""
    with opened(backend, tmp_path) as place:
        store = place.store()
        store.change_settings({"audit": True})
        at = place_of(backend, tmp_path)
        for number in range(3):
            running = start(at, str(number), 100_000)
            assert running.stdout is not None
            for _ in range(5 + 7 * number):
                assert running.stdout.readline()
            os.kill(running.pid, signal.SIGKILL)
            running.communicate(timeout=60)
            assert store.execute({"command": "view", "path": "/memories"}).is_error is False
        found = store.audit.verify()
        assert (found.problem, found.unaudited) == (None, ())
        named = {change.version_id for entry in store.audit.entries() for change in entry.changes}
        assert named == {version.id for version in store.versions()}
