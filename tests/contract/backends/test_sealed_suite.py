"""Encrypted backends pass the shipped suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.sqlite.backend import SqliteBackend

from .sealed_suite import SealedSuite


class TestSealedSqlite(SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


@pytest.mark.long
class TestSealedMemory(SealedSuite):
    lasting = False

    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)


class TestSealedDirectory(SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return DirectoryBackend(str(place / "memory"), clock=clock, new_id=new_id)
