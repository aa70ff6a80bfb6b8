"""The backend of docs/platforms.md passes the shipped suite with at most 150 lines of code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

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


def test_the_example_stays_short() -> None:
    lines = (ROOT / "examples/dict_backend.py").read_text("utf-8").splitlines()
    assert len([line for line in lines if line]) <= MAX_LINES
