"""Memory tools and search tools for the `tool_runner` of the official SDK, sync and async.

`MemoryTool(base_path="./memory")` is a drop-in replacement for the SDK's local memory tool. Importing this module
takes about a second, because it imports the SDK.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from retentive.values.extras import pip_install

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        BetaAsyncBuiltinFunctionTool,
        BetaBuiltinFunctionTool,
        ToolError,
    )
except ImportError as error:
    raise ImportError(f"MemoryTool needs the SDK: {pip_install('anthropic')}") from error

from retentive import aio, opening
from retentive.errors import InvalidInput
from retentive.integrations.memory import MemoryLocation, open_memory
from retentive.integrations.messages import run_block
from retentive.integrations.schemas import SEARCH, SEARCH_DESCRIPTION, SEARCH_SCHEMA
from retentive.integrations.search_tool import search_reply
from retentive.mounts import MemoryTree, Mounts
from retentive.storage.contract import Actor, as_actor
from retentive.store import MemoryStore
from retentive.values.provenance import origin_of
from retentive.values.replies import Reply
from retentive.values.settings import Pins
from retentive.values.text import plain_name

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaToolParam


def _command(name: str | None) -> Any:
    """Return a method that runs a command which is an object of the SDK. Without a `name`, the object has it."""

    def run(self: Any, command: object) -> Any:
        if isinstance(command, Mapping):
            fields = dict(command)
        else:
            fields = {**vars(command), **(getattr(command, "model_extra", None) or {})}
        return self.call(fields if name is None else fields | {"command": name})

    run.__doc__ = f"Run {'a' if name is None else f'the {name}'} command that is an object of the SDK."
    return run


class _OpenedStore:
    """Base class of all tools. It closes the storage that a tool has opened."""

    tree: MemoryTree
    _close: Callable[[], None]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.tree!r}>"

    def close(self) -> None:
        """Close the storage, if this tool opened it. No data is lost if you omit this call."""
        self._close()


class _MemoryTool(_OpenedStore):
    """Base class of the memory tools, without the method `call`."""

    def __init__(
        self,
        location: MemoryLocation | MemoryTree | None = None,
        *,
        base_path: str | os.PathLike[str] | None = None,
        store: str | MemoryTree | None = None,
        actor: Actor | str | None = None,
        source: str | None = None,
        session: str | None = None,
        run: str | None = None,
        keys: opening.Keys | None = None,
        api_key: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **settings: Unpack[Pins],
    ) -> None:
        init: Any = super().__init__  # the next base class is the SDK's tool
        init(cache_control=cache_control)
        opening.check_options(settings, _MemoryTool.__init__)
        self.origin = origin_of(source, session)
        self.run = None if run is None else plain_name("a run", run)
        self.actor = as_actor(actor)  # before the store is created, so that an invalid actor creates nothing
        memory, key = _memory(location, base_path, store)
        self.tree, self._close = open_memory(
            memory, key, keys=keys, api_key=api_key, ca_file=ca_file, settings=settings
        )

    @property
    def store(self) -> MemoryStore:
        """Memory store that the tool uses."""
        if not isinstance(self.tree, MemoryStore):
            raise AttributeError("the tool uses several memory stores, so `store` is not available; use `tree`")  # noqa: TRY004 - as base_path
        return self.tree

    @property
    def _named(self) -> MemoryTree:
        return self.tree.through("anthropic")

    def _files(self) -> Path:
        root = self.tree.directory()
        if root is None:
            raise AttributeError("`base_path` and `memory_root` exist only if memories are plain files in a directory")
        return Path(root)

    def _result(self, block: object) -> dict[str, Any]:
        return run_block(self._named, block, actor=self.actor, run=self.run, **self.origin)

    execute, view, create, str_replace, insert, delete, rename = map(
        _command, (None, "view", "create", "str_replace", "insert", "delete", "rename")
    )


class MemoryTool(_MemoryTool, BetaAbstractMemoryTool):
    """Memory tool for `client.beta.messages.tool_runner(tools=[MemoryTool("./memory")])`. Thread-safe.

    `location` is a location as for `retentive.open`, or an opened location. `base_path` is another name for this
    argument. The SDK's local tool uses this name. `store` is the key or id of a memory store; it is created if it does
    not exist. An open `MemoryStore` or `Mounts` can be passed as `location` or as `store`. `actor`, `source` and
    `session` are recorded with each change. `run` names the run in which the ids of blocks are unique (`result`).

    The other options are those of `retentive.open`: `keys` (encryption), `api_key` and `ca_file` (for a
    server), and settings such as `view_chars`. They are allowed only with a location that this tool opens. An option
    that would have no effect raises `InvalidInput`.

    `call` raises the SDK's `ToolError` for an error reply, for example after invalid input or a storage failure.
    """

    @property
    def base_path(self) -> Path:
        """Directory that was passed to the tool as its location."""
        return self._files().parent

    @property
    def memory_root(self) -> Path:
        """Directory that contains the memories as plain files."""
        return self._files()

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return text_or_error(self._named.execute(input, actor=self.actor, **self.origin))

    def result(self, block: object) -> dict[str, Any]:
        """Run a tool_use block and return the tool_result block, as `retentive.tool_result` does.

        Unlike `call`, this method knows the id of the call: a change that is repeated under its id is made only once.
        """
        return self._result(block)

    def clear_all_memory(self) -> str:
        """Delete all memories. Each store is cleared in one transaction. Its history keeps the memories."""
        return text_or_error(self._named.clear(actor=self.actor, **self.origin))


class AsyncMemoryTool(_MemoryTool, BetaAsyncAbstractMemoryTool):
    """Async version of `MemoryTool`, for `AsyncAnthropic`. Commands run in a worker thread.

    The constructor opens the storage synchronously. This is quick.
    """

    @property
    def base_path(self) -> anyio.Path:
        """Directory that was passed to the tool as its location."""
        return anyio.Path(self._files().parent)

    @property
    def memory_root(self) -> anyio.Path:
        """Directory that contains the memories as plain files."""
        return anyio.Path(self._files())

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return text_or_error(await aio.in_thread(partial(self._named.execute, input, actor=self.actor, **self.origin)))

    async def result(self, block: object) -> dict[str, Any]:
        """Run a tool_use block and return the tool_result block. See `MemoryTool.result`."""
        return await aio.in_thread(self._result, block)

    async def clear_all_memory(self) -> str:
        """Delete all memories. Each store is cleared in one transaction. Its history keeps the memories."""
        return text_or_error(await aio.in_thread(partial(self._named.clear, actor=self.actor, **self.origin)))


class _SearchTool(_OpenedStore):
    """Base class of the search tools, without the method `call`."""

    tree: MemoryStore | Mounts

    def __init__(
        self,
        location: MemoryLocation | MemoryStore | Mounts = opening.DEFAULT_LOCATION,
        *,
        store: str | None = None,
        actor: Actor | str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        self._cache_control = cache_control
        self.actor = as_actor(actor)
        self.tree, self._close = open_memory(location, store)

    def _search(self, request: object) -> Reply:
        return search_reply(self.tree.through("anthropic"), request, actor=self.actor)

    def to_dict(self) -> BetaToolParam:
        """Return the entry for the `tools` list of a request."""
        entry: BetaToolParam = {"name": SEARCH, "description": SEARCH_DESCRIPTION, "input_schema": SEARCH_SCHEMA}
        if self._cache_control is not None:
            entry["cache_control"] = self._cache_control
        return entry


class MemorySearchTool(_SearchTool, BetaBuiltinFunctionTool):
    """Search tool for models: `tool_runner(tools=[MemoryTool(store), MemorySearchTool(store)])`. Thread-safe.

    `location` is an open `MemoryStore` or `Mounts`, usually the object that the memory tool uses. It can also be a
    location: a directory, a URL or an opened location. For a location, `store` selects a memory store by its key or id.
    Memories that are hidden from `actor` are not found. An invalid call raises the SDK's `ToolError`. A search without
    matches returns an ordinary reply.
    """

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a search and return the text of the reply. Raises `ToolError` for an error reply."""
        return text_or_error(self._search(input))


class AsyncMemorySearchTool(_SearchTool, BetaAsyncBuiltinFunctionTool):
    """Async version of `MemorySearchTool`, for `AsyncAnthropic`. Searches run in a worker thread."""

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a search and return the text of the reply. Raises `ToolError` for an error reply."""
        return text_or_error(await aio.in_thread(self._search, input))


def _memory(
    location: MemoryLocation | MemoryTree | None,
    base_path: str | os.PathLike[str] | None,
    store: str | MemoryTree | None,
) -> tuple[MemoryLocation | MemoryTree, str | None]:
    """Return the memory to use, and the key or id of the store in it. The key is None if the caller chose no store.

    Raises `InvalidInput` for an argument that would have no effect.
    """
    if location is not None and base_path is not None:
        raise InvalidInput("`location` and `base_path` are two names of the same argument; pass only one of them")
    if isinstance(store, MemoryTree):
        if location is not None or base_path is not None:
            raise InvalidInput("`store` is an open memory store, which already has a location; pass only `store`")
        return store, None
    if base_path is not None:
        return Path(base_path), store  # in the SDK base_path is always a directory, even if it looks like a URL
    return opening.DEFAULT_LOCATION if location is None else location, store


def text_or_error(reply: Reply) -> str:
    """Return the text of a reply. Raises `ToolError` for an error reply."""
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text
