"""The smallest backend: memory stores in dictionaries. docs/writing-a-backend.md explains it."""

# ruff: noqa: D102 - the contract in base.py says what the methods do

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from commonplace.backends.base import (
    Actor,
    Backend,
    Change,
    Clock,
    Look,
    Memory,
    NewId,
    Snapshot,
    StoreInfo,
    Transaction,
    Usage,
    Version,
    now_us,
    sortable_id,
    to_datetime,
)
from commonplace.errors import NotFound, Unavailable

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """All of one memory store at one revision. Never changed: a write makes a new one."""

    revision: int = 0
    last_us: int = 0
    seal: str | None = None  # of a layer that encrypts
    settings: str | None = None
    memories: dict[str, Memory] = field(default_factory=dict)  # by path
    versions: tuple[Version, ...] = ()  # oldest first
    texts: dict[str, bytes | None] = field(default_factory=dict)  # by version


class DictSnapshot(Snapshot):
    """Looks at one state."""

    def __init__(self, state: State) -> None:
        self.state = state

    @property
    def revision(self) -> int:
        return self.state.revision

    @property
    def seal(self) -> str | None:
        return self.state.seal

    @property
    def settings(self) -> str | None:
        return self.state.settings

    def look(self, path: str) -> Look:
        memory = self.state.memories.get(path)
        if memory is not None:
            return Look(memory, self.state.texts[memory.version_id])
        above = next((one for one in self.state.memories if path.startswith(one + "/")), None)
        return Look(above=above, below=any(self.walk(path)))

    def walk(self, under: str) -> Iterator[Memory]:
        paths = sorted(path for path in self.state.memories if path.startswith(under + "/"))
        return iter([self.state.memories[path] for path in paths])

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(memory.path, memory.size_bytes) for memory in self.walk(under)])

    def find(self, memory_id: str) -> Memory | None:
        return next((memory for memory in self.state.memories.values() if memory.id == memory_id), None)

    def versions(
        self, *, memory_id: str | None = None, path: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        found = [
            version
            for version in reversed(self.state.versions)
            if memory_id in {None, version.memory_id} and path in {None, version.path}
        ]
        return iter(found[:limit])

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        found = next((version for version in self.state.versions if version.id == version_id), None)
        if found is None:
            raise NotFound(f"there is no version {version_id}")
        return found, self.state.texts[version_id]

    def usage(self) -> Usage:
        memories = self.state.memories.values()
        return Usage(len(memories), sum(memory.size_bytes for memory in memories))


class DictTransaction(DictSnapshot, Transaction):
    """Works on a copy, which becomes the state when the work is done."""

    def __init__(self, state: State, clock: Clock, new_id: NewId) -> None:
        super().__init__(replace(state, memories=dict(state.memories), texts=dict(state.texts)))
        self._revision_before = state.revision
        self._clock = clock
        self._new_id = new_id

    def record(self, changes: Sequence[Change], actor: Actor | None) -> None:
        for change in changes:
            self.state = replace(self.state, revision=self._revision_before + 1)
            self._record(change, actor)

    def reseal(self, seal: str | None) -> None:
        self.state = replace(self.state, seal=seal)

    def set_settings(self, settings: str | None) -> None:
        self.state = replace(self.state, settings=settings)

    def _record(self, change: Change, actor: Actor | None) -> None:
        before, state = change.before, self.state
        time_us = max(now_us(self._clock), state.last_us + 1)  # times and ids in a store only grow
        at, version_id = to_datetime(time_us), self._new_id("memver_", time_us)
        memory_id = before.id if before is not None else self._new_id("mem_", time_us)
        kept = change.kept(memory_id, version_id)
        data, size, sha256 = kept.data, change.size_bytes, kept.sha256
        if before is not None:
            del state.memories[before.path]
            if size is None and change.path is not None:  # the bytes stay
                data, size, sha256 = state.texts[before.version_id], before.size_bytes, before.sha256
        if change.path is not None and size is not None and sha256 is not None:
            made = before.created_at if before is not None else at
            memory = Memory(memory_id, change.path, size, sha256, version_id, made, at, kept.seal)
            state.memories[change.path] = memory
        path = change.path if change.path is not None else before.path if before is not None else ""
        version = Version(
            version_id, memory_id, change.operation, path, size, sha256, actor, at, state.revision, kept.seal
        )
        state.texts[version_id] = data
        self.state = replace(state, last_us=time_us, versions=(*state.versions, version))


class DictBackend(Backend):
    """Memory stores of this process. One lock for all writes; readers need none, as a state never changes."""

    def __init__(self, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self._clock = clock
        self._new_id = new_id
        self._writing = threading.Lock()
        self._stores: dict[str, tuple[StoreInfo, State]] = {}
        self._closed = False

    def create_store(self, *, key: str | None, name: str, seal: str | None = None) -> StoreInfo:
        with self._writing:
            found = None if key is None else self.get_store(key)
            if found is not None and found.key == key:
                return found
            at = now_us(self._clock)
            info = StoreInfo(self._new_id("memstore_", at), key, name, to_datetime(at), 0, 0, seal)
            self._stores[info.id] = info, State(seal=seal)
            return info

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        stores = self.list_stores()
        by_id = next((info for info in stores if info.id == id_or_key), None)
        return by_id or next((info for info in stores if info.key == id_or_key), None)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        self._check_open()
        stores = sorted(self._stores.values(), key=lambda store: store[0].id)
        return [_counted(info, state) for info, state in stores if after is None or info.id > after][:limit]

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        return work(DictSnapshot(self._store(store_id)[1]))

    def write(self, store_id: str, work: Callable[[Transaction], T], *, frees: bool = False) -> T:
        with self._writing:
            info, state = self._store(store_id)
            transaction = DictTransaction(state, self._clock, self._new_id)
            result = work(transaction)  # what it raises leaves the old state in its place
            self._stores[store_id] = info, transaction.state
            return result

    def close(self) -> None:
        self._closed = True

    def _store(self, store_id: str) -> tuple[StoreInfo, State]:
        self._check_open()
        if store_id not in self._stores:
            raise NotFound(f"there is no memory store {store_id}")
        return self._stores[store_id]

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the backend is closed")


def _counted(info: StoreInfo, state: State) -> StoreInfo:
    usage = DictSnapshot(state).usage()
    return replace(info, memories=usage.memories, size_bytes=usage.size_bytes, seal=state.seal)
