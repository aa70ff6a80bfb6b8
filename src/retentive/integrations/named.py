"""The name of an integration in the audit log."""

from __future__ import annotations

from typing import TypeVar, cast

from retentive.mounts import Mounts
from retentive.store import MemoryStore

M = TypeVar("M")


def named(memory: M, integration: str) -> M:
    """The memory, whose audit log names the integration. A memory of the application's own is returned as it is."""
    return cast("M", memory.through(integration)) if isinstance(memory, MemoryStore | Mounts) else memory
