"""Opened location of memory stores. The function `opening.open` returns it."""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

from retentive.engine.access_times import Accesses
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.lists import EventType
from retentive.engine.operation import Plan, Write
from retentive.errors import InvalidInput, NotFound, RetentiveError, StorageReadOnly
from retentive.history.expiry import sweep_of_today
from retentive.history.packing import SOON, pack_memory
from retentive.history.removal import Removed, erase_store
from retentive.locations import existing_store, find_store
from retentive.storage import capabilities
from retentive.storage.contract import (
    DEFAULT_WORKSPACE,
    Actor,
    Backend,
    Recorded,
    Snapshot,
    StoreInfo,
    as_actor,
    now_us,
    plain_name,
    to_datetime,
)
from retentive.store.change_marks import ChangeMarks
from retentive.store.location_records import LocationRecords
from retentive.store.memory_store import MemoryStore, core_of
from retentive.values.listing import ListPage
from retentive.values.properties import Properties, listed, named, properties_of
from retentive.values.records import SYSTEM_STORE, to_us

_open: WeakKeyDictionary[Accesses, tuple[Backend, WeakSet[Upkeep]]] = WeakKeyDictionary()
"""Backends and upkeep of open locations. All memory stores of a location keep its access times, and so keep it open."""

DEFAULT_KEY = "default"
ID = re.compile(r"memstore_[0-9a-f]{32}")
_AT_ONCE = 100
_KEPT_US = 86_400_000_000  # a day
_LOOK_EVERY_S = 3_600.0
_MEMORIES = 10_000  # memories whose edits are counted
_PIECES_AT_CLOSE = 20  # more pieces of a sweep than a write does; later openings do the rest


class Upkeep:
    """Maintenance of one memory store of an open location, after writes and at close. Thread-safe.

    It packs a memory that was edited often. Unless `sweeps` is false, it also sweeps the store, at most once a day
    across all processes. It needs no thread and no schedule: each call does one small piece of the work. A failure is
    logged and not raised.
    """

    def __init__(self, core: StoreCore, *, sweeps: bool) -> None:
        self._core = core
        self._sweeps = sweeps
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._pieces: Iterator[None] | None = None
        self._edits = Counter[str]()  # of memories that were not packed since, by memory id

    def after_write(self, recorded: Sequence[Recorded]) -> None:
        """Do a piece of what is due after a write that recorded these changes."""
        for memory_id, _ in recorded:
            self._edits[memory_id] += 1
            if self._edits[memory_id] >= SOON:
                self._locked(partial(self._pack, memory_id))
        if len(self._edits) > _MEMORIES:
            self._edits.clear()  # sweeps pack the others
        self.go_on()

    def go_on(self, most: int = 1) -> None:
        """Do some pieces of a sweep. Once an hour, look whether the sweep of today is still to be done."""
        now, last = self._core.clock(), self._looked_at
        if self._sweeps and (self._pieces is not None or last is None or abs(now - last) >= _LOOK_EVERY_S):
            self._locked(partial(self._sweep, now, most))

    def _pack(self, memory_id: str) -> None:
        del self._edits[memory_id]
        pack_memory(self._core, memory_id)

    def _sweep(self, now: float, most: int) -> None:
        if self._pieces is None:
            self._looked_at = now
            self._pieces = sweep_of_today(self._core)
        if sum(1 for _ in islice(self._pieces, most)) < most:
            self._pieces = None

    def _locked(self, work: Callable[[], None]) -> None:
        if not self._lock.acquire(blocking=False):  # another thread does some, or this is a write of the sweep itself
            return
        try:
            work()
        except RetentiveError as error:
            self._pieces = None
            if not isinstance(error, StorageReadOnly):  # another process sweeps
                logging.getLogger("retentive").warning("the memory store was not swept: %s", error.code)
        finally:
            self._lock.release()


@atexit.register
def _close_all() -> None:
    for accesses, (backend, stores) in list(_open.items()):
        with suppress(RetentiveError):
            _close(accesses, backend, stores)


def _close(accesses: Accesses, backend: Backend, stores: Iterable[Upkeep]) -> None:
    for upkeep in list(stores):
        upkeep.go_on(_PIECES_AT_CLOSE)
    accesses.close()
    backend.close()


if hasattr(os, "register_at_fork"):  # a forked child leaves the locations of its parent alone
    os.register_at_fork(after_in_child=_open.clear)


def _change_properties(
    at: datetime,
    *,
    new_name: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, str | None] | None = None,
    archives: bool = False,
) -> Write[Properties]:
    """Change the name, description or metadata of a store, or archive it. See `Retentive.update_store`."""
    event: EventType = "store.archived" if archives else "store.updated"

    def work(view: Snapshot, guard: Guard) -> Plan[Properties]:
        guard.check_opened("properties")
        before = properties_of(view.state.properties)
        if archives:
            after = before if before.archived_at is not None else replace(before, archived_at=at)
        else:
            after = before.changed(name=new_name, description=description, metadata=metadata)
            after = before if after == before else replace(after, updated_at=at)
        if after is before:
            return Plan(after)
        return Plan(after, metadata={"properties": after.to_text()}, event=(event, ()))

    return Write("store.archive" if archives else "store.update", work, allowed_when_archived=archives)


class Retentive:
    """Opened location with its memory stores.

    Threads may share it. It can be used after a fork, unless the stores are in object storage.
    """

    def __init__(self, backend: Backend, *, sweep: bool = True, create: bool = True, **options: Any) -> None:
        self.backend = backend
        self._creates = create
        self._sweeps = sweep
        self._clock = options.get("clock", time.time)
        self._accesses = Accesses(backend, clock=self._clock)
        self.marks = ChangeMarks(LocationRecords(backend))
        self._options = {**options, "accesses": self._accesses, "before_write": self.marks.mark}
        self._upkeep: WeakSet[Upkeep] = WeakSet()  # of the stores that are still open
        _open[self._accesses] = backend, self._upkeep
        self._integration = "python"

    def __repr__(self) -> str:
        return f"<Retentive on {type(self.backend).__name__}>"

    def store(
        self, id_or_key: str | None = None, *, name: str | None = None, workspace: str = DEFAULT_WORKSPACE
    ) -> MemoryStore:
        """Open a memory store by its id, or by its key in a workspace.

        If no store has this key, the store is created, unless the location was opened with `create=False`. A store key
        has 1 to 255 characters, and no control characters. None means the key `default`. `name` is a display name for a
        new store.

        This method, later writes and `close` delete idle memories, prune old versions, as the settings of the store
        say, and compress superseded texts, at most once a day and a few at a time, unless the location was opened with
        `sweep=False`. The texts of a memory that is edited often are compressed earlier.

        Raises `InvalidInput` for an invalid store key, `NotFound` for an unknown id or an erased store, and `Locked`
        for an encrypted store whose encryption key is missing.
        """
        key = DEFAULT_KEY if id_or_key is None else id_or_key
        info = find_store(self.backend, key, workspace=workspace)
        if info is not None and info.erased_at is not None:
            raise NotFound(f"the memory store {key} was erased")
        if info is None:
            if ID.fullmatch(key) or not self._creates:
                raise NotFound(f"there is no memory store {key!r}")
            info = self.backend.create_store(key=key, name=plain_name("a store name", name or key), workspace=workspace)
            self.marks.mark(info)
        capabilities.unlock(self.backend, info)
        store = self._store_of(info)
        core = core_of(store)
        upkeep = Upkeep(core, sweeps=self._sweeps)
        core.after_write = upkeep.after_write
        self._upkeep.add(upkeep)
        upkeep.go_on()
        return store

    def _store_of(self, info: StoreInfo) -> MemoryStore:
        return MemoryStore(self.backend, info, **self._options)

    def through(self, integration: str) -> Retentive:
        """Return an object for the same location. Audit entries of changes by this object contain `integration`."""
        other = copy(self)
        other._integration = integration  # noqa: SLF001 - the same class
        return other

    @property
    def records(self) -> LocationRecords:
        """Records that belong to the location and to no memory store, such as the keys of an HTTP server."""
        return LocationRecords(self.backend)

    def stores(self) -> list[StoreInfo]:
        """Return all memory stores of all workspaces, oldest first. A damaged store says so in `StoreInfo.damage`."""
        return [listed(info) for info in self.backend.list_stores() if info.id != SYSTEM_STORE]

    def create_store(
        self,
        name: str,
        *,
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        key: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> StoreInfo:
        """Create a memory store. If the workspace has a store with this key, return that store unchanged.

        Names need not be unique. A store without a key can be opened only by its id. Raises `InvalidInput`.
        """
        new = Properties().changed(name=name, description=description, metadata=metadata)
        made = self.backend.create_store(
            key=None if key is None else plain_name("a store key", key),
            name=name,
            workspace=plain_name("a workspace id", workspace),
            properties=new.to_text(),
        )
        self.marks.mark(made)
        return named(made)

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo:
        """Return the store with this id, or this key in the workspace. Raises `NotFound`, also for an erased store."""
        return existing_store(self.backend, id_or_key, workspace=workspace)

    def list_stores(
        self,
        *,
        workspace: str | None = None,
        include_archived: bool = False,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> ListPage[StoreInfo, str]:
        """Return one page of the memory stores, newest first.

        `created_from` and `created_to` are inclusive. `after` is the `next` of the previous page. Raises
        `InvalidInput`, also for a time without a time zone.
        """
        if any(at is not None and at.tzinfo is None for at in (created_from, created_to)):
            raise InvalidInput("a time must have a time zone, as in 2026-01-02T03:04:05Z")
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        # An id begins with the time when it was made. A request over HTTP keeps its id for a day, and the store may be
        # created at any time of it.
        low = None if created_from is None else f"memstore_{max(to_us(created_from) - _KEPT_US, 0):014x}"
        high = None if created_to is None else f"memstore_{max(to_us(created_to) + 1, 0):014x}"
        before = min((each for each in (high, after) if each is not None), default=None)
        found, at_once = list[StoreInfo](), max(limit + 1, _AT_ONCE)
        while len(found) <= limit:
            stores = self.backend.list_stores(
                after=low, before=before, workspace=workspace, newest_first=True, limit=at_once
            )
            found += [
                info
                for info in map(listed, stores)
                if info.id != SYSTEM_STORE
                and (include_archived or info.archived_at is None)
                and (created_from is None or info.created_at >= created_from)
                and (created_to is None or info.created_at <= created_to)
            ]
            if len(stores) < at_once:
                break
            before = stores[-1].id
        return ListPage.of(found, limit, [info.id for info in found])

    def update_store(
        self,
        id_or_key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        actor: Actor | str | None = None,
    ) -> StoreInfo:
        """Change the name, description or metadata of a store.

        An argument that is None keeps the stored value. In `metadata`, the value None removes the stored entry with the
        same key.

        Raises `NotFound`, `Archived`, `ReadOnly` and `InvalidInput`.
        """
        return self._changed(id_or_key, workspace, actor, new_name=name, description=description, metadata=metadata)

    def archive_store(
        self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE, actor: Actor | str | None = None
    ) -> StoreInfo:
        """Archive a memory store. This cannot be reversed. Raises `NotFound`, `ReadOnly`.

        An archived store refuses changes, but it can be read, and its memories can be deleted, redacted and erased.
        Archiving it again changes nothing.
        """
        return self._changed(id_or_key, workspace, actor, archives=True)

    def _changed(self, id_or_key: str, workspace: str, actor: Actor | str | None, **changes: Any) -> StoreInfo:
        info = existing_store(self.backend, id_or_key, workspace=workspace)
        capabilities.unlock(self.backend, info)
        change = _change_properties(to_datetime(now_us(self._clock)), **changes)
        after = core_of(self._store_of(info).through(self._integration)).result_of(change, actor)
        return named(replace(info, properties=after.to_text()))

    def erase(self, id_or_key: str, *, actor: Actor | str | None = None) -> Removed:
        """Permanently remove a memory store with its memories, versions and records. Only the id of the store remains.

        Raises `ReadOnly` if the store is read-only, or if it has a memory that the actor is not allowed to change. This
        includes deleted memories. Raises `NotFound` if there is no such store, `InvalidInput` for an invalid store key,
        and `PermissionDenied` for an actor under review. Raises `Locked` if the settings of an encrypted store cannot
        be read because its key was not given. A store whose key was destroyed can be erased without a key.
        """
        info = existing_store(self.backend, id_or_key)
        if info.seal is None or not capabilities.is_destroyed(info):
            capabilities.unlock(self.backend, info)
            core_of(self._store_of(info)).result_of(erase_store(), actor)
        self.marks.mark(info, erases=True)
        self.backend.erase_store(info.id, as_actor(actor) or self._options.get("actor"))
        return Removed(0, pending=not self.backend.purge())

    def close(self) -> None:
        """Close files and connections. A location that is still open when the interpreter exits is closed then.

        A process that exits without this call writes the access times that are still pending. If it is killed, they
        are lost.
        """
        _open.pop(self._accesses, None)
        _close(self._accesses, self.backend, self._upkeep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
