"""The backend of docs/writing-a-backend.md passes the shipped suite with at most 150 lines of code."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Clock, NewId
from retentive.testing.backend_suite import BackendSuite
from support.pages import ROOT

sys.path.append(str(ROOT / "examples"))
DictBackend: Callable[..., Backend] = importlib.import_module("dict_backend").DictBackend


MAX_LINES = 150  # without blank ones; the author of a backend reads the whole file first


class TestDictBackend(BackendSuite):
    lasting = False  # nothing survives closing it

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return DictBackend(clock=clock, new_id=new_id)


WAITING = """
import threading
from retentive.testing.backend_suite import BackendSuite

class TestWaiting(BackendSuite):
    timeout_s = 0.2

    def open_backend(self, place, *, clock, new_id):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
"""


@pytest.mark.long
def test_a_test_of_a_backend_that_waits_for_ever_fails(tmp_path: Path) -> None:
    """Without any plugin for pytest, and the next test runs."""
    (tmp_path / "test_waiting.py").write_text(WAITING)
    options = ["-q", "-p", "no:timeout", "-p", "no:cacheprovider", "-k", "a_new_store_has_an_id"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False)
    assert "the test ran longer than 0.2 s" in done.stdout
    assert "lock.acquire()" in done.stdout


def test_the_example_stays_short() -> None:
    lines = (ROOT / "examples/dict_backend.py").read_text("utf-8").splitlines()
    assert len([line for line in lines if line]) <= MAX_LINES
