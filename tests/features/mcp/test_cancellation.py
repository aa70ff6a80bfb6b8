"""Calls that a client cancels: a read is abandoned, and a change that has begun ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import pytest
from mcp import Client

from retentive import MemoryStore
from retentive.mcp.service import McpService
from retentive.mcp.stdio import fixed_target
from support.mcp_clients import MODES

T = TypeVar("T")
WAIT_S = 30


class Blocked:
    """Work that waits until it is released."""

    def __init__(self) -> None:
        self.has_begun, self.may_end, self.has_ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.has_begun.set()
        self.may_end.wait(WAIT_S)
        self.has_ended.set()


def test_a_cancelled_change_ends_first(store: MemoryStore) -> None:
    work = Blocked()

    async def run() -> None:
        target = fixed_target(store)
        scope = anyio.CancelScope()

        async def call() -> None:
            with scope:
                await target.run(work, is_read=False)

        task = asyncio.ensure_future(call())
        await asyncio.to_thread(work.has_begun.wait, WAIT_S)
        scope.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        work.may_end.set()
        await asyncio.wait_for(task, WAIT_S)
        assert work.has_ended.is_set()

    asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
def test_a_client_cancels_a_call(store: MemoryStore, mode: str) -> None:
    """The call ends on the server, and the connection goes on."""

    async def run() -> None:
        has_begun, was_cancelled = asyncio.Event(), asyncio.Event()

        async def never_ends(work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> T:
            has_begun.set()
            try:
                return await asyncio.Future[T]()
            finally:
                was_cancelled.set()

        target = replace(fixed_target(store), run=never_ends)
        async with Client(McpService(lambda _: target).server(), mode=mode) as client:
            call: asyncio.Future[Any] = asyncio.ensure_future(client.call_tool("memory_search", {"query": "tea"}))
            await asyncio.wait_for(has_begun.wait(), WAIT_S)
            call.cancel()
            await asyncio.wait_for(was_cancelled.wait(), WAIT_S)
            assert len((await client.list_resource_templates()).resource_templates) == 1

    asyncio.run(run())
