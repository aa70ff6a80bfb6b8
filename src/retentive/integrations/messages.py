"""Memory tool for your own agent loop, with any client: it turns a tool_use block into a tool_result block."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

from retentive.errors import InvalidInput, Refused
from retentive.integrations.memory import open_memory
from retentive.mounts import MemoryTree
from retentive.opening import Retentive
from retentive.storage.contract import Actor
from retentive.store import core_of
from retentive.values.paths import visible
from retentive.values.provenance import Origin
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from anthropic.types import MemoryTool20250818Param

    from retentive.aio import AsyncMemoryStore, AsyncMounts, AsyncRetentive

TOOL: Final[MemoryTool20250818Param] = {"type": "memory_20250818", "name": "memory"}
"""Entry for the `tools` list of a request."""


def tool_result(
    memory: Retentive | MemoryTree | AsyncRetentive | AsyncMemoryStore | AsyncMounts,
    block: object,
    *,
    store: str | None = None,
    actor: Actor | str | None = None,
    run: str | None = None,
    **origin: Unpack[Origin],
) -> dict[str, Any]:
    """Run the command of a tool_use block (a dict or an SDK object) and return the tool_result block.

    If the same block is run again, for example after a crash, a change is made only once and has the same result. This
    holds for the ids of the Claude API. Other models may use an id again: their ids count only within the `run` that
    you name, such as the id of a conversation and the number of its turn, and only while the change still stands.
    Invalid input from the model gets a result with `is_error`.

    `memory` is a `MemoryStore`, `Mounts`, or an opened location. For a location, `store` selects a memory store by its
    key or id. `source` and `session` are recorded with each change. Raises `InvalidInput` if `block` has no id.
    """
    if isinstance(memory, str | os.PathLike):
        raise InvalidInput(
            "`memory` must be an opened location; open the location once with `retentive.open`, and pass the result"
        )
    tree = open_memory(memory, store)[0].through("messages")
    return run_block(tree, block, actor=actor, run=run, **origin)


class Author(Origin, total=False):
    """Options of `tool_result`: who makes a change, and the run in which the id of the call is unique."""

    actor: Actor | str | None
    run: str | None


def run_block(store: MemoryTree, block: object, **author: Unpack[Author]) -> dict[str, Any]:
    """Run a tool_use block as `tool_result` does. `store` must be the result of `through`."""
    return render(str(attribute(block, "id")), reply_to(store, block, **author))


def reply_to(store: MemoryTree, block: object, **author: Unpack[Author]) -> Reply:
    """Run a tool_use block, and return the reply. `store` must be the result of `through`."""
    block_id, name, core = attribute(block, "id"), attribute(block, "name"), core_of(store)
    if not isinstance(block_id, str):
        core.reject(InvalidInput("`block` must be a tool_use block with an id"), author.get("actor"))
    if name == TOOL["name"]:
        return store.execute(attribute(block, "input"), tool_use_id=block_id, **author)
    shown = f"'{visible(name[:3_001])}'" if isinstance(name, str) else "nothing"
    return core.refused(None, Refused("not_this_tool", value=shown), actor=author.get("actor"))


def render(tool_use_id: str, reply: Reply) -> dict[str, Any]:
    """Format a reply as a tool_result block. The field `is_error` is present only if it is true."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": reply.text}
    return result | {"is_error": True} if reply.is_error else result


def attribute(value: object, name: str) -> Any:
    """Return a field of an SDK object or a dict, or None if it is missing."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
