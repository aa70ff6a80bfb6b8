"""Shared parts of the backend suite: fixtures that open a backend, and short methods for writes and reads."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TypeVar, Unpack

import pytest

from retentive.storage.contract import (
    Backend,
    Created,
    Deleted,
    Moved,
    Selection,
    Snapshot,
    Transaction,
    Updated,
    create_or_update,
)
from retentive.values.paths import ROOT
from retentive.values.records import Actor, Clock, Entry, Memory, NewId, Usage, Version, sortable_id

R = TypeVar("R")
A, B, C = "/memories/a", "/memories/b", "/memories/d/c"


def memory_at(snapshot: Snapshot, path: str) -> Memory:
    found = snapshot.get(path).memory
    assert found is not None, f"no memory at {path}"
    return found


def _moved(tx: Transaction, path: str, new: str, data: bytes | None) -> Moved | Updated:
    memory = memory_at(tx, path)
    return Moved(memory, new) if data is None else Updated(memory, new, data)


class Opened:
    """Memory store of a backend, with short methods for writes and reads. The store is created if it does not exist."""

    def __init__(self, backend: Backend, key: str = "tested", *, seal: str | None = None) -> None:
        self.backend = backend
        self.id = backend.create_store(key=key, name=key, seal=seal).id

    def write(self, work: Callable[[Transaction], R], *, may_use_reserve: bool = False) -> R:
        return self.backend.write(self.id, work, may_use_reserve=may_use_reserve)

    def read(self, work: Callable[[Snapshot], R]) -> R:
        return self.backend.read(self.id, work)

    def create(self, files: Mapping[str, bytes], actor: Actor | None = None) -> None:
        self.write(lambda tx: tx.record([Created(path, data) for path, data in files.items()], actor))

    def put(self, path: str, data: bytes, actor: Actor | None = None) -> None:
        self.write(lambda tx: tx.record([create_or_update(tx.get(path).memory, path, data)], actor))

    def move(self, path: str, new: str, actor: Actor | None = None, *, data: bytes | None = None) -> None:
        self.write(lambda tx: tx.record([_moved(tx, path, new, data)], actor))

    def delete(self, *paths: str, actor: Actor | None = None) -> None:
        self.write(lambda tx: tx.record([Deleted(memory_at(tx, path)) for path in paths], actor), may_use_reserve=True)

    def memory(self, path: str) -> Memory:
        return self.read(lambda snapshot: memory_at(snapshot, path))

    def found(self, memory_id: str) -> Memory | None:
        return self.read(lambda snapshot: snapshot.find(memory_id))

    def version_text(self, version_id: str) -> bytes | None:
        return self.read(lambda snapshot: snapshot.version(version_id)[1])

    def get(self, path: str) -> Entry:
        return self.read(lambda snapshot: snapshot.get(path))

    def memories(self, under: str = ROOT) -> list[Memory]:
        return self.read(lambda snapshot: [memory for memory, _ in snapshot.list(under)])

    def tree(self) -> dict[str, bytes | None]:
        return self.read(lambda found: {memory.path: data for memory, data in found.list(ROOT, texts=True)})

    def versions(self, **selection: Unpack[Selection]) -> list[Version]:
        return self.read(lambda snapshot: list(snapshot.versions(**selection)))

    def usage(self) -> Usage:
        return self.read(lambda snapshot: snapshot.state.usage)

    def revision(self) -> int:
        return self.read(lambda snapshot: snapshot.state.revision)

    def state(self) -> tuple[object, ...]:
        return self.tree(), self.versions(), self.read(lambda snapshot: snapshot.state)


class SuiteOpening:
    """Fixtures that open the backend and close it after the test."""

    lasting = True
    """True if memories are kept when the backend is closed. False for a backend in memory."""

    seals = True
    """True if the backend stores seals for an encryption layer above it. False if it is an encryption layer itself."""

    timeout_s = 300.0
    """A test that runs longer fails, with the line where it waits. 0 means no limit. Windows has no limit."""

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        """Open your backend in the directory `place` and return it. Your subclass must define this method."""
        raise NotImplementedError("define open_backend in your test class, and open your backend there")

    def opened(self, place: Path, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> Backend:
        """Open the backend in a directory and return it. It is closed after the test."""
        backend = self.open_backend(place, clock=clock, new_id=new_id)
        self._closing.callback(backend.close)
        return backend

    def reopened(self, backend: Backend, place: Path) -> Backend:
        """Close the backend, open its directory again, and return the new backend."""
        if not self.lasting:
            return backend
        backend.close()
        return self.opened(place)

    @pytest.fixture(autouse=True)
    def _limited(self) -> Iterator[None]:
        """End a test that waits for ever: a lock that is never released is a likely fault of a new backend."""
        if self.timeout_s <= 0 or not hasattr(signal, "setitimer"):
            yield
            return

        def fail(_number: int, _frame: FrameType | None) -> None:
            pytest.fail(f"the test ran longer than {self.timeout_s:g} s (`timeout_s` of the suite)")

        handler = signal.signal(signal.SIGALRM, fail)
        before, _ = signal.setitimer(signal.ITIMER_REAL, self.timeout_s)  # pytest-timeout may have set one
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, before)
            signal.signal(signal.SIGALRM, handler)

    @pytest.fixture(autouse=True)
    def _close_all(self, _limited: None) -> Iterator[None]:
        with ExitStack() as self._closing:
            yield

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        """Fixture: a new backend."""
        return self.opened(tmp_path)

    @pytest.fixture
    def store(self, backend: Backend) -> Opened:
        """Fixture: a new memory store in the backend."""
        return Opened(backend)
