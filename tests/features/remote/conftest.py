from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore, Retentive
from support.http_api import Api, serving


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server over SQLite, and the key of an admin who may act as anyone."""
    path: Path = tmp_path_factory.mktemp("remote") / "memory.db"
    with retentive.open(f"sqlite:///{path}") as opened, serving(opened) as found:
        yield found.with_key("admin", act_as=("user:*", "session:*"))


@pytest.fixture
def remote(api: Api) -> Iterator[Retentive]:
    with retentive.open(api.url, api_key=api.key) as opened:
        yield opened


@pytest.fixture
def store(remote: Retentive, request: pytest.FixtureRequest) -> MemoryStore:
    """A memory store on the server, new for each test."""
    return remote.store(request.node.nodeid[-250:])


@pytest.fixture
def local(api: Api, store: MemoryStore) -> MemoryStore:
    """The same memory store, opened where its storage is."""
    return api.place.opened.store(store.id)
