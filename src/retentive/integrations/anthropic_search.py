"""Search tools for the `tool_runner` of the official SDK, sync and async. Importing this module imports the SDK."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyio import to_thread

from retentive.values.extras import pip_install

try:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError
except ImportError as error:
    raise ImportError(f"MemorySearchTool needs the SDK: {pip_install('anthropic')}") from error

from retentive import opening
from retentive.integrations.named import named
from retentive.integrations.search_tool import DESCRIPTION, INPUT_SCHEMA, NAME, search_reply
from retentive.mounts import Mounts
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES, Replies, Reply

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaToolParam


class _SearchBase:
    """Opening, closing and the tool definition, shared by the sync and the async tool."""

    tree: MemoryStore | Mounts
    _opened: opening.Retentive | None = None

    def __init__(
        self,
        location: str | os.PathLike[str] | MemoryStore | Mounts = opening.DEFAULT_LOCATION,
        *,
        store: str | None = None,
        replies: Replies = REPLIES,
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        self._cache_control = cache_control
        if isinstance(location, (MemoryStore, Mounts)):
            self.tree = location
        else:
            self._opened = opening.open(location, replies=replies, keys=keys)
            self.tree = self._opened.store(store)

    def to_dict(self) -> BetaToolParam:
        """Entry for the `tools` list of a request."""
        entry: BetaToolParam = {"name": NAME, "description": DESCRIPTION, "input_schema": INPUT_SCHEMA}
        if self._cache_control is not None:
            entry["cache_control"] = self._cache_control
        return entry

    def close(self) -> None:
        """Close the storage if this tool opened it. Without this call no data is lost."""
        if self._opened is not None:
            self._opened.close()


class MemorySearchTool(_SearchBase, BetaBuiltinFunctionTool):
    """Search tool for models: `tool_runner(tools=[MemoryTool(store), MemorySearchTool(store)])`. Thread-safe.

    `location` is an open `MemoryStore` or `Mounts`, usually the one of the memory tool. It can also be a location as
    for `retentive.open`, with `store` as the key or id. An invalid call raises the SDK's `ToolError`. A search
    without matches is an ordinary reply.
    """

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a search and return the text of the reply. Raises `ToolError` for an error reply."""
        return _text(search_reply(named(self.tree, "anthropic"), input))


class AsyncMemorySearchTool(_SearchBase, BetaAsyncBuiltinFunctionTool):
    """Async version of `MemorySearchTool`, for `AsyncAnthropic`. Searches run in a worker thread."""

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a search and return the text of the reply. Raises `ToolError` for an error reply."""
        return _text(await to_thread.run_sync(search_reply, named(self.tree, "anthropic"), input))


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text
