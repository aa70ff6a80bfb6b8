"""Async twins: the same names and signatures as the sync classes, over the same core."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import retentive
from retentive import (
    AsyncMemoryStore,
    AsyncMounts,
    AsyncRetentive,
    MemoryStore,
    Mounts,
    Retentive,
)
from retentive.storage.contract import Transaction
from retentive.store import core_of

TWINS: list[tuple[type, type]] = [(MemoryStore, AsyncMemoryStore), (Mounts, AsyncMounts), (Retentive, AsyncRetentive)]
THROUGH_CALL = {"by_id", "history", "records", "review", "trust", "audit"}
"""Objects with methods of their own, which `call` reaches."""
ONLY_ASYNC = {"call"}
WITHOUT_IO = {"acting_as", "read_only", "through", "directory", "store_of"}
"""Methods that need no worker thread. They return the async class where the sync twin returns its own."""


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def parameters(method: Callable[..., object]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(method).parameters.values() if each.name != "self"]


@pytest.mark.parametrize(("kind", "twin"), TWINS, ids=[kind.__name__ for kind, _ in TWINS])
def test_each_method_has_a_twin_with_the_same_signature(kind: type, twin: type) -> None:
    own, other = public(kind), public(twin)
    assert own.keys() - THROUGH_CALL == other.keys() - ONLY_ASYNC
    for name in own.keys() - THROUGH_CALL:
        assert isinstance(own[name], property) == isinstance(other[name], property), name
        if not isinstance(own[name], property):
            assert parameters(own[name]) == parameters(other[name]), name
            assert inspect.iscoroutinefunction(other[name]) == (name not in WITHOUT_IO), name
            assert other[name].__doc__, name


def test_open_async_has_the_arguments_of_open() -> None:
    assert inspect.signature(retentive.open_async) == inspect.signature(retentive.open)


def test_calls_that_wait_take_no_thread_of_the_application(tmp_path: Path) -> None:
    """45 calls wait for a writer. The application's own call in one of anyio's 40 threads runs meanwhile."""
    begun, ended = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.put_record("x", "y", "z")
        begun.set()
        assert ended.wait(20), "the application waited for the writer"

    async def run(store: AsyncMemoryStore) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, lambda: core_of(store.sync).follow_up(hold))
            await anyio.to_thread.run_sync(begun.wait)
            for number in range(45):
                tasks.start_soon(store.write, f"/memories/{number}", "x")
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(ended.set)
        assert len(await store.memories()) == 45

    with retentive.open(tmp_path / "memory") as opened:
        anyio.run(run, AsyncMemoryStore(opened.store()))
