"""Events for MCP clients about changes of memory stores, including changes by other processes.

A memory store is polled while it has listeners, and all events come from polling. A process that makes a change does
not send events for it directly, because these events would reach only the clients of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import INTERNAL_ERROR

from retentive.errors import RetentiveError
from retentive.history.log import Feed, feed, previous_paths
from retentive.mcp.resources import uri_of
from retentive.mounts import StoreOrMounts, shown_path, stores_of
from retentive.remote import is_remote
from retentive.storage.contract import Version
from retentive.store import MemoryStore, core_of
from retentive.values.patterns import covers

if TYPE_CHECKING:
    from mcp.shared.subscriptions import ServerEvent

    from retentive.storage.contract import Snapshot

RunWork: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Function that runs another function in a worker thread, and returns its result."""
POLL_S, POLL_SERVER_S = 0.2, 2.0
BATCH = 500
MAX_LISTENERS = 1_000


class TreeChanges:
    """Events about the memory stores of a tree, which `name` names in URIs."""

    def __init__(self, tree: StoreOrMounts, name: str, changes_of: Callable[[MemoryStore], StoreChanges]) -> None:
        self._tree, self._name = tree, name
        stores = stores_of(tree)
        self._scopes = {point: () if is_remote(store) else core_of(store).scope for point, store in stores.items()}
        self._changes = {point: changes_of(store) for point, store in stores.items()}

    async def begin(self) -> None:
        """Remember the newest changes; only later ones become events. Await this method right before `subscribe`."""
        for each in self._changes.values():
            await each.begin()

    def subscribe(
        self, listener: Callable[[ServerEvent], None], may_continue: Callable[[], bool]
    ) -> Callable[[], None]:
        """Call `listener` for each new event, as long as `may_continue` returns True.

        There are no events about paths that the caller may not see. Returns a function that ends the subscription.
        """
        heard = dict.fromkeys(self._changes, False)

        def hear(point: str, path: str) -> None:
            scope, is_list = self._scopes[point], not path
            if scope and not (heard[point] if is_list else covers(scope, path)):
                return
            heard[point] = not is_list
            if is_list:
                listener(ResourcesListChanged())
            elif shown := shown_path(self._tree, point, path):
                listener(ResourceUpdated(uri_of(self._name, shown)))

        with ExitStack() as ends:
            for point, each in self._changes.items():
                ends.callback(each.subscribe(partial(hear, point), may_continue))
            return ends.pop_all().close


class StoreChanges:
    """Polls one memory store for changes, and passes them to several listeners on one event loop."""

    def __init__(self, store: MemoryStore, run: RunWork) -> None:
        self._store = store
        self._run = run
        self._listeners: dict[object, tuple[Callable[[str], None], Callable[[], bool]]] = {}
        self._position: str | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Remember the newest change; only later changes become events. Await this method right before `subscribe`."""
        if self._position is None:
            self._position = await self._run(self._store.history.newest)

    def subscribe(self, listener: Callable[[str], None], may_continue: Callable[[], bool]) -> Callable[[], None]:
        """Call `listener` with the path of each change, and with "" after all of them, as `TreeChanges` does."""
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
                paths, position = await self._run(self._read)
                allowed = await self._run(self._allowed) if paths else frozenset()
                self._position = position  # only now, so that a failure leaves the changes to the next poll
            except RetentiveError:
                paths, allowed = [], frozenset()
            for path in paths:
                for token, (listener, _) in list(self._listeners.items()):
                    if token in allowed:
                        listener(path)
            if len(paths) < BATCH:
                await asyncio.sleep(POLL_SERVER_S if is_remote(self._store) else POLL_S)

    def _allowed(self) -> frozenset[object]:
        return frozenset(token for token, (_, may_continue) in list(self._listeners.items()) if may_continue())

    def _read(self) -> tuple[list[str], str]:
        """Return the paths of the changes since the last call, and the position after them.

        Each path is there once, also the earlier paths of a memory. The last one is "", for the list of memories, which
        shows sizes and times.
        """
        position = self._position or ""
        if self._store.history.newest() == position:
            return [], position
        found, moved_from = _changes(self._store, position)
        if not found.items:  # the change at the position was removed, and no change is newer
            return [], found.next
        paths = dict.fromkeys([*(each.path for each in _versions(found)), *moved_from])
        return [*filter(None, paths), ""], found.next


def _changes(store: MemoryStore, position: str) -> tuple[Feed, Iterable[str]]:
    """Return the changes after a position, and the earlier paths of moved memories, which a server does not tell.

    Several callers share the events, so neither the paths that the first of them may see nor its audit log count.
    """

    def work(snapshot: Snapshot) -> tuple[Feed, Iterable[str]]:
        found = feed(position, BATCH).work(snapshot)
        return found, previous_paths(snapshot, _versions(found)).values()

    if is_remote(store):
        return store.history.feed(position, limit=BATCH), ()
    return core_of(store).read(work)


def _versions(found: Feed) -> list[Version]:
    return [each for each in found.items if isinstance(each, Version)]
