"""Async access to memories: each command runs in a worker thread."""

from __future__ import annotations

from anyio import to_thread

from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor
from retentive.values.replies import Reply


async def execute(tree: MemoryTree, command: object, *, actor: Actor | str | None = None) -> Reply:
    """Async version of `MemoryStore.execute`. A command that has started completes even if its caller is cancelled."""
    return await to_thread.run_sync(lambda: tree.execute(command, actor=actor))


async def clear(tree: MemoryTree, *, actor: Actor | str | None = None) -> Reply:
    """Async version of `MemoryStore.clear`."""
    return await to_thread.run_sync(lambda: tree.clear(actor=actor))
