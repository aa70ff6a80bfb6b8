"""Encrypted backends pass the shipped suite, both with encrypted and with plain paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite import BackendSuite

KEYS = KeyRing.new()


class SealedSuite(BackendSuite):
    seals = False
    seal_paths = False

    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        raise NotImplementedError

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        inner = self.inner(place, clock=clock, new_id=new_id)
        return SealedBackend(inner, KEYS, seal_paths=self.seal_paths, clock=clock)


@pytest.mark.long
class TestSealedSqlite(SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


class TestSealedSqlitePaths(TestSealedSqlite):
    seal_paths = True


@pytest.mark.long
class TestSealedMemory(SealedSuite):
    lasting = False

    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)


class TestSealedMemoryPaths(TestSealedMemory):
    seal_paths = True


class TestSealedDirectory(SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return DirectoryBackend(str(place / "memory"), clock=clock, new_id=new_id)


@pytest.mark.long
class TestSealedDirectoryPaths(TestSealedDirectory):
    seal_paths = True
