"""The directory backend passes the shipped suite."""

from __future__ import annotations

from pathlib import Path

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.files.backend import DirectoryBackend
from retentive.testing.backend_suite import BackendSuite


class TestDirectory(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return DirectoryBackend(str(place / "memory"), clock=clock, new_id=new_id)
