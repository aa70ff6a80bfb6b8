from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from support.http_api import Api, serving


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server over SQLite, and the key of an admin."""
    path: Path = tmp_path_factory.mktemp("server") / "memory.db"
    with retentive.open(f"sqlite:///{path}") as opened, serving(opened) as found:
        yield found


@pytest.fixture
def store(api: Api, request: pytest.FixtureRequest) -> MemoryStore:
    """A memory store of the default workspace, new for each test."""
    return api.place.opened.store(request.node.nodeid[-250:])


@pytest.fixture
def at(store: MemoryStore) -> str:
    """Path of the memory store in the API."""
    return f"/v1/memory_stores/{store.id}"
