"""Events for MCP clients about changes of a memory store, including changes by other processes.

A memory store is polled while it has listeners, and all events come from polling. A process that makes a change does
not send events for it directly, because these events would reach only the clients of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import INTERNAL_ERROR

from retentive.errors import RetentiveError
from retentive.history.versions import previous_paths
from retentive.mcp.uris import uri_of
from retentive.remote import remote_store
from retentive.store import MemoryStore, core_of

if TYPE_CHECKING:
    from mcp.shared.subscriptions import ServerEvent

    from retentive.storage.contract import Snapshot, Version

T = TypeVar("T")
POLL_S, POLL_SERVER_S = 0.2, 2.0
BATCH = 500
MAX_LISTENERS = 1_000


class RunWork(Protocol):
    """Function that runs another function in a worker thread."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return the result of `work`."""


@dataclass(frozen=True, slots=True)
class ChangedMemories:
    """Change of one memory.

    `moved_from` is the previous path if the change renamed the memory. `lists_differ` is True if the change created,
    deleted or renamed the memory, so that the list of memories is different.
    """

    path: str
    moved_from: str | None
    lists_differ: bool


class StoreChanges:
    """Polls one memory store for changes, and passes them to several listeners on one event loop."""

    def __init__(self, store: MemoryStore, name: str, run: RunWork) -> None:
        self._store = store
        self._name = name
        self._run = run
        self._listeners: dict[object, tuple[Callable[[ServerEvent], None], Callable[[], bool]]] = {}
        self._position: str | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Remember the newest change; only later changes become events. Await this method right before `subscribe`."""
        if self._position is None:
            self._position, _ = await self._run(lambda: _changes(self._store, None))

    def subscribe(
        self, listener: Callable[[ServerEvent], None], may_continue: Callable[[], bool]
    ) -> Callable[[], None]:
        """Call `listener` for each new event, as long as `may_continue` returns True.

        Returns a function that ends the subscription.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise MCPError(INTERNAL_ERROR, "Too many subscriptions")
        token = object()
        self._listeners[token] = listener, may_continue
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())

        def unsubscribe() -> None:
            self._listeners.pop(token, None)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = self._position = None

        return unsubscribe

    async def _poll(self) -> None:
        while True:
            try:
                position, found = await self._run(lambda: _changes(self._store, self._position))
                allowed = await self._run(self._allowed) if found else frozenset()
                self._position = position  # only now, so that a failure leaves the changes to the next poll
            except RetentiveError:
                found, allowed = [], frozenset()
            for event in _events(found, self._name):
                for token, (listener, _) in list(self._listeners.items()):
                    if token in allowed:
                        listener(event)
            if len(found) < BATCH:
                await asyncio.sleep(POLL_S if remote_store(self._store) is None else POLL_SERVER_S)

    def _allowed(self) -> frozenset[object]:
        return frozenset(token for token, (_, may_continue) in list(self._listeners.items()) if may_continue())


def _events(found: list[ChangedMemories], name: str) -> list[ServerEvent]:
    """Return an event for each changed path, and one more if memories were created, deleted or renamed."""
    paths = dict.fromkeys(path for each in found for path in (each.path, each.moved_from) if path)
    events: list[ServerEvent] = [ResourceUpdated(uri_of(name, path)) for path in paths]
    return [*events, ResourcesListChanged()] if any(each.lists_differ for each in found) else events


def _changes(store: MemoryStore, position: str | None) -> tuple[str, list[ChangedMemories]]:
    """Return the id to pass as the next `position`, and the changes after the version id `position`.

    If `position` is None, return the id of the newest version and no changes.
    """
    if remote_store(store) is not None:
        return _changes_of_server(store, position)

    def read(snapshot: Snapshot) -> tuple[str, list[ChangedMemories]]:
        newest = next(snapshot.versions(limit=1), None)
        if position is None or newest is None or newest.id == position:
            return "" if newest is None else newest.id, []
        versions = list(snapshot.versions(after=position, oldest_first=True, limit=BATCH))
        if not versions:  # the version at the position was erased, and no version is newer
            return newest.id, []
        before = previous_paths(snapshot, versions)
        return versions[-1].id, [_changed(each, before.get(each.id)) for each in versions]

    return core_of(store).read(read)


def _changes_of_server(store: MemoryStore, position: str | None) -> tuple[str, list[ChangedMemories]]:
    listed = store.versions(limit=1)
    newest = listed[0].id if listed else ""
    if position is None or newest == position:
        return newest, []
    versions = _newer_on_server(store, position)
    if not versions:  # as in `_changes`
        return newest, []
    return versions[0].id, [_changed(each, _moved_on_server(store, each)) for each in reversed(versions)]


def _newer_on_server(store: MemoryStore, position: str) -> list[Version]:
    """Return the versions after `position`, newest first. The server's list always starts at the newest version."""
    limit = BATCH
    while True:
        listed = store.versions(limit=limit)
        newer = [each for each in listed if each.id > position]
        if len(newer) < len(listed) or len(listed) < limit:
            return newer
        limit *= 2


def _moved_on_server(store: MemoryStore, version: Version) -> str | None:
    if version.operation != "modified":
        return None
    earlier = (each for each in store.versions(memory_id=version.memory_id, limit=BATCH) if each.id < version.id)
    before = next(earlier, None)
    return None if before is None or before.path == version.path else before.path


def _changed(version: Version, moved_from: str | None) -> ChangedMemories:
    return ChangedMemories(version.path, moved_from, version.operation != "modified" or moved_from is not None)
