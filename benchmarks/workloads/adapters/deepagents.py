"""The file backend of LangChain's Deep Agents, with the calls that its file tools make."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workloads.adapters.base import Store, System

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = (
    System(
        name="Deep Agents' file backend",
        adapter="deepagents",
        packages=("deepagents>=0.7,<0.8",),
        durable="no sync",
        history="none",
        precondition="old text, checked without a lock",
    ),
)
ALL = 1_000_000  # lines; a read shows 2,000 unless told


class DeepAgentsStore(Store):
    """Files below a folder, which is the root of the backend."""

    def __init__(self, folder: str) -> None:
        backends = importlib.import_module("deepagents.backends")
        self._backend = backends.FilesystemBackend(root_dir=folder, virtual_mode=True)

    def create(self, key: str, text: str) -> None:  # noqa: D102
        checked(self._backend.write(path(key), text))

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._backend.read(path(key), limit=ALL)
        if found.error and "not found" in found.error:
            return None
        return str(checked(found).file_data["content"])

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.create(key, text)

    def delete(self, key: str) -> None:  # noqa: D102
        checked(self._backend.delete(path(key)))

    def names(self) -> list[str]:  # noqa: D102
        found = checked(self._backend.glob("**/*.md", "/")).matches
        return [each["path"].removeprefix("/").removesuffix(".md") for each in found]

    def page(self, key: str, first: int, last: int) -> list[str]:  # noqa: D102
        found = checked(self._backend.read(path(key), offset=first - 1, limit=last - first + 1))
        return str(found.file_data["content"]).removesuffix("\n").split("\n")

    def append(self, key: str, line: str) -> None:  # noqa: D102
        old = self.text(key)
        checked(self._backend.edit(path(key), old, old.rstrip("\n") + f"\n{line}\n"))

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        return not self._backend.edit(path(key), old, change(old)).error

    def close(self) -> None:  # noqa: D102
        pass


def checked(result: Any) -> Any:
    """Return the result of a call. Raises its error."""
    if result.error:
        raise OSError(result.error)
    return result


def path(key: str) -> str:
    """Path of a key."""
    return f"/{key}.md"


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return DeepAgentsStore(folder)
