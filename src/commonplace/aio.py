"""The one bridge from async callers: a whole command runs in a worker thread."""

from __future__ import annotations

from anyio import to_thread

from commonplace.backends.base import Actor
from commonplace.replies import Reply
from commonplace.store import MemoryStore


async def execute(store: MemoryStore, command: object, *, actor: Actor | str | None = None) -> Reply:
    """As `MemoryStore.execute`. A command that began runs to its end, also when its caller is cancelled."""
    return await to_thread.run_sync(lambda: store.execute(command, actor=actor))


async def clear(store: MemoryStore, *, actor: Actor | str | None = None) -> Reply:
    """As `MemoryStore.clear`."""
    return await to_thread.run_sync(lambda: store.clear(actor=actor))
