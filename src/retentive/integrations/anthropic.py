"""The door for the official SDK: tools for its `tool_runner`, sync and async.

Both classes stand where the SDK's own local tool stood: `MemoryTool(base_path="./memory")`. Importing this module
imports the SDK, which takes about a second.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import anyio

from retentive.extras import pip_install

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise ImportError(f"MemoryTool needs the SDK: {pip_install('anthropic')}") from error

from retentive import aio, opening
from retentive.errors import InvalidInput
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor, as_actor
from retentive.store import MemoryStore
from retentive.values.replies import Replies, Reply
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
    """The constructor both tools share, and what does not differ between sync and async."""

    tree: MemoryTree
    actor: Actor | None
    _opened: opening.Retentive | None = None

    def _open(
        self,
        at: str | os.PathLike[str] | MemoryTree,
        *,
        store: str | MemoryTree | None,
        actor: Actor | str | None,
        replies: Replies | str,
        keys: opening.Keys | None,
        settings: Pins,
    ) -> None:
        self.actor = as_actor(actor)  # first: what names nobody is refused before anything is made
        given = at if store is None or isinstance(store, str) else store
        if isinstance(given, MemoryTree):
            self.tree = given
        else:
            self._opened = opening.open(given, replies=replies, keys=keys, **settings)
            self.tree = self._opened.store(store if isinstance(store, str) else None)

    @property
    def store(self) -> MemoryStore:
        """The memory store the tool was opened on."""
        if not isinstance(self.tree, MemoryStore):
            raise AttributeError("the tool was opened on several memory stores, see `tree`")  # noqa: TRY004 - as base_path
        return self.tree

    def close(self) -> None:
        """Close what this tool opened itself. Not closing loses nothing."""
        if self._opened is not None:
            self._opened.close()

    def _files(self) -> Path:
        root = self.tree.directory()
        if root is None:
            raise AttributeError("base_path and memory_root are there only where memories are plain files")
        return Path(root)


class MemoryTool(_OpenedStore, BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.tool_runner(tools=[MemoryTool("./memory")])`.

    `at` (or `base_path`, as in the SDK's local tool) is a place as for `retentive.open`; `store` a key or id, made
    if missing; either may be an opened `MemoryStore`, or `Mounts`. `settings`, such as `view_chars`, are pinned for
    this process, and with `keys` memory stores are sealed, as in `retentive.open`. An error reply is raised as the
    SDK's `ToolError`; nothing else leaves `call` for anything a model sent or storage did. Threads may share it.
    """

    def __init__(
        self,
        at: str | os.PathLike[str] | MemoryTree | None = None,
        *,
        base_path: str | os.PathLike[str] | None = None,
        store: str | MemoryTree | None = None,
        actor: Actor | str | None = None,
        replies: Replies | str = "en",
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **settings: Unpack[Pins],
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._open(_place(at, base_path), store=store, actor=actor, replies=replies, keys=keys, settings=settings)

    @property
    def base_path(self) -> Path:
        """The directory the tool was opened on."""
        return self._files().parent

    @property
    def memory_root(self) -> Path:
        """The directory in which the memories lie as files."""
        return self._files()

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return _text(self.tree.execute(input, actor=self.actor))

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """As `call`, for the SDK's command objects."""
        return self.call(_fields(command))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Run a view."""
        return self.call(_fields(command, "view"))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Run a create."""
        return self.call(_fields(command, "create"))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Run a str_replace."""
        return self.call(_fields(command, "str_replace"))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Run an insert."""
        return self.call(_fields(command, "insert"))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Run a delete."""
        return self.call(_fields(command, "delete"))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Run a rename."""
        return self.call(_fields(command, "rename"))

    def clear_all_memory(self) -> str:
        """Delete all memories, those of a store at once; history keeps them."""
        return _text(self.tree.clear(actor=self.actor))


class AsyncMemoryTool(_OpenedStore, BetaAsyncAbstractMemoryTool):
    """As `MemoryTool`, for `AsyncAnthropic`. Opening is quick and done at once; commands run in a worker thread."""

    def __init__(
        self,
        at: str | os.PathLike[str] | MemoryTree | None = None,
        *,
        base_path: str | os.PathLike[str] | None = None,
        store: str | MemoryTree | None = None,
        actor: Actor | str | None = None,
        replies: Replies | str = "en",
        keys: opening.Keys | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **settings: Unpack[Pins],
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._open(_place(at, base_path), store=store, actor=actor, replies=replies, keys=keys, settings=settings)

    @property
    def base_path(self) -> anyio.Path:
        """The directory the tool was opened on."""
        return anyio.Path(self._files().parent)

    @property
    def memory_root(self) -> anyio.Path:
        """The directory in which the memories lie as files."""
        return anyio.Path(self._files())

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return _text(await aio.execute(self.tree, input, actor=self.actor))

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """As `call`, for the SDK's command objects."""
        return await self.call(_fields(command))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Run a view."""
        return await self.call(_fields(command, "view"))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Run a create."""
        return await self.call(_fields(command, "create"))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Run a str_replace."""
        return await self.call(_fields(command, "str_replace"))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Run an insert."""
        return await self.call(_fields(command, "insert"))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Run a delete."""
        return await self.call(_fields(command, "delete"))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Run a rename."""
        return await self.call(_fields(command, "rename"))

    async def clear_all_memory(self) -> str:
        """Delete all memories, those of a store at once; history keeps them."""
        return _text(await aio.clear(self.tree, actor=self.actor))


def _place(
    at: str | os.PathLike[str] | MemoryTree | None, base_path: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | MemoryTree:
    if at is not None and base_path is not None:
        raise InvalidInput("give the place once: as the first argument or as base_path")
    if base_path is not None:
        return Path(base_path)  # the SDK's argument is a directory, whatever it looks like
    return opening.DEFAULT_PLACE if at is None else at


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text


def _fields(command: object, name: str | None = None) -> dict[str, object]:
    """What the SDK put into a command object, unchecked as the model sent it."""
    if isinstance(command, Mapping):
        found = dict(command)
    else:
        found = {**vars(command), **(getattr(command, "model_extra", None) or {})}
    return found if name is None else found | {"command": name}
