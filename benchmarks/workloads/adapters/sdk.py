"""The local memory tool of the official SDK, with the commands that a model sends."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workloads.adapters.base import Store, System

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = (
    System(
        name="SDK's local tool",
        adapter="sdk",
        distribution="anthropic",
        durable="syncs the data of a file; not names, renames and deletions",
        history="none",
        precondition="old text, checked without a lock",
    ),
)
ROOT = "/memories"


class SdkStore(Store):
    """Files below a folder. The tool shows texts with line numbers; they are removed as a model would ignore them."""

    def __init__(self, folder: str) -> None:
        self._refused: type[Exception] = importlib.import_module("anthropic.lib.tools").ToolError
        tools = importlib.import_module("anthropic.tools")
        self._call: Callable[[dict[str, object]], Any] = tools.BetaLocalFilesystemMemoryTool(folder).call

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._call({"command": "create", "path": path(key), "file_text": text})

    def read(self, key: str) -> str | None:  # noqa: D102
        try:
            return "\n".join(unnumbered(self._call({"command": "view", "path": path(key)})))
        except self._refused:
            return None

    def append(self, key: str, line: str) -> None:  # noqa: D102
        last = len(self.text(key).rstrip("\n").split("\n"))
        self._call({"command": "insert", "path": path(key), "insert_line": last, "insert_text": f"{line}\n"})

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self._call({"command": "str_replace", "path": path(key), "old_str": self.text(key), "new_str": text})

    def rename(self, old: str, new: str) -> None:  # noqa: D102
        self._call({"command": "rename", "old_path": path(old), "new_path": path(new)})

    def delete(self, key: str) -> None:  # noqa: D102
        self._call({"command": "delete", "path": path(key)})

    def names(self) -> list[str]:  # noqa: D102
        return keys(self._call({"command": "view", "path": ROOT}))

    def page(self, key: str, first: int, last: int) -> list[str]:  # noqa: D102
        return unnumbered(self._call({"command": "view", "path": path(key), "view_range": [first, last]}))

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        try:
            self._call({"command": "str_replace", "path": path(key), "old_str": old, "new_str": change(old)})
        except self._refused:
            return False
        return True

    def close(self) -> None:  # noqa: D102
        pass


def path(key: str) -> str:
    """Path of a key."""
    return f"{ROOT}/{key}.md"


def keys(listing: str) -> list[str]:
    """Keys of the files in a directory listing."""
    paths = (row.partition("\t")[2] for row in listing.split("\n")[1:])
    return [found.removeprefix(f"{ROOT}/").removesuffix(".md") for found in paths if found.endswith(".md")]


def unnumbered(view: str) -> list[str]:
    """Lines of a view, without the header and the numbers."""
    return [line.partition("\t")[2] for line in view.split("\n")[1:]]


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return SdkStore(folder)
