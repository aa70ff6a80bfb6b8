"""retentive: durable, versioned, shared memory for Claude's memory tool (`memory_20250818`)."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers treat it as True; importing `typing` would double the import time of this package
if TYPE_CHECKING:
    from retentive import errors
    from retentive.aio import AsyncMemoryStore, AsyncMounts, AsyncRetentive, open_async
    from retentive.errors import AlreadyExists, Conflict, InvalidInput, NotFound, RetentiveError
    from retentive.integrations.anthropic import AsyncMemorySearchTool, AsyncMemoryTool, MemorySearchTool, MemoryTool
    from retentive.integrations.messages import TOOL, tool_result
    from retentive.mounts import Mounts
    from retentive.opening import Retentive, open  # noqa: A004 - `retentive.open` is the name a reader expects
    from retentive.storage.contract import Actor, Memory, StoreInfo, Usage, Version
    from retentive.store import MemoryStore
    from retentive.values.records import Written
    from retentive.values.replies import Reply

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

_HOMES = {
    "aio": ("AsyncMemoryStore", "AsyncMounts", "AsyncRetentive", "open_async"),
    "errors": ("AlreadyExists", "Conflict", "InvalidInput", "NotFound", "RetentiveError"),
    "integrations.anthropic": ("AsyncMemorySearchTool", "AsyncMemoryTool", "MemorySearchTool", "MemoryTool"),
    "integrations.messages": ("TOOL", "tool_result"),
    "mounts": ("Mounts",),
    "opening": ("Retentive", "open"),
    "storage.contract": ("Actor", "Memory", "StoreInfo", "Usage", "Version"),
    "store": ("MemoryStore",),
    "values.records": ("Written",),
    "values.replies": ("Reply",),
}
_LAZY = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
"""Module that defines each public name. `__getattr__` imports this module when the name is first used."""


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import and return a public name when it is first used."""
        if name == "errors":
            return import_module(f"{__name__}.errors")
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return found


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
