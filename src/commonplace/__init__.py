"""commonplace: durable, versioned, shared memory for Claude's memory tool (`memory_20250818`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commonplace.backends.base import Actor, Memory, StoreInfo, Usage, Version
from commonplace.doors.messages import TOOL, tool_result
from commonplace.errors import CommonplaceError, InvalidInput, NotFound
from commonplace.mounts import Mounts
from commonplace.opening import Commonplace, open  # noqa: A004 - `commonplace.open` is the name a reader expects
from commonplace.replies import EN, FR, Replies, Reply
from commonplace.store import MemoryStore

if TYPE_CHECKING:
    from commonplace.doors.anthropic import AsyncMemoryTool, MemoryTool
    from commonplace.doors.anthropic_search import AsyncMemorySearchTool, MemorySearchTool

__version__ = "0.1.0"

__all__ = [
    "EN",
    "FR",
    "TOOL",
    "Actor",
    "AsyncMemorySearchTool",
    "AsyncMemoryTool",
    "Commonplace",
    "CommonplaceError",
    "InvalidInput",
    "Memory",
    "MemorySearchTool",
    "MemoryStore",
    "MemoryTool",
    "Mounts",
    "NotFound",
    "Replies",
    "Reply",
    "StoreInfo",
    "Usage",
    "Version",
    "open",
    "tool_result",
]


def __getattr__(name: str) -> Any:
    """The classes over the official SDK, imported when they are asked for: the SDK alone takes a second."""
    if name in {"AsyncMemoryTool", "MemoryTool"}:
        from commonplace.doors import anthropic  # noqa: PLC0415 - see above

        return getattr(anthropic, name)
    if name in {"AsyncMemorySearchTool", "MemorySearchTool"}:
        from commonplace.doors import anthropic_search  # noqa: PLC0415 - see above

        return getattr(anthropic_search, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
