"""LangGraph's stores on SQLite and PostgreSQL. A note is an item with a text in its value."""

from __future__ import annotations

import importlib
from contextlib import ExitStack

from workloads.adapters.base import Store, System

PACKAGES = ("langgraph-checkpoint-sqlite>=3.1,<4", "langgraph-checkpoint-postgres>=3,<4", "psycopg[binary,pool]")
SYSTEMS = (
    System(
        name="LangGraph SqliteStore",
        adapter="langgraph",
        packages=PACKAGES,
        durable="each commit (SQLite's default)",
        history="none",
        precondition="none",
    ),
    System(
        name="LangGraph PostgresStore",
        adapter="langgraph",
        packages=(PACKAGES[1], PACKAGES[0], PACKAGES[2]),
        server="postgresql",
        durable="each commit",
        history="none",
        precondition="none",
    ),
)
PAGE = 500


class LangGraphStore(Store):
    """Items with the namespace `("memories", directory)`."""

    def __init__(self, module: str, kind: str, address: str) -> None:
        self._opened = ExitStack()
        store = getattr(importlib.import_module(module), kind)
        options = {"pool_config": {"min_size": 1, "max_size": 8}} if kind == "PostgresStore" else {}
        self._store = self._opened.enter_context(store.from_conn_string(address, **options))
        self._store.setup()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        directory, _, name = key.partition("/")
        self._store.put(("memories", directory), name, {"text": text})

    def read(self, key: str) -> str | None:  # noqa: D102
        directory, _, name = key.partition("/")
        found = self._store.get(("memories", directory), name)
        return None if found is None else str(found.value["text"])

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.create(key, text)

    def delete(self, key: str) -> None:  # noqa: D102
        directory, _, name = key.partition("/")
        self._store.delete(("memories", directory), name)

    def names(self) -> list[str]:
        """Search without a query, which also returns the texts: the store has no listing of keys."""
        keys: list[str] = []
        while len(keys) % PAGE == 0:
            found = self._store.search(("memories",), limit=PAGE, offset=len(keys))
            if not found:
                break
            keys += [f"{each.namespace[1]}/{each.key}" for each in found]
        return keys

    def close(self) -> None:  # noqa: D102
        self._opened.close()


def open_store(system: str, folder: str, address: str) -> Store:
    """Open the store in a folder, or in the database at the address."""
    if system.endswith("PostgresStore"):
        return LangGraphStore("langgraph.store.postgres", "PostgresStore", address)
    return LangGraphStore("langgraph.store.sqlite", "SqliteStore", f"{folder}/store.db")
