"""Cancellation: a command that has started completes, and no caller sees a partial result."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from retentive import AsyncMemoryTool, MemoryStore
from retentive.storage.contract import Snapshot

CREATE = {"command": "create", "path": "/memories/a", "file_text": "x"}


class Gate:
    """Gate that blocks every write of a store, inside the transaction, until the test opens it."""

    def __init__(self, store: MemoryStore) -> None:
        self.entered, self.open, self.left = threading.Event(), threading.Event(), threading.Event()
        self._write = store._core.backend.write

    def write(self, store_id: str, work, **options: Any):  # type: ignore[no-untyped-def]
        def held(transaction: Snapshot) -> object:
            self.entered.set()
            assert self.open.wait(30)
            return work(transaction)

        try:
            return self._write(store_id, held, **options)
        finally:
            self.left.set()


@pytest.fixture
def gate(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate(store)
    monkeypatch.setattr(store._core.backend, "write", gate.write)
    return gate


def test_a_command_completes_if_its_task_is_cancelled(store: MemoryStore, gate: Gate) -> None:
    async def run() -> None:
        tool = AsyncMemoryTool(store)
        task = asyncio.create_task(tool.call(CREATE))
        await asyncio.to_thread(gate.entered.wait, 30)
        task.cancel()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert gate.left.wait(30)
    assert store.read("/memories/a") == "x"
    assert len(list(store.versions())) == 1


def test_a_cancelled_scope_waits_for_the_command(store: MemoryStore, gate: Gate) -> None:
    """The scope exits only after the command has completed."""

    async def run() -> list[str]:
        tool = AsyncMemoryTool(store)
        async with anyio.create_task_group() as group:
            group.start_soon(tool.call, CREATE)
            await asyncio.to_thread(gate.entered.wait, 30)
            group.cancel_scope.cancel()
            gate.open.set()
        return [memory.path for memory in store.memories()]

    assert asyncio.run(run()) == ["/memories/a"]


def test_a_call_cancelled_before_it_starts_does_nothing(store: MemoryStore) -> None:
    async def run() -> None:
        task = asyncio.create_task(AsyncMemoryTool(store).call(CREATE))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert list(store.memories()) == []
