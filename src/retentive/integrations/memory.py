"""The argument `memory` of integrations: a location, an opened location, a memory store or mounts, sync or async."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from retentive import opening
from retentive.errors import InvalidInput
from retentive.mounts import MemoryTree, Mounts
from retentive.opening import Retentive
from retentive.storage.contract import Actor
from retentive.store import MemoryStore

if TYPE_CHECKING:  # anyio is imported late
    from retentive.aio import AsyncMemoryStore, AsyncMounts, AsyncRetentive

MemoryLocation: TypeAlias = "str | os.PathLike[str] | Retentive | AsyncRetentive | AsyncMemoryStore | AsyncMounts"
"""A location as for `retentive.open`, an opened location, an async memory store, or async mounts."""
ActorLike: TypeAlias = Actor | str | None
_NO_SETTINGS: Mapping[str, Any] = {}


def open_memory(
    memory: object, store: str | None = None, *, settings: Mapping[str, Any] = _NO_SETTINGS, **options: Any
) -> tuple[Any, Callable[[], None]]:
    """Open `memory` if it is a location. `settings` and `options` are those of `retentive.open`; None is left out.

    Returns a memory store or mounts, and a function that closes the location if this call opened it. Raises storage
    errors, and `InvalidInput` for an option that would have no effect.
    """
    memory = unwrapped(memory)
    if store is not None and not isinstance(store, str):
        raise InvalidInput(f"`store` must be the key or id of a memory store, not {type(store).__name__}")
    given = {**settings, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(memory, str | os.PathLike):
        opened = opening.open(memory, **given)
        try:
            return opened.store(store), opened.close
        except BaseException:
            opened.close()
            raise
    if not isinstance(memory, Retentive | MemoryTree):
        raise InvalidInput(
            "`memory` must be a location (a directory, sqlite:///...), an opened location, a MemoryStore, or Mounts"
        )
    for name in given:
        raise InvalidInput(
            f"`{name}` has no effect on a memory that is open; pass it to `retentive.open`"
            if name != "read_only"
            else "`read_only` has no effect on a memory that is open; pass the result of `MemoryStore.read_only()`"
        )
    if isinstance(memory, Retentive):
        return memory.store(store), _close_nothing
    if store is not None:
        raise InvalidInput(
            "`store` has no effect on a memory store or mounts, because it selects a memory store in a location; pass "
            f"a location instead, for example MemoryTool('./memory', store={store!r})"
        )
    return memory, _close_nothing


def open_store(
    memory: MemoryLocation | MemoryStore, store: str | None, integration: str, actor: ActorLike
) -> MemoryStore:
    """Return the memory store in which an integration keeps documents. Its changes are by `actor`, if one is given."""
    found, _ = open_memory(memory, store)
    if not isinstance(found, MemoryStore):
        raise InvalidInput("`memory` must be a location, an opened location, or a MemoryStore")
    return acting(found, integration, actor)


def acting(store: MemoryStore, integration: str, actor: ActorLike) -> MemoryStore:
    """Return a view of the store. Its changes are by `actor` (if given), and its audit entries name `integration`."""
    found = store.through(integration)
    return found if actor is None else found.acting_as(actor)


def unwrapped(memory: Any) -> Any:
    """Return the sync object of an async memory store, mounts or location. Other objects are returned unchanged."""
    sync = getattr(memory, "sync", None)
    return sync if isinstance(sync, MemoryStore | Mounts | Retentive) else memory


def _close_nothing() -> None:
    pass
