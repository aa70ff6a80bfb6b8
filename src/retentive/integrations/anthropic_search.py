"""The search tool for the official SDK's `tool_runner`, sync and async. Importing this module imports the SDK."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyio import to_thread

from retentive.extras import pip_install

try:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError
except ImportError as error:
    raise ImportError(f"MemorySearchTool needs the SDK: {pip_install('anthropic')}") from error

from retentive import opening
from retentive.integrations.search_tool import DESCRIPTION, INPUT_SCHEMA, NAME, search_reply
from retentive.mounts import Mounts
from retentive.store import MemoryStore
from retentive.values.replies import Replies, Reply

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaToolParam


class _Opened:
    """The constructor both tools share, and what does not differ between sync and async."""

    tree: MemoryStore | Mounts
    _opened: opening.Retentive | None = None

    def __init__(
        self,
        at: str | os.PathLike[str] | MemoryStore | Mounts = opening.DEFAULT_PLACE,
        *,
        store: str | None = None,
        replies: Replies | str = "en",
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        self._cache_control = cache_control
        if isinstance(at, (MemoryStore, Mounts)):
            self.tree = at
        else:
            self._opened = opening.open(at, replies=replies, keys=keys)
            self.tree = self._opened.store(store)

    def to_dict(self) -> BetaToolParam:
        """The entry for the `tools` list of a request."""
        entry: BetaToolParam = {"name": NAME, "description": DESCRIPTION, "input_schema": INPUT_SCHEMA}
        if self._cache_control is not None:
            entry["cache_control"] = self._cache_control
        return entry

    def close(self) -> None:
        """Close what this tool opened itself. Not closing loses nothing."""
        if self._opened is not None:
            self._opened.close()


class MemorySearchTool(_Opened, BetaBuiltinFunctionTool):
    """Lets a model find memories by words: `tool_runner(tools=[MemoryTool(store), MemorySearchTool(store)])`.

    `at` is an opened `MemoryStore` or `Mounts`, best the one the memory tool works on, or a place as for
    `retentive.open` with the `store` in it. What is wrong with a call is raised as the SDK's `ToolError`; that
    nothing was found is an ordinary answer. Threads may share it.
    """

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return _text(search_reply(self.tree, input))


class AsyncMemorySearchTool(_Opened, BetaAsyncBuiltinFunctionTool):
    """As `MemorySearchTool`, for `AsyncAnthropic`; searches run in a worker thread."""

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return _text(await to_thread.run_sync(search_reply, self.tree, input))


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text
