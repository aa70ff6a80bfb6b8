"""The smallest backend: memory stores in dictionaries. docs/writing-a-backend.md explains it."""

# ruff: noqa: D102 - the contract in base.py says what the methods do

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from retentive.errors import NotFound, Unavailable
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Backend,
    Change,
    Clock,
    Entry,
    Memory,
    Metadata,
    NewId,
    Recorded,
    Snapshot,
    StoreInfo,
    Transaction,
    Usage,
    Version,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.values.records import to_us

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
    notes: dict[tuple[str, str], str] = field(default_factory=dict)  # by kind and key


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

    def get(self, path: str) -> Entry:
        memory = self.state.memories.get(path)
        if memory is not None:
            return Entry(memory, self.state.texts[memory.version_id])
        above = next((one for one in self.state.memories if path.startswith(one + "/")), None)
        return Entry(above=above, below=any(self.memories(path)))

    def memories(self, under: str) -> Iterator[Memory]:
        paths = sorted(path for path in self.state.memories if path.startswith(under + "/"))
        return iter([self.state.memories[path] for path in paths])

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(memory.path, memory.size_bytes) for memory in self.memories(under)])

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return iter([(memory, self.state.texts[memory.version_id] or b"") for memory in self.memories(under)])

    def find(self, memory_id: str) -> Memory | None:
        return next((memory for memory in self.state.memories.values() if memory.id == memory_id), None)

    def versions(
        self,
        *,
        memory_id: str | None = None,
        path: str | None = None,
        revision_of: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Version]:
        same = {version.revision for version in self.state.versions if version.id == revision_of}
        found = [
            version
            for version in reversed(self.state.versions)
            if memory_id in {None, version.memory_id}
            and (revision_of is None or version.revision in same)
            and path in {None, version.path}
            and version.id > (after or "")
            and (before is None or version.id < before)
        ]
        return iter(found[:limit])

    def as_of(self, before: str) -> Iterator[Version]:
        newest = {version.memory_id: version for version in self.state.versions if version.id < before}
        return iter([version for version in newest.values() if version.operation != "deleted"])

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        found = next((version for version in self.state.versions if version.id == version_id), None)
        if found is None:
            raise NotFound(f"there is no version {version_id}")
        return found, self.state.texts[version_id]

    def usage(self) -> Usage:
        memories = self.state.memories.values()
        return Usage(len(memories), sum(memory.size_bytes for memory in memories))

    def get_record(self, kind: str, key: str) -> str | None:
        return self.state.notes.get((kind, key))

    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        return iter(sorted((key, value) for (one, key), value in self.state.notes.items() if one == kind))


class DictTransaction(DictSnapshot, Transaction):
    """Works on a copy, which becomes the state when the work is done."""

    def __init__(self, state: State, clock: Clock, new_id: NewId) -> None:
        memories, texts, notes = dict(state.memories), dict(state.texts), dict(state.notes)
        super().__init__(replace(state, memories=memories, texts=texts, notes=notes))
        self._next_revision = state.revision + 1
        self._clock = clock
        self._new_id = new_id

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        return [self._record(change, actor) for change in changes]

    def _record(self, change: Change, actor: Actor | None) -> Recorded:
        if change.origin is not None and change.origin.redacted_at is not None:  # nothing but the version
            return self._add(change.origin, None)
        state, before = self.state, change.before
        version = self._version(change, actor)
        kept = change.kept(version.memory_id, version.id)
        version = replace(version, seal=kept.seal)
        if before is not None:
            del state.memories[before.path]
        if change.path is None:
            return self._add(version, None)
        data, size, sha256 = kept.data, change.size_bytes, kept.sha256
        if before is not None and size is None:  # the bytes stay
            data, size, sha256 = state.texts[before.version_id], before.size_bytes, before.sha256
        version = replace(version, size_bytes=size, sha256=sha256)
        born = before.created_at if before is not None else version.created_at
        state.memories[change.path] = Memory(
            version.memory_id,
            change.path,
            size or 0,
            sha256 or "",
            version.id,
            born if change.again is None else change.again.created_at,
            version.created_at,
            kept.seal,
        )
        return self._add(version, data)

    def _version(self, change: Change, actor: Actor | None) -> Version:
        """The version a change makes, without its size, hash and seal."""
        if change.origin is not None:
            return replace(change.origin, size_bytes=None, sha256=None)
        path = change.path or (change.before.path if change.before is not None else "")
        time_us = max(now_us(self._clock), self.state.last_us + 1)  # times and ids in a store only grow
        known = change.before or change.again
        return Version(
            self._new_id("memver_", time_us),
            known.id if known is not None else self._new_id("mem_", time_us),
            change.operation,
            path,
            None,
            None,
            actor,
            to_datetime(time_us),
            self._next_revision,
        )

    def _add(self, version: Version, data: bytes | None) -> Recorded:
        self.state.texts[version.id] = data
        self.state = replace(
            self.state,
            last_us=to_us(version.created_at),
            revision=max(self._next_revision, self.state.revision, version.revision),
            versions=(*self.state.versions, version),
        )
        return Recorded(version.memory_id, version.id)

    def drop(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            del self.state.memories[memory.path]

    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        if settings is not UNCHANGED:
            self.state = replace(self.state, settings=settings)
        if seal is not UNCHANGED:
            self.state = replace(self.state, seal=seal)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.state.notes.pop((kind, key), None)
        if value is not None:
            self.state.notes[kind, key] = value

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        now = to_datetime(now_us(self._clock))
        chosen = self._past(version_ids)
        self.state.texts.update(dict.fromkeys(chosen))
        self._replace_versions(
            version
            if version.id not in chosen or version.redacted_at is not None
            else replace(version, path="", size_bytes=None, sha256=None, seal=None, redacted_at=now, redacted_by=actor)
            for version in self.state.versions
        )

    def prune(self, version_ids: Sequence[str]) -> None:
        chosen = self._past(version_ids)
        self._replace_versions(version for version in self.state.versions if version.id not in chosen)
        for version_id in chosen:
            del self.state.texts[version_id]

    def _past(self, version_ids: Sequence[str]) -> set[str]:
        """Those of the versions that are there and are not what a memory is now."""
        present = {memory.version_id for memory in self.state.memories.values()}
        return set(version_ids) & self.state.texts.keys() - present

    def _replace_versions(self, versions: Iterable[Version]) -> None:
        self.state = replace(self.state, revision=self._next_revision, versions=tuple(versions))


class DictBackend(Backend):
    """Memory stores of this process. One lock for all writes; readers need none, as a state never changes."""

    def __init__(self, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self._clock = clock
        self._new_id = new_id
        self._writing = threading.Lock()
        self._stores: dict[str, tuple[StoreInfo, State]] = {}
        self._jottings: dict[tuple[str, str], dict[str, str]] = {}  # by store and kind
        self._closed = False

    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
    ) -> StoreInfo:
        with self._writing:
            for taken in (key, store_id):
                found = None if taken is None else self.get_store(taken)
                if found is not None:
                    return found
            at = now_us(self._clock)
            new_id = store_id or self._new_id("memstore_", at)
            info = StoreInfo(new_id, key, name, created_at or to_datetime(at), 0, 0, seal)
            self._stores[info.id] = info, State(seal=seal)
            return info

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        self._check_open()
        if id_or_key in self._stores:
            return _counted(*self._stores[id_or_key])
        return next((info for info in self.list_stores() if info.key == id_or_key), None)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        self._check_open()
        stores = sorted(self._stores.values(), key=lambda store: store[0].id)
        there = [_counted(info, state) for info, state in stores if info.erased_at is None]
        return [info for info in there if info.id > (after or "")][:limit]

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        with self._writing:
            info, _ = self._stores[store_id]
            if info.erased_at is None:
                erased = replace(info, key=None, name="", seal=None, erased_at=to_datetime(now_us(self._clock)))
                self._stores[store_id] = erased, State()
                self._jottings = {place: kept for place, kept in self._jottings.items() if place[0] != store_id}

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        return work(DictSnapshot(self._store(store_id)[1]))

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        with self._writing:
            info, state = self._store(store_id)
            transaction = DictTransaction(state, self._clock, self._new_id)
            result = work(transaction)  # what it raises leaves the old state in its place
            self._stores[store_id] = info, transaction.state
            return result

    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        with self._writing:
            self._store(store_id)
            kept = {**self._jottings.get((store_id, kind), {}), **values}
            self._jottings[store_id, kind] = {key: value for key, value in kept.items() if value is not None}

    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        self._store(store_id)
        kept = self._jottings.get((store_id, kind), {})
        return iter(sorted((key, value) for key, value in kept.items() if key > after))

    def close(self) -> None:
        self._closed = True

    def _store(self, store_id: str) -> tuple[StoreInfo, State]:
        self._check_open()
        if store_id not in self._stores or self._stores[store_id][0].erased_at is not None:
            raise NotFound(f"there is no memory store {store_id}")
        return self._stores[store_id]

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the backend is closed")


def _counted(info: StoreInfo, state: State) -> StoreInfo:
    usage = DictSnapshot(state).usage()
    return replace(info, memories=usage.memories, size_bytes=usage.size_bytes, seal=state.seal)
