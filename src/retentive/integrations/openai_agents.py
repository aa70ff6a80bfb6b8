"""Tools and sessions for the OpenAI Agents SDK: `memory_tool`, `search_tool` and `MemorySession`."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from retentive import aio
from retentive.values.extras import pip_install

try:
    from agents import FunctionTool, SessionSettings
    from agents.tool_context import ToolContext
except ImportError as error:
    raise ImportError(f"this module needs the OpenAI Agents SDK: {pip_install('openai-agents')}") from error

from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.integrations.calls import ActorOfCall, MemoryOfCall, NameOfCall, SearchOfCall, ToolCalls
from retentive.integrations.documents import (
    acting,
    json_object,
    json_text,
    memories_below,
    segment,
    settled,
    until_no_conflict,
)
from retentive.integrations.memory import ActorLike, MemoryLocation, open_memory
from retentive.integrations.schemas import (
    MEMORY,
    MEMORY_DESCRIPTION,
    MEMORY_SCHEMA,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_SCHEMA,
)
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from agents import TResponseInputItem

_PART = re.compile(r"[0-9]{12}\.jsonl")
_PART_BYTES = 65_536  # less than the default size limit of a memory, so that only a single large item can exceed it


def memory_tool(
    memory: MemoryOfCall,
    *,
    store: str | None = None,
    actor: ActorOfCall = None,
    source: NameOfCall = None,
    session: NameOfCall = None,
) -> FunctionTool:
    """Create the memory tool, for `Agent(tools=[...])`. Each call runs in a worker thread. Raises `InvalidInput`.

    `memory` is a `MemoryStore`, `Mounts`, or a location (a directory, a URL or an opened location). For a location,
    `store` selects a memory store by its key or id. `actor`, `source` and `session` are recorded with each change.

    For an agent that serves several users, pass functions as `memory`, `actor`, `source` and `session`. Each function
    takes the `ToolContext` and returns the value for that run.

    The model gets error replies as text.
    """
    calls = ToolCalls("openai_agents", memory, store, actor=actor, source=source, session=session)

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await calls.reply_async(context, arguments, context.tool_call_id)).text

    return FunctionTool(MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA, invoke, strict_json_schema=False)


def search_tool(memory: SearchOfCall, *, store: str | None = None, actor: ActorOfCall = None) -> FunctionTool:
    """Create the tool `memory_search`. `memory`, `store` and `actor` are as in `memory_tool`. Raises `InvalidInput`."""
    calls = ToolCalls("openai_agents", memory, store, actor=actor, method="search")

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await calls.found(context, arguments)).text

    return FunctionTool(SEARCH, SEARCH_DESCRIPTION, SEARCH_SCHEMA, invoke, strict_json_schema=False)


class MemorySession:
    """Conversation history (`Session`) in a memory store. Threads and processes may share a session.

    Items are stored as JSON lines in `/memories/sessions/SESSION_ID/N.jsonl`. Items that are added together are one
    change. Use a separate store, so that models do not see sessions among their memories. An id that is too long for a
    file name, and items that are not JSON objects, raise `InvalidInput`.
    """

    def __init__(
        self,
        session_id: str,
        memory: MemoryLocation | MemoryStore,
        *,
        store: str | None = None,
        actor: ActorLike = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._directory = f"{ROOT}/sessions/{segment('a session id', session_id)}"
        self._store = acting(open_memory(memory, store, method="batch")[0], "openai_agents", actor)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first.

        If a limit is given here or in the session settings, only the newest items are returned.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await aio.in_thread(self._items)
        return items if limit is None or limit < 0 else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add all items or, after an error, none."""
        given: object = items
        if not isinstance(given, list | tuple) or not all(isinstance(item, dict) for item in given):
            raise InvalidInput("the items of a session must be a list of JSON objects, such as {'role': ..., ...}")
        parts = _parts([json_text(item, indent=None) for item in items])
        if parts:
            await settled(lambda: until_no_conflict(lambda: self._add(parts)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it."""
        return await settled(lambda: until_no_conflict(self._pop))

    async def clear_session(self) -> None:
        """Remove all items. Their texts remain in the history until they are pruned or redacted."""
        await settled(self._clear)

    def _items(self) -> list[TResponseInputItem]:
        texts = ((each.path, text) for each, text in memories_below(self._store, self._directory))
        return [_item(path, line) for path, text in texts if self._is_part(path) for line in _lines(text)]

    def _is_part(self, path: str) -> bool:
        return _PART.fullmatch(path.removeprefix(self._directory + "/")) is not None

    def _newest(self) -> str | None:
        return max(
            (each.path for each in self._store.memories(self._directory) if self._is_part(each.path)), default=None
        )

    def _add(self, parts: list[str]) -> None:
        newest = self._newest()
        start = 1 if newest is None else int(newest.rpartition("/")[2].partition(".")[0]) + 1
        paths = (f"{self._directory}/{n:012}.jsonl" for n in count(start))
        new = ({"command": "write", "path": path, "if_version": ""} for path in paths)
        self._store.batch([{**each, "file_text": text} for text, each in zip(parts, new, strict=False)])

    def _pop(self) -> TResponseInputItem | None:
        path = self._newest()
        if path is None:
            return None
        try:
            memory, text = self._store.load(path)
        except NotFound:
            raise Conflict("another writer has removed the newest items") from None
        *rest, last = _lines(text)
        if rest:
            self._store.write(path, "".join(f"{line}\n" for line in rest), if_version=memory.version_id)
        else:
            self._store.delete(path, if_version=memory.version_id)
        return _item(path, last)

    def _clear(self) -> None:
        try:
            self._store.delete(self._directory)
        except NotFound:
            return


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")  # not `splitlines`: JSON texts may have other line separators


def _item(path: str, line: str) -> TResponseInputItem:
    return cast("TResponseInputItem", json_object(path, line))


def _parts(lines: list[str]) -> list[str]:
    """Join the lines into texts of at most `_PART_BYTES`. A longer line stays whole. Each text becomes a memory."""
    parts: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode("utf-8", "surrogatepass")) + 1
        if not parts or size + length > _PART_BYTES:
            parts.append("")
            size = 0
        parts[-1] += f"{line}\n"
        size += length
    return parts
