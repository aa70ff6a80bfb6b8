"""A complete storage backend in dictionaries. docs/platforms.md explains it part by part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retentive.errors import NotFound, Unavailable
from retentive.storage.contract import Actor, Backend, Snapshot, State, StoreInfo, T, Transaction, verified
from retentive.values import records
from retentive.values.changes import Change, Created, Deleted, Imported, Moved, Updated, kept
from retentive.values.records import DEFAULT_WORKSPACE, Entry, Memory, Recorded, Usage, Version


@dataclass
class DictStore(Transaction):
    """One memory store at one revision. Once other threads can see it, it does not change."""

    info: StoreInfo
    clock: records.Clock
    new_id: records.NewId
    settings: str | None = None
    revision: int = 0
    last_us: int = 0  # time of the newest version
    history: dict[str, tuple[Version, bytes | None]] = field(default_factory=dict)  # by id, oldest first
    kept: dict[tuple[str, str], str] = field(default_factory=dict)  # records by kind and key
    next_revision: int = 1

    @property
    def state(self) -> State:
        sizes = [memory.size_bytes for memory, _ in self.list("")]
        return State(self.revision, self.settings, self.info.seal, self.info.properties, Usage(len(sizes), sum(sizes)))

    def get(self, path: str) -> Entry:
        every = {memory.path: memory for memory, _ in self.list("")}
        if memory := every.get(path):
            return Entry(memory, self.version(memory.version_id)[1])
        above = next((other for other in every if path.startswith(f"{other}/")), None)
        return Entry(above=above, below=any(self.list(path)))

    def find(self, memory_id: str) -> Memory | None:
        return next((memory for memory, _ in self.list("") if memory.id == memory_id), None)

    def list(self, under: str, *, texts: bool = False, **chosen: Any) -> Iterator[tuple[Memory, bytes | None]]:
        for version in self.list_at("~", under, **chosen):
            at = records.to_datetime(records.time_in_id(version.memory_id) or 0)
            yield Memory.of(version, at), self.version(version.id)[1] if texts else None

    def list_at(self, before: str, under: str, *, start: str = "", **chosen: Any) -> Iterator[Version]:
        newest = {version.memory_id: version for version, _ in self.history.values() if version.id < before}
        found: dict[str, Version] = {}
        for path, version in sorted((one.path, one) for one in newest.values() if one.operation != "deleted"):
            if path.startswith(f"{under}/") and path >= start:
                found.setdefault(path[len(under) + 1 :].partition("/")[0] if chosen.get("one_level") else path, version)
        return iter([*found.values()][: chosen.get("limit")])

    def versions(self, *, after: str | None = None, before: str | None = None, **more: Any) -> Iterator[Version]:
        memory_id, path, change = more.get("memory_id"), more.get("path"), more.get("revision_of")
        revisions = {one.revision for one, _ in self.history.values() if change in {None, one.id}}
        found = [one for one, _ in self.history.values() if (after or "") < one.id < (before or "~")]
        found = [one for one in found if memory_id in {None, one.memory_id} and one.revision in revisions]
        found = [one for one in found if path in {None, one.path} or (path[-1:] == "/" and one.path.startswith(path))]
        return iter(found[:: 1 if more.get("oldest_first") else -1][: more.get("limit")])

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        if version_id not in self.history:
            raise NotFound(f"there is no version {version_id}")
        version, data = self.history[version_id]
        return version, data if data is None else verified(data, version.sha256, version.seal, version.id)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        return iter(sorted((key, text) for (of, key), text in self.kept.items() if of == kind and key > after)[:limit])

    def get_record(self, kind: str, key: str) -> str | None:
        return self.kept.get((kind, key))

    def record(self, changes: Sequence[Change], actor: Actor | None) -> Any:
        return [self._record(change, actor) for change in changes]

    def _new_version(self, change: Created | Updated | Moved | Deleted, actor: Actor | None) -> Version:
        time_us = max(records.now_us(self.clock), self.last_us + 1)  # times and ids of a store only grow
        known = change.again if isinstance(change, Created) else change.before
        path = change.before.path if isinstance(change, Deleted) else change.path
        memory_id = known.id if known else self.new_id("mem_", time_us)
        version_id, at = self.new_id("memver_", time_us), records.to_datetime(time_us)
        return Version(version_id, memory_id, change.operation, path, None, None, actor, at, self.next_revision)

    def _record(self, change: Change, actor: Actor | None) -> Recorded:
        version = change.version if isinstance(change, Imported) else self._new_version(change, actor)
        new, before = kept(change, version.memory_id, version.id), change.before
        data, size, sha256 = new.data, new.size_bytes, new.sha256
        if before is not None and change.path is not None and data is None:  # a rename keeps the bytes
            data, size, sha256 = self.version(before.version_id)[1], before.size_bytes, before.sha256
        version = replace(version, size_bytes=size, sha256=sha256, seal=new.seal, provenance_text=new.provenance)
        self.revision, self.last_us = version.revision, records.to_us(version.created_at)
        self.history[version.id] = version, data
        return Recorded(version.memory_id, version.id)

    def set_metadata(self, **metadata: Any) -> None:
        self.settings = metadata.pop("settings", self.settings)
        self.info = replace(self.info, **metadata)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.kept = {at: text for at, text in {**self.kept, (kind, key): value}.items() if text is not None}

    def redact(self, version_ids: Iterable[str], actor: Actor | None) -> None:
        at = records.to_datetime(records.now_us(self.clock))
        for old in [one for one in self._removable(version_ids) if one.redacted_at is None]:
            gone = replace(old, path="", size_bytes=None, sha256=None, seal=None, provenance_text=None)
            self.history[old.id] = replace(gone, redacted_at=at, redacted_by=actor), None

    def prune(self, version_ids: Iterable[str]) -> None:
        for old in sorted(self._removable(version_ids), key=lambda one: one.operation == "deleted"):
            if old.operation != "deleted" or len([*self.versions(memory_id=old.memory_id)]) == 1:
                del self.history[old.id]

    def _removable(self, version_ids: Iterable[str]) -> Iterable[Version]:
        needed = {memory.version_id for memory, _ in self.list("")}
        return [self.history[one][0] for one in version_ids if one in self.history and one not in needed]


class DictBackend(Backend):
    """Memory stores of this process. Writers take a lock; readers need none, since published stores are fixed."""

    def __init__(self, *, clock: records.Clock = time.time, new_id: records.NewId = records.sortable_id) -> None:
        self._clock, self._new_id, self._lock = clock, new_id, threading.Lock()
        self._stores: dict[str, DictStore] | None = {}  # by id; None once it is closed

    def create_store(self, *, key: str | None, name: str, workspace: str = DEFAULT_WORKSPACE, **new: Any) -> StoreInfo:
        with self._lock:
            if taken := self.get_store(key or "", workspace=workspace) or self.get_store(new.get("store_id") or ""):
                return taken
            now, seal, properties = records.now_us(self._clock), new.get("seal"), new.get("properties")
            store_id = new.get("store_id") or self._new_id("memstore_", now)
            at = new.get("created_at") or records.to_datetime(now)
            info = StoreInfo(store_id, key, name, at, 0, 0, seal, None, workspace, properties)
            return self._open().setdefault(store_id, DictStore(info, self._clock, self._new_id)).info

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        with_key = (info for info in self.list_stores(workspace=workspace) if info.key == id_or_key)
        return self._open()[id_or_key].info if id_or_key in self._open() else next(with_key, None)

    def list_stores(self, *, workspace: str | None = None, newest_first: bool = False, **page: Any) -> list[StoreInfo]:
        infos = [store.info for _, store in sorted(self._open().items()) if store.info.erased_at is None]
        infos = [one for one in infos if (page.get("after") or "") < one.id < (page.get("before") or "~")]
        infos = [one for one in infos if workspace in {None, one.workspace_id}][:: -1 if newest_first else 1]
        return infos[: page.get("limit")]

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        with self._lock:
            old, now = self._open()[store_id].info, records.to_datetime(records.now_us(self._clock))
            info = StoreInfo(store_id, None, "", old.created_at, 0, 0, None, old.erased_at or now)
            self._open()[store_id] = DictStore(info, self._clock, self._new_id)

    def read(self, store_id: str, work: Callable[[Snapshot], T], **_: Any) -> T:
        return work(self._store(store_id))

    def write(self, store_id: str, work: Callable[[Transaction], T], **_: Any) -> T:
        with self._lock:
            old = self._store(store_id)
            tx = replace(old, history=dict(old.history), kept=dict(old.kept), next_revision=old.revision + 1)
            result, usage = work(tx), tx.state.usage  # an exception leaves the old store in place
            tx.info = replace(tx.info, memories=usage.memories, size_bytes=usage.size_bytes)
            self._open()[store_id] = tx
            return result

    def close(self) -> None:
        self._stores = None

    def _open(self) -> dict[str, DictStore]:
        if self._stores is None:
            raise Unavailable("the backend is closed")
        return self._stores

    def _store(self, store_id: str) -> DictStore:
        if (store := self._open().get(store_id)) and store.info.erased_at is None:
            return store
        raise NotFound(f"there is no memory store {store_id}")
