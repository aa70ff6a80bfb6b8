"""The backend of docs/writing-a-backend.md keeps the contract."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from retentive.storage.contract import Backend, Clock, NewId
from retentive.testing.backend_suite import BackendSuite

from .pages import ROOT

sys.path.append(str(ROOT / "examples"))
DictBackend: Callable[..., Backend] = importlib.import_module("dict_backend").DictBackend


class TestDictBackend(BackendSuite):
    lasting = False  # nothing is left once it is closed

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return DictBackend(clock=clock, new_id=new_id)
