"""The door for people who write their own loop: from a tool_use block to a tool_result, in any client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from retentive.errors import InvalidInput
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor
from retentive.values.paths import visible
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from anthropic.types import MemoryTool20250818Param

TOOL: Final[MemoryTool20250818Param] = {"type": "memory_20250818", "name": "memory"}
"""The entry for the `tools` list of a request."""


def tool_result(store: MemoryTree, block: object, *, actor: Actor | str | None = None) -> dict[str, Any]:
    """The tool_result block that answers a tool_use block, a dict or an object of an SDK.

    What the model got wrong is said in the result. A block that comes again, since a program crashed before it had the
    result, changes nothing again and gets the same result. Raises `InvalidInput` if `block` has no id to answer to.
    """
    name, block_id, given = (_part(block, part) for part in ("name", "id", "input"))
    if not isinstance(block_id, str):
        raise InvalidInput("not a tool_use block: it has no id")
    if name == TOOL["name"]:
        reply = store.execute(given, actor=actor, tool_use_id=block_id)
    else:
        shown = f"'{visible(name[:3_001])}'" if isinstance(name, str) else "nothing"
        reply = store.replies.error("not_this_tool", {"value": shown})
    return render(block_id, reply)


def render(tool_use_id: str, reply: Reply) -> dict[str, Any]:
    """A reply as a tool_result block; `is_error` stands in it only if true."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": reply.text}
    return result | {"is_error": True} if reply.is_error else result


def _part(block: object, name: str) -> object:
    return block.get(name) if isinstance(block, Mapping) else getattr(block, name, None)
