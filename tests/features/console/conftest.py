from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.web import console
from support.console import Person
from support.http_api import Api, serving


@pytest.fixture(scope="module")
def one_day() -> None:
    """Wait until midnight (UTC) if it is near, so that the changes of a test are all of the same day."""
    now = datetime.now(UTC)
    left = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0) - now
    if left < timedelta(minutes=2):
        time.sleep(left.total_seconds())


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with its console, over SQLite, and the key of an admin."""
    path: Path = tmp_path_factory.mktemp("console") / "memory.db"
    with (
        retentive.open(f"sqlite:///{path}") as opened,
        serving(opened, more=lambda server: console(server, hosts=frozenset({"memory.example"})).routes()) as found,
    ):
        yield found


@pytest.fixture
def served() -> Callable[..., AbstractContextManager[Api]]:
    """A function that serves an open location with the console."""
    return partial(serving, more=lambda server: console(server).routes(), has_console=True)


@pytest.fixture
def alone(tmp_path: Path, served: Callable[..., AbstractContextManager[Api]]) -> Iterator[Api]:
    """A server with its console for one test. Its location is `memory.db` in the directory of the test."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, served(opened) as found:
        yield found


@pytest.fixture
def store(api: Api, request: pytest.FixtureRequest) -> MemoryStore:
    """A memory store with a small history, new for each test."""
    made = api.place.opened.store(request.node.nodeid[-250:])
    made.create("/memories/notes/a.md", "# Notes\n\none\ntwo\nthree\n", actor="session:s1")
    made.edit("/memories/notes/a.md", "two", "2", actor="session:s2")
    made.create("/memories/b.txt", "plain\n", actor="user:ann")
    return made


@pytest.fixture(scope="module")
def person(api: Api) -> Person:
    """An admin who is signed in."""
    return Person(api)


@pytest.fixture
def at(store: MemoryStore) -> str:
    """Path of the memory store in the console."""
    return f"/console/s/{store.id}"
