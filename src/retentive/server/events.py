"""Event streams that report the changes of memory stores. They need no message broker.

A process has one poller for each memory store that has open streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from retentive.errors import RetentiveError
from retentive.history.log import Feed, feed, position_of
from retentive.server.calls import Events
from retentive.server.errors import HttpError
from retentive.server.limits import Workers
from retentive.store import MemoryStore, core_of
from retentive.wire.history import change_object

BATCH = 500
POLL_S = 0.25
KEEP_ALIVE_S = 15.0
STOPPING = b"event: stopping\ndata: {}\n\n"
"""Event that tells a client that the server is stopping. The client can reconnect at once with its last event id."""


@dataclass(eq=False)
class _Watch:
    """Open streams of one memory store, and the task that polls it. It sets `news` at a change; `poke` wakes it."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    poke: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    task: asyncio.Task[None] | None = None


async def _arrived(news: asyncio.Event, within_s: float) -> bool:
    """Wait at most `within_s` seconds until `news` is set. Return whether it was set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await news.wait()
            return True
    return False


class Hub:
    """All event streams of a process."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._watched: dict[str, _Watch] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_stopping = False

    def wake(self, store_id: str) -> None:
        """Poll a memory store at once, because it may have changed. Can be called from any thread."""
        watch = self._watched.get(store_id)
        if self._loop is not None and watch is not None:
            self._loop.call_soon_threadsafe(watch.poke.set)

    def stop(self) -> None:
        """End all streams. Can be called from any thread and from a signal handler."""
        self.is_stopping = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for watch in self._watched.values():
            watch.news.set()

    async def stream(self, events: Events) -> AsyncIterator[bytes]:
        """Yield the server-sent events of one stream, as bytes.

        The stream ends when the server stops, when `events.may_continue` returns False, or when storage fails.
        """
        self._loop = asyncio.get_running_loop()
        watch = self._watched.setdefault(events.store.id, _Watch())
        watch.streams += 1
        if watch.task is None:
            watch.task = asyncio.create_task(self._poll(events.store, watch))
        try:
            cursor, is_first = events.after, True
            yield b": connected\n\n"
            while not self.is_stopping:
                news = watch.news
                try:
                    batch = await self._workers.run(partial(_read, events, cursor))
                except (RetentiveError, HttpError):  # the client reconnects
                    return
                if batch is None:
                    return
                if batch.has_gap and is_first:
                    yield b"event: resync\ndata: {}\n\n"
                is_first = False
                for change in batch.items:
                    data = change_object(change, events.store.id)
                    head = f"id: {position_of(change.id)}\nevent: {data.type}\n"
                    yield f"{head}data: {data.model_dump_json()}\n\n".encode()
                cursor = batch.next
                if len(batch.items) < BATCH and not await _arrived(news, KEEP_ALIVE_S):
                    yield b": keep-alive\n\n"
            yield STOPPING
        finally:
            watch.streams -= 1
            if not watch.streams:
                del self._watched[events.store.id]
                watch.task.cancel()

    async def _poll(self, store: MemoryStore, watch: _Watch) -> None:
        """Wake the streams of a memory store each time it has a new change."""
        known = newest = ""
        while not self.is_stopping:
            with suppress(RetentiveError, HttpError):
                newest = await self._workers.run(store.history.newest)
            if newest != known:
                known = newest
                watch.news.set()
                watch.news = asyncio.Event()  # for those who read from now on
            await _arrived(watch.poke, POLL_S)
            watch.poke.clear()


def _read(events: Events, cursor: str) -> Feed | None:
    """Return the next batch of changes, or None if the stream must end."""
    return core_of(events.store).peek(feed(cursor, BATCH)) if events.may_continue() else None
