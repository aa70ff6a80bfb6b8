"""AgentFS: the file system in a SQLite file of its Python SDK."""

from __future__ import annotations

import asyncio
import importlib
from threading import Thread
from typing import TYPE_CHECKING, Any

from workloads.adapters.base import Store, System

if TYPE_CHECKING:
    from collections.abc import Coroutine

SYSTEMS = (
    System(
        name="AgentFS",
        adapter="agentfs",
        packages=("agentfs-sdk>=0.6.4,<0.7",),
        durable="each commit (Turso's default)",
        history="none for files",
        precondition="none",
        is_shared=False,
    ),
)


class AgentFsStore(Store):
    """One file system, on an event loop in a thread of its own, as its methods are coroutines."""

    def __init__(self, folder: str) -> None:
        module = importlib.import_module("agentfs_sdk")
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._agent = self._done(module.AgentFS.open(module.AgentFSOptions(path=f"{folder}/agent.db")))
        self._files = self._agent.fs
        self._error: type[Exception] = module.ErrnoException

    def _done(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._done(self._files.write_file(path(key), text))

    def read(self, key: str) -> str | None:  # noqa: D102
        try:
            found: str = self._done(self._files.read_file(path(key)))
        except self._error as error:
            if getattr(error, "code", "") != "ENOENT":
                raise
            return None
        return found

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.create(key, text)

    def rename(self, old: str, new: str) -> None:  # noqa: D102
        self._done(self._rename(old, new))

    async def _rename(self, old: str, new: str) -> None:
        directory = path(new).rpartition("/")[0]
        try:
            await self._files.stat(directory)
        except self._error:
            await self._files.mkdir(directory)
        await self._files.rename(path(old), path(new))

    def delete(self, key: str) -> None:  # noqa: D102
        self._done(self._files.unlink(path(key)))

    def names(self) -> list[str]:  # noqa: D102
        found: list[str] = self._done(self._names())
        return found

    async def _names(self) -> list[str]:
        directories = await self._files.readdir("/")
        found = [(each, await self._files.readdir(f"/{each}")) for each in directories]
        return [f"{directory}/{name.removesuffix('.md')}" for directory, names in found for name in names]

    def close(self) -> None:  # noqa: D102
        self._done(self._agent.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def path(key: str) -> str:
    """Path of a key."""
    return f"/{key}.md"


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return AgentFsStore(folder)
