"""Memory tools for the `tool_runner` of the official SDK, sync and async.

Both classes are drop-in replacements for the SDK's local memory tool: `MemoryTool(base_path="./memory")`. Importing
this module imports the SDK, which takes about a second.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import anyio

from retentive.values.extras import pip_install

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise ImportError(f"MemoryTool needs the SDK: {pip_install('anthropic')}") from error

from retentive import aio, opening
from retentive.errors import InvalidInput
from retentive.integrations.named import named
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor, as_actor
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES, Replies, Reply
from retentive.values.settings import Pins

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )


class _OpenedStore:
    """Opening and closing, shared by the sync and the async tool."""

    tree: MemoryTree
    actor: Actor | None
    _opened: opening.Retentive | None = None

    def _open(
        self,
        location: str | os.PathLike[str] | MemoryTree,
        *,
        store: str | MemoryTree | None,
        actor: Actor | str | None,
        replies: Replies,
        keys: opening.Keys | None,
        settings: Pins,
    ) -> None:
        self.actor = as_actor(actor)  # first, so that an invalid actor raises before a store is created
        memory = location if store is None or isinstance(store, str) else store
        if isinstance(memory, MemoryTree):
            self.tree = memory
        else:
            self._opened = opening.open(memory, replies=replies, keys=keys, **settings)
            self.tree = self._opened.store(store if isinstance(store, str) else None)

    @property
    def store(self) -> MemoryStore:
        """Memory store the tool works on."""
        if not isinstance(self.tree, MemoryStore):
            raise AttributeError("the tool works on several memory stores; use `tree`")  # noqa: TRY004 - as base_path
        return self.tree

    def close(self) -> None:
        """Close the storage if this tool opened it. Without this call no data is lost."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _named(self) -> MemoryTree:
        return named(self.tree, "anthropic")

    def _files(self) -> Path:
        root = self.tree.directory()
        if root is None:
            raise AttributeError("base_path and memory_root exist only for a directory of plain files")
        return Path(root)


class MemoryTool(_OpenedStore, BetaAbstractMemoryTool):
    """Memory tool for `client.beta.messages.tool_runner(tools=[MemoryTool("./memory")])`. Thread-safe.

    `location` is a location as for `retentive.open`; `base_path` is the same argument under the name of the SDK's
    local tool. `store` is the key or id of a memory store, which is created if missing. Instead of either you can
    pass an open `MemoryStore` or `Mounts`. `keys` (encryption) and `settings` such as `view_chars` work as in
    `retentive.open`.

    `call` raises the SDK's `ToolError` for an error reply. Invalid input and storage failures raise `ToolError`
    too; nothing else is raised for them.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | MemoryTree | None = None,
        *,
        base_path: str | os.PathLike[str] | None = None,
        store: str | MemoryTree | None = None,
        actor: Actor | str | None = None,
        replies: Replies = REPLIES,
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **settings: Unpack[Pins],
    ) -> None:
        super().__init__(cache_control=cache_control)
        location = _location(location, base_path)
        self._open(location, store=store, actor=actor, replies=replies, keys=keys, settings=settings)

    @property
    def base_path(self) -> Path:
        """Directory the tool was opened on."""
        return self._files().parent

    @property
    def memory_root(self) -> Path:
        """Directory that contains the memories as plain files."""
        return self._files()

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return _text(self._named.execute(input, actor=self.actor))

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Run a command given as an SDK command object."""
        return self.call(_fields(command))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Run a view command."""
        return self.call(_fields(command, "view"))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Run a create command."""
        return self.call(_fields(command, "create"))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Run a str_replace command."""
        return self.call(_fields(command, "str_replace"))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Run an insert command."""
        return self.call(_fields(command, "insert"))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Run a delete command."""
        return self.call(_fields(command, "delete"))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Run a rename command."""
        return self.call(_fields(command, "rename"))

    def clear_all_memory(self) -> str:
        """Delete all memories, each store in one transaction. The history keeps them."""
        return _text(self._named.clear(actor=self.actor))


class AsyncMemoryTool(_OpenedStore, BetaAsyncAbstractMemoryTool):
    """Async version of `MemoryTool`, for `AsyncAnthropic`.

    The constructor opens the storage synchronously, which is quick. Commands run in a worker thread.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | MemoryTree | None = None,
        *,
        base_path: str | os.PathLike[str] | None = None,
        store: str | MemoryTree | None = None,
        actor: Actor | str | None = None,
        replies: Replies = REPLIES,
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **settings: Unpack[Pins],
    ) -> None:
        super().__init__(cache_control=cache_control)
        location = _location(location, base_path)
        self._open(location, store=store, actor=actor, replies=replies, keys=keys, settings=settings)

    @property
    def base_path(self) -> anyio.Path:
        """Directory the tool was opened on."""
        return anyio.Path(self._files().parent)

    @property
    def memory_root(self) -> anyio.Path:
        """Directory that contains the memories as plain files."""
        return anyio.Path(self._files())

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return _text(await aio.execute(self._named, input, actor=self.actor))

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Run a command given as an SDK command object."""
        return await self.call(_fields(command))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Run a view command."""
        return await self.call(_fields(command, "view"))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Run a create command."""
        return await self.call(_fields(command, "create"))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Run a str_replace command."""
        return await self.call(_fields(command, "str_replace"))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Run an insert command."""
        return await self.call(_fields(command, "insert"))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Run a delete command."""
        return await self.call(_fields(command, "delete"))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Run a rename command."""
        return await self.call(_fields(command, "rename"))

    async def clear_all_memory(self) -> str:
        """Delete all memories, each store in one transaction. The history keeps them."""
        return _text(await aio.clear(self._named, actor=self.actor))


def _location(
    location: str | os.PathLike[str] | MemoryTree | None, base_path: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | MemoryTree:
    if location is not None and base_path is not None:
        raise InvalidInput("location and base_path name the same thing; pass only one of them")
    if base_path is not None:
        return Path(base_path)  # in the SDK base_path is always a directory, even if it looks like a URL
    return opening.DEFAULT_LOCATION if location is None else location


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text


def _fields(command: object, name: str | None = None) -> dict[str, object]:
    """Return the fields of an SDK command object, unvalidated, as the model sent them."""
    if isinstance(command, Mapping):
        fields = dict(command)
    else:
        fields = {**vars(command), **(getattr(command, "model_extra", None) or {})}
    return fields if name is None else fields | {"command": name}
