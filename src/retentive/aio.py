"""Async access to memories: each command runs in a worker thread."""

from __future__ import annotations

from typing import Unpack

from anyio import to_thread

from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor
from retentive.values.provenance import Origin
from retentive.values.replies import Reply


async def execute(
    tree: MemoryTree, command: object, *, actor: Actor | str | None = None, **origin: Unpack[Origin]
) -> Reply:
    """Async version of `MemoryStore.execute`. A started command completes even if its caller is cancelled."""
    return await to_thread.run_sync(lambda: tree.execute(command, actor=actor, **origin))


async def clear(tree: MemoryTree, *, actor: Actor | str | None = None, **origin: Unpack[Origin]) -> Reply:
    """Async version of `MemoryStore.clear`."""
    return await to_thread.run_sync(lambda: tree.clear(actor=actor, **origin))
