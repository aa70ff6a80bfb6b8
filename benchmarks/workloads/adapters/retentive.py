"""Retentive's library, on SQLite and on a directory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from workloads.adapters.base import Store, System
from workloads.adapters.sdk import ROOT, keys, path, unnumbered

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = tuple(
    System(
        name=f"retentive, {where}",
        adapter="retentive",
        distribution="retentive",
        durable="each change is synced before the reply",
        history="each change",
        precondition="version, checked in the transaction",
    )
    for where in ("SQLite", "directory")
)


class RetentiveStore(Store):
    """The store `default` of a location. Limits of a page are off, as in the other systems; guards are on."""

    def __init__(self, location: str) -> None:
        self._module = importlib.import_module("retentive")
        self._opened = self._module.open(location, view_chars=0, list_rows=0)
        self._store = self._opened.store()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._store.create(path(key), text)

    def read(self, key: str) -> str | None:  # noqa: D102
        try:
            found: str = self._store.read(path(key))
        except self._module.NotFound:
            return None
        return found

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._store.append(path(key), line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self._store.write(path(key), text)

    def rename(self, old: str, new: str) -> None:  # noqa: D102
        self._store.rename(path(old), path(new))

    def delete(self, key: str) -> None:  # noqa: D102
        self._store.delete(path(key))

    def names(self) -> list[str]:  # noqa: D102
        return keys(self._store.view(ROOT))

    def page(self, key: str, first: int, last: int) -> list[str]:  # noqa: D102
        return unnumbered(self._store.view(path(key), view_range=(first, last)))

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        memory, text = self._store.load(path(key))
        try:
            self._store.write(path(key), change(text), if_version=memory.version_id)
        except self._module.Conflict:
            return False
        return True

    def close(self) -> None:  # noqa: D102
        self._opened.close()


def open_store(system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return RetentiveStore(f"sqlite:///{folder}/memory.db" if system.endswith("SQLite") else f"{folder}/memory")
