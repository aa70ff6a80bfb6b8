"""retentive: durable, versioned, shared memory for Claude's memory tool (`memory_20250818`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from retentive import errors
from retentive.errors import AlreadyExists, Conflict, InvalidInput, NotFound, RetentiveError
from retentive.integrations.messages import TOOL, tool_result
from retentive.mounts import Mounts
from retentive.opening import Retentive, open  # noqa: A004 - `retentive.open` is the name a reader expects
from retentive.storage.contract import Actor, Memory, StoreInfo, Usage, Version
from retentive.store import MemoryStore
from retentive.values.records import Written
from retentive.values.replies import Replies, Reply

if TYPE_CHECKING:
    from retentive.aio import AsyncMemoryStore, AsyncMounts, AsyncRetentive, open_async
    from retentive.integrations.anthropic import AsyncMemorySearchTool, AsyncMemoryTool, MemorySearchTool, MemoryTool

__version__ = "0.1.0"

__all__ = [
    "TOOL",
    "Actor",
    "AlreadyExists",
    "AsyncMemorySearchTool",
    "AsyncMemoryStore",
    "AsyncMemoryTool",
    "AsyncMounts",
    "AsyncRetentive",
    "Conflict",
    "InvalidInput",
    "Memory",
    "MemorySearchTool",
    "MemoryStore",
    "MemoryTool",
    "Mounts",
    "NotFound",
    "Replies",
    "Reply",
    "Retentive",
    "RetentiveError",
    "StoreInfo",
    "Usage",
    "Version",
    "Written",
    "errors",
    "open",
    "open_async",
    "tool_result",
]

_LAZY = {
    **dict.fromkeys(("AsyncMemoryStore", "AsyncMounts", "AsyncRetentive", "open_async"), "retentive.aio"),
    **dict.fromkeys(
        ("AsyncMemorySearchTool", "AsyncMemoryTool", "MemorySearchTool", "MemoryTool"),
        "retentive.integrations.anthropic",
    ),
}
"""Names imported at first use: the Anthropic SDK takes a second to import, and most programs need no event loop."""


def __getattr__(name: str) -> Any:
    """Import a lazy name."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
