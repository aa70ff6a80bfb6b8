"""The name of an integration in the audit log."""

from __future__ import annotations

from typing import TypeVar, cast

from retentive.mounts import Mounts
from retentive.store import MemoryStore

M = TypeVar("M")


def named(memory: M, integration: str) -> M:
    """Return the memory with the integration in its audit log. A memory of another class is returned unchanged."""
    return cast("M", memory.through(integration)) if isinstance(memory, MemoryStore | Mounts) else memory
