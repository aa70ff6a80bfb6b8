"""Async versions of `MemoryStore`, `Mounts` and `Retentive`.

An async method has the name and arguments of the sync method. It runs the sync method in a worker thread. After a
method has started, it completes even if its caller is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from retentive import opening
from retentive.mounts import MemoryTree, Mounts
from retentive.opening import Retentive
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor
from retentive.store import MemoryStore

P = ParamSpec("P")
T = TypeVar("T")
SyncT = TypeVar("SyncT", bound="MemoryStore | Mounts | Retentive")
TreeT = TypeVar("TreeT", bound="MemoryStore | Mounts")
Twin: TypeAlias = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


_THREADS = 40  # as many as anyio has for the application
_limiter: RunVar[CapacityLimiter] = RunVar("retentive_threads")


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """Call a function in a worker thread and return its result.

    The number of threads has a limit of its own. So calls that wait for a lock do not hold up other work of the
    application in anyio's threads.
    """
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(_THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, *args, limiter=limiter)


def _twin(method: Callable[Concatenate[Any, P], T]) -> Twin[P, T]:
    """Return the async version of a method. It calls the method on `self.sync` without blocking the event loop."""

    @wraps(method)
    async def run(self: _Async[Any], /, *args: P.args, **options: P.kwargs) -> T:
        return cast("T", await in_thread(partial(getattr(self.sync, method.__name__), *args, **options)))

    return run


class _Async(Generic[SyncT]):
    """Base class of the async classes. `sync` is the wrapped sync object."""

    def __init__(self, sync: SyncT) -> None:
        self.sync = sync

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.sync!r}>"

    async def call(self, work: Callable[[SyncT], T]) -> T:
        """Call `work` with the sync object in a worker thread, and return the result of `work`.

        Use `call` for `by_id`, `history`, `review`, `trust` and `audit`, which have no async versions. For example:
        `await store.call(lambda store: store.history.log())`.
        """
        return await in_thread(work, self.sync)


class _AsyncTree(_Async[TreeT]):
    """Methods that `AsyncMemoryStore` and `AsyncMounts` share."""

    def through(self, integration: str) -> Self:
        """Return an object for the same memories. Audit entries of its operations name this integration."""
        return type(self)(self.sync.through(integration))  # type: ignore[arg-type]  # the same class

    def directory(self) -> str | None:
        """Return the directory that contains the memories as plain files. None if the backend does not use files."""
        return self.sync.directory()

    execute = _twin(MemoryTree.execute)
    create = _twin(MemoryTree.create)
    write = _twin(MemoryTree.write)
    append = _twin(MemoryTree.append)
    edit = _twin(MemoryTree.edit)
    insert = _twin(MemoryTree.insert)
    delete = _twin(MemoryTree.delete)
    rename = _twin(MemoryTree.rename)
    view = _twin(MemoryTree.view)
    read = _twin(MemoryTree.read)
    load = _twin(MemoryTree.load)


class AsyncMemoryStore(_AsyncTree[MemoryStore]):
    """Async version of `MemoryStore`. After a method has started, it completes even if its caller is cancelled."""

    @property
    def id(self) -> str:
        """Id of the store. It starts with `memstore_`."""
        return self.sync.id

    @property
    def key(self) -> str | None:
        """Store key: the name under which the application opens the store. None if the store has no key."""
        return self.sync.key

    @property
    def name(self) -> str:
        """Display name of the store."""
        return self.sync.name

    @property
    def actor(self) -> Actor | None:
        """Actor recorded with a change if the call does not name another actor."""
        return self.sync.actor

    def read_only(self) -> AsyncMemoryStore:
        """Return an object for the same memory store. The object refuses all changes."""
        return AsyncMemoryStore(self.sync.read_only())

    def acting_as(self, actor: Actor | str) -> AsyncMemoryStore:
        """Return an object for the same memory store, which records this actor unless a call names another one."""
        return AsyncMemoryStore(self.sync.acting_as(actor))

    clear = _twin(MemoryStore.clear)
    memories = _twin(MemoryStore.memories)
    list_memories = _twin(MemoryStore.list_memories)
    versions = _twin(MemoryStore.versions)
    version_text = _twin(MemoryStore.version_text)
    promote = _twin(MemoryStore.promote)
    undo = _twin(MemoryStore.undo)
    undo_by = _twin(MemoryStore.undo_by)
    search = _twin(MemoryStore.search)
    recall = _twin(MemoryStore.recall)
    batch = _twin(MemoryStore.batch)
    citations = _twin(MemoryStore.citations)
    cite = _twin(MemoryStore.cite)
    verify = _twin(MemoryStore.verify)
    usage = _twin(MemoryStore.usage)
    settings = _twin(MemoryStore.settings)
    change_settings = _twin(MemoryStore.change_settings)
    sweep = _twin(MemoryStore.sweep)
    scan = _twin(MemoryStore.scan)


class AsyncMounts(_AsyncTree[Mounts]):
    """Async version of `Mounts`. To create it, pass a `Mounts` object: `AsyncMounts(Mounts({...}))`."""

    def store_of(self, path: str) -> tuple[AsyncMemoryStore, str]:
        """Return the store that contains a path of the tree, and the path within that store. Raises `InvalidPath`."""
        store, inner = self.sync.store_of(path)
        return AsyncMemoryStore(store), inner

    clear = _twin(Mounts.clear)
    memories = _twin(Mounts.memories)
    search = _twin(Mounts.search)
    recall = _twin(Mounts.recall)


class AsyncRetentive(_Async[Retentive]):
    """Async version of `Retentive`: an open location with its memory stores. `open_async` returns it."""

    async def store(
        self, id_or_key: str | None = None, *, name: str | None = None, workspace: str = DEFAULT_WORKSPACE
    ) -> AsyncMemoryStore:
        """Open a memory store by id or key. See `Retentive.store`."""
        return AsyncMemoryStore(await in_thread(partial(self.sync.store, id_or_key, name=name, workspace=workspace)))

    def through(self, integration: str) -> AsyncRetentive:
        """Return an object for the same location. Audit entries of changes to its stores name this integration."""
        return AsyncRetentive(self.sync.through(integration))

    stores = _twin(Retentive.stores)
    create_store = _twin(Retentive.create_store)
    get_store = _twin(Retentive.get_store)
    list_stores = _twin(Retentive.list_stores)
    update_store = _twin(Retentive.update_store)
    archive_store = _twin(Retentive.archive_store)
    erase = _twin(Retentive.erase)

    async def close(self) -> None:
        """Close the files and connections of the location."""
        await in_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _opener(function: Callable[P, Retentive]) -> Callable[P, AbstractAsyncContextManager[AsyncRetentive]]:
    @asynccontextmanager
    @wraps(function)
    async def opened(*args: P.args, **options: P.kwargs) -> AsyncIterator[AsyncRetentive]:
        async with AsyncRetentive(await in_thread(partial(function, *args, **options))) as found:
            yield found

    return opened


open_async = _opener(opening.open)
"""Async version of `retentive.open`: `async with retentive.open_async("./memory") as opened:`."""
