"""A complete storage backend in dictionaries. docs/writing-a-backend.md explains it part by part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from retentive.errors import NotFound, Unavailable
from retentive.storage import contract
from retentive.storage.contract import Backend, NewStore, Selection, Snapshot, StoreSelection, T, Transaction
from retentive.values import records
from retentive.values.records import Actor, Change, Clock, Entry, Memory, NewId, Recorded, StoreInfo, Usage, Version


@dataclass
class DictSnapshot(Snapshot):
    """One memory store at one revision. Once other threads can see it, it does not change."""

    info: StoreInfo
    revision: int = 0
    seal: str | None = None
    settings: str | None = None
    properties: str | None = None
    last_us: int = 0  # time of the newest version
    present: dict[str, Memory] = field(default_factory=dict)  # by path
    history: dict[str, tuple[Version, bytes | None]] = field(default_factory=dict)  # by version id, oldest first
    kept: dict[tuple[str, str], str] = field(default_factory=dict)  # records by kind and key

    def get(self, path: str) -> Entry:
        if path in self.present:
            return Entry(self.present[path], self.text(self.present[path].version_id))
        above = next((each for each in self.present if path.startswith(each + "/")), None)
        return Entry(above=above, below=any(self.memories(path)))

    def memories(self, under: str) -> Iterator[Memory]:
        return iter([memory for path, memory in sorted(self.present.items()) if path.startswith(under + "/")])

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        memory_id, path, change = selection.get("memory_id"), selection.get("path"), selection.get("revision_of")
        after, before = selection.get("after") or "", selection.get("before")
        found = [one for one, _ in reversed(self.history.values())]
        revisions = {one.revision for one in found if change in {None, one.id}}
        found = [one for one in found if one.revision in revisions and after < one.id < (before or "~")]
        found = [one for one in found if memory_id in {None, one.memory_id} and path in {None, one.path}]
        return iter((found[::-1] if selection.get("oldest_first") else found)[: selection.get("limit")])

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        if version_id not in self.history:
            raise NotFound(f"there is no version {version_id}")
        return contract.verify_version(*self.history[version_id])

    def usage(self) -> Usage:
        return Usage(len(self.present), sum(memory.size_bytes for memory in self.present.values()))

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        found = sorted((key, value) for (each, key), value in self.kept.items() if each == kind and key > after)
        return iter(found[:limit])


class DictTransaction(DictSnapshot, Transaction):
    """A copy of a snapshot that can be changed."""

    def __init__(self, old: DictSnapshot, clock: Clock, new_id: NewId) -> None:
        present, history, kept = dict(old.present), dict(old.history), dict(old.kept)
        texts = old.seal, old.settings, old.properties
        super().__init__(old.info, old.revision, *texts, old.last_us, present, history, kept)
        self._next_revision, self._clock, self._new_id = old.revision + 1, clock, new_id

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        return [self._record(change, change.origin or self._new_version(change, actor)) for change in changes]

    def _new_version(self, change: Change, actor: Actor | None) -> Version:
        time_us = max(records.now_us(self._clock), self.last_us + 1)  # times and ids of a store only grow
        known, path = change.before or change.again, change.path or (change.before.path if change.before else "")
        memory_id = known.id if known else self._new_id("mem_", time_us)
        version_id, at = self._new_id("memver_", time_us), records.to_datetime(time_us)
        return Version(version_id, memory_id, change.operation, path, None, None, actor, at, self._next_revision)

    def _record(self, change: Change, version: Version) -> Recorded:
        before, data = change.before, None
        if before is not None:
            del self.present[before.path]
        if version.redacted_at is None:  # of an imported history, which may be redacted, only the version is stored
            new = change.kept(version.memory_id, version.id)
            data, size, sha256 = new.data, change.size_bytes, new.sha256
            if before is not None and change.path is not None and size is None:  # a rename keeps the bytes
                data, size, sha256 = self.text(before.version_id), before.size_bytes, before.sha256
            version = replace(version, size_bytes=size, sha256=sha256, seal=new.seal, provenance_text=new.provenance)
        if change.path is not None:
            self.present[change.path] = Memory.of(version, (before or change.again or version).created_at)
        self.history[version.id] = version, data
        self.last_us = records.to_us(version.created_at)
        self.revision = max(self.revision, self._next_revision, version.revision)
        return Recorded(version.memory_id, version.id)

    def drop(self, memories: Sequence[Memory]) -> None:
        self.present = {path: memory for path, memory in self.present.items() if memory not in memories}

    def set_metadata(self, **texts: Unpack[contract.NewMetadata]) -> None:
        vars(self).update({name: text for name, text in texts.items() if text is not contract.UNCHANGED})

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.kept.pop((kind, key), None)
        if value is not None:
            self.kept[kind, key] = value

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        at = records.to_datetime(records.now_us(self._clock))
        for old in self._removable(version_ids):
            if old.redacted_at is None:
                new = replace(old, path="", size_bytes=None, sha256=None, seal=None, provenance_text=None)
                self.history[old.id] = replace(new, redacted_at=at, redacted_by=actor), None

    def prune(self, version_ids: Sequence[str]) -> None:
        for old in self._removable(version_ids):
            del self.history[old.id]

    def _removable(self, version_ids: Sequence[str]) -> list[Version]:
        """Those of the versions that are not the newest of a present memory."""
        self.revision = self._next_revision
        ids = set(version_ids) & self.history.keys() - {memory.version_id for memory in self.present.values()}
        return [self.history[version_id][0] for version_id in ids]


class DictBackend(Backend):
    """Memory stores of this process. Writers take a lock; readers need none, since published snapshots are fixed."""

    def __init__(self, *, clock: Clock = time.time, new_id: NewId = records.sortable_id) -> None:
        self._clock, self._new_id, self._lock, self._closed = clock, new_id, threading.Lock(), False
        self._all: dict[str, DictSnapshot] = {}  # by id
        self._beside: dict[tuple[str, str], dict[str, str]] = {}  # side records by store id and kind

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        key, seal, properties = new["key"], new.get("seal"), new.get("properties")
        given_id, workspace = new.get("store_id"), new.get("workspace", records.DEFAULT_WORKSPACE)
        with self._lock:
            if taken := self.get_store(key or "", workspace=workspace) or self.get_store(given_id or ""):
                return taken
            now = records.now_us(self._clock)
            new_id, at = given_id or self._new_id("memstore_", now), new.get("created_at") or records.to_datetime(now)
            info = StoreInfo(new_id, key, new["name"], at, 0, 0, seal, None, workspace, properties)
            self._all[new_id] = DictSnapshot(info, seal=seal, properties=properties)
            return info

    def get_store(self, id_or_key: str, *, workspace: str = records.DEFAULT_WORKSPACE) -> StoreInfo | None:
        with_key = (info for info in self.list_stores(workspace=workspace) if info.key == id_or_key)
        return self._all[id_or_key].info if id_or_key in self._all else next(with_key, None)

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        after, before, workspace = chosen.get("after") or "", chosen.get("before"), chosen.get("workspace")
        infos = [store.info for store in self._open().values() if store.info.erased_at is None]
        infos = [one for one in infos if after < one.id < (before or "~") and workspace in {None, one.workspace_id}]
        return sorted(infos, key=lambda one: one.id, reverse=chosen.get("newest_first", False))[: chosen.get("limit")]

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        with self._lock:
            info, now = self._all[store_id].info, records.to_datetime(records.now_us(self._clock))
            erased = StoreInfo(store_id, None, "", info.created_at, 0, 0, None, info.erased_at or now)
            self._all[store_id] = DictSnapshot(erased)
            self._beside = {place: kept for place, kept in self._beside.items() if place[0] != store_id}

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        return work(self._store(store_id))

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        with self._lock:
            tx = DictTransaction(self._store(store_id), self._clock, self._new_id)
            result, usage = work(tx), tx.usage()  # an exception leaves the old snapshot in place
            tx.info = replace(tx.info, seal=tx.seal, properties=tx.properties, memories=usage.memories)
            tx.info = replace(tx.info, size_bytes=usage.size_bytes)
            self._all[store_id] = tx
            return result

    def put_side_records(
        self, store_id: str, kind: str, values: Mapping[str, str | None], *, wait: bool = True
    ) -> None:
        with self._lock:
            kept = {**dict(self.side_records(store_id, kind)), **values}
            self._beside[store_id, kind] = {key: value for key, value in kept.items() if value is not None}

    def side_records(self, store_id: str, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[Any]:
        self._store(store_id)
        return iter([one for one in sorted(self._beside.get((store_id, kind), {}).items()) if one[0] > after][:limit])

    def close(self) -> None:
        self._closed = True

    def _store(self, store_id: str) -> DictSnapshot:
        store = self._open().get(store_id)
        if store is None or store.info.erased_at is not None:
            raise NotFound(f"there is no memory store {store_id}")
        return store

    def _open(self) -> dict[str, DictSnapshot]:
        if self._closed:
            raise Unavailable("the backend is closed")
        return self._all
