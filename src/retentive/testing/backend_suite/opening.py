"""What the parts of the backend suite share: opening the backend, and saying in a word what to write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from retentive.storage.contract import Actor, Backend, Change, Clock, Entry, Memory, NewId, Usage, Version, sortable_id
from retentive.values.paths import ROOT

A, B, C = "/memories/a", "/memories/b", "/memories/d/c"


class Opened:
    """A backend with one memory store in it, and short ways to write and read."""

    def __init__(self, backend: Backend, key: str = "tested") -> None:
        self.backend = backend
        self.id = backend.create_store(key=key, name=key).id

    def create(self, files: Mapping[str, bytes], actor: Actor | None = None) -> None:
        """Create memories, all in one write."""
        changes = [Change(None, path, data) for path, data in files.items()]
        self.backend.write(self.id, lambda tx: tx.record(changes, actor))

    def put(self, path: str, data: bytes, actor: Actor | None = None) -> None:
        """Replace the text of a memory."""
        self.backend.write(self.id, lambda tx: tx.record([Change(tx.get(path).memory, path, data)], actor))

    def move(self, path: str, new: str, actor: Actor | None = None) -> None:
        """Rename a memory."""
        self.backend.write(self.id, lambda tx: tx.record([Change(tx.get(path).memory, new)], actor))

    def delete(self, *paths: str, actor: Actor | None = None) -> None:
        """Delete memories, all in one write."""
        self.backend.write(
            self.id,
            lambda tx: tx.record([Change(tx.get(path).memory, None) for path in paths], actor),
            may_use_reserve=True,
        )

    def memory(self, path: str) -> Memory:
        """The memory at a path."""
        found = self.backend.read(self.id, lambda snapshot: snapshot.get(path).memory)
        assert found is not None, f"there is no memory at {path}"
        return found

    def found(self, memory_id: str) -> Memory | None:
        """The present memory with an id."""
        return self.backend.read(self.id, lambda snapshot: snapshot.find(memory_id))

    def chosen(
        self, *, memory_id: str | None = None, path: str | None = None, limit: int | None = None
    ) -> list[Version]:
        """Some versions, newest first."""
        return self.backend.read(
            self.id, lambda snapshot: list(snapshot.versions(memory_id=memory_id, path=path, limit=limit))
        )

    def version_text(self, version_id: str) -> bytes | None:
        """The bytes a version left behind."""
        return self.backend.read(self.id, lambda snapshot: snapshot.text(version_id))

    def get(self, path: str) -> Entry:
        """What stands at a path."""
        return self.backend.read(self.id, lambda snapshot: snapshot.get(path))

    def memories(self, under: str) -> list[Memory]:
        """All memories below a path."""
        return self.backend.read(self.id, lambda snapshot: list(snapshot.memories(under)))

    def sizes(self, under: str) -> list[tuple[str, int]]:
        """Paths and sizes below a path."""
        return self.backend.read(self.id, lambda snapshot: list(snapshot.sizes(under)))

    def tree(self) -> dict[str, bytes | None]:
        """All memories with their bytes."""
        return self.backend.read(
            self.id, lambda found: {one.path: found.text(one.version_id) for one in found.memories(ROOT)}
        )

    def versions(self) -> list[Version]:
        """All versions, newest first."""
        return self.backend.read(self.id, lambda snapshot: list(snapshot.versions()))

    def usage(self) -> Usage:
        """What the store says it holds."""
        return self.backend.read(self.id, lambda snapshot: snapshot.usage())

    def revision(self) -> int:
        """How many writes the store has seen."""
        return self.backend.read(self.id, lambda snapshot: snapshot.revision)

    def state(self) -> tuple[object, ...]:
        """All there is to see of the store."""
        return self.tree(), self.versions(), self.usage(), self.revision(), self.seal()

    def seal(self) -> str | None:
        """What a layer that encrypts keeps with the store."""
        return self.backend.read(self.id, lambda snapshot: snapshot.seal)


class SuiteOpening:
    """How a test gets its backend."""

    lasting = True
    """Whether memories are there again when the same place is opened once more."""

    seals = True
    """Whether it keeps seals for a layer that encrypts; False for such a layer itself."""

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        """Your backend, opened in the directory `place`."""
        raise NotImplementedError("say how your backend is opened")

    def opened(self, place: Path, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> Backend:
        """The backend at a place; closed when the test ends."""
        backend = self.open_backend(place, clock=clock, new_id=new_id)
        self._closing.callback(backend.close)
        return backend

    @pytest.fixture(autouse=True)
    def _close_all(self) -> Iterator[None]:
        with ExitStack() as self._closing:
            yield

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        """A new backend."""
        return self.opened(tmp_path)

    @pytest.fixture
    def store(self, backend: Backend) -> Opened:
        """A new memory store in it."""
        return Opened(backend)
