"""retentive: durable, versioned, shared memory for Claude's memory tool (`memory_20250818`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.integrations.messages import TOOL, tool_result
from retentive.mounts import Mounts
from retentive.opening import Retentive, open  # noqa: A004 - `retentive.open` is the name a reader expects
from retentive.storage.contract import Actor, Memory, StoreInfo, Usage, Version
from retentive.store import MemoryStore
from retentive.values.replies import Replies, Reply

if TYPE_CHECKING:
    from retentive.integrations.anthropic import AsyncMemorySearchTool, AsyncMemoryTool, MemorySearchTool, MemoryTool

__version__ = "0.1.0"

__all__ = [
    "TOOL",
    "Actor",
    "AsyncMemorySearchTool",
    "AsyncMemoryTool",
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
    "open",
    "tool_result",
]


def __getattr__(name: str) -> Any:
    """Import the classes that need the Anthropic SDK at first use, since the SDK takes a second to import."""
    if name in {"AsyncMemorySearchTool", "AsyncMemoryTool", "MemorySearchTool", "MemoryTool"}:
        from retentive.integrations import anthropic  # noqa: PLC0415 - see above

        return getattr(anthropic, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
