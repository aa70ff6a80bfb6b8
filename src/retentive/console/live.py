"""Live pages: new changes of a memory store as server-sent events.

A process reads the changes of a store once for all pages that show them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from retentive.console import rows
from retentive.console.rendering import environment
from retentive.console.rows import Position, Window
from retentive.console.sessions import Sessions
from retentive.console.visits import LiveChanges, store_url
from retentive.engine.operation import Read
from retentive.errors import RetentiveError
from retentive.server.errors import HttpError
from retentive.server.events import Hub, Run, arrived
from retentive.server.keys import KeyRecord
from retentive.storage.contract import Snapshot, Version
from retentive.store import MemoryStore, core_of

GAP_S = 1.0
"""Shortest time between two sends to one page. A send has at most three messages."""
READ_GAP_S = 0.5
"""Shortest time between two reads of a store. The second read gets all changes since the first."""
CHECK_S = 5.0
"""Time between two checks of the sign-ins, if the store does not change."""
KEEP_ALIVE_S = 15.0
STREAMS = 4
"""Maximum number of streams of one sign-in in one process."""
EVENT_STREAM = "text/event-stream"
SIGNED_OUT = rows.message(None, "sign-in ended", "signed-out")
CONNECTED, KEEP_ALIVE = b": connected\n\n", b": keep-alive\n\n"


@dataclass(eq=False)
class _Viewer:
    """One stream of events to a page. Setting `turn` wakes the stream."""

    token: str
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    is_signed_out: bool = False


@dataclass(eq=False)
class _Room:
    """A store that is watched for changes: its newest changes (`window`), and the streams that send them."""

    store: MemoryStore
    viewers: set[_Viewer] = field(default_factory=set)
    window: Window | None = None
    is_over: bool = False
    news: asyncio.Event | None = None
    task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        for viewer in self.viewers:
            viewer.turn.set()


class Live:
    """Live pages of a process. The object belongs to one event loop."""

    def __init__(
        self,
        hub: Hub,
        run: Run,
        sessions: Sessions,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        keep_alive_s: float = KEEP_ALIVE_S,
        check_s: float = CHECK_S,
    ) -> None:
        self._hub = hub
        self._run = run
        self._sessions = sessions
        self.sleep = sleep
        self._keep_alive_s = keep_alive_s
        self._check_s = check_s
        self._rooms: dict[tuple[str, tuple[str, ...]], _Room] = {}
        self._known: dict[str, tuple[float, KeyRecord | None]] = {}
        self._streams: Counter[str] = Counter()

    def response(self, changes: LiveChanges, token: str, headers: Mapping[str, str]) -> LiveResponse:
        """Return the response that streams the changes to a page."""
        return LiveResponse(self, changes, token, headers)

    def check_limit(self, token: str) -> None:
        """Raise `HttpError` 429 if the sign-in has too many streams."""
        if self._streams[token] >= STREAMS:
            message = f"at most {STREAMS} live pages can be open with one sign-in"
            raise HttpError(429, "rate_limit_error", message, "rate_limited")

    def end(self, token: str) -> None:
        """End the streams of a sign-in after the person has signed out."""
        for room in self._rooms.values():
            for viewer in room.viewers:
                if viewer.token == token:
                    viewer.is_signed_out = True
                    viewer.turn.set()

    def check(self) -> None:
        """Check all sign-ins now, because a key may have been revoked."""
        for room in self._rooms.values():
            if room.news is not None:
                room.news.set()

    @contextmanager
    def counted(self, token: str) -> Iterator[None]:
        """Count one more open stream of a sign-in until the `with` block ends."""
        self._streams[token] += 1
        try:
            yield
        finally:
            self._streams[token] -= 1
            if not self._streams[token]:
                del self._streams[token]
                self._known.pop(token, None)

    async def stream(self, changes: LiveChanges, token: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a stream, until the sign-in ends or the server stops."""
        yield CONNECTED
        with self._viewing(changes.store, token) as (room, viewer):
            seen: Position | None = None
            while True:
                await arrived(viewer.turn, self._keep_alive_s)
                if viewer.is_signed_out:
                    yield SIGNED_OUT
                if viewer.is_signed_out or room.is_over:
                    return
                found = room.window
                if not viewer.turn.is_set() or found is None:
                    yield KEEP_ALIVE
                    continue
                viewer.turn.clear()
                seen = seen or _start(found, changes)
                sent = rows.messages(found, seen, changes.wanted, partial(_note, changes.store.id))
                seen = Position(max(seen.revision, found.revision), max(seen.event, found.newest_event))
                if sent:
                    yield b"".join(sent)
                    await self.sleep(GAP_S)

    @contextmanager
    def _viewing(self, store: MemoryStore, token: str) -> Iterator[tuple[_Room, _Viewer]]:
        name = _room_of(store)
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = _Room(store)
            room.task = asyncio.create_task(self._watch(room))
        viewer = _Viewer(token)
        room.viewers.add(viewer)
        if room.window is not None:
            viewer.turn.set()
        try:
            yield room, viewer
        finally:
            room.viewers.discard(viewer)
            if not room.viewers and room.task is not None:
                room.task.cancel()
                self._forget(room)

    async def _watch(self, room: _Room) -> None:
        try:
            with self._hub.watching(room.store) as news:
                room.news = news
                while not self._hub.is_stopping:
                    news.clear()
                    if await self._look(room):
                        await self.sleep(READ_GAP_S)
                    await arrived(news, self._check_s)
        except (RetentiveError, HttpError):
            return  # the pages connect again, with the id of their last message
        finally:
            room.is_over = True
            room.wake()
            self._forget(room)

    def _forget(self, room: _Room) -> None:
        name = _room_of(room.store)
        if self._rooms.get(name) is room:
            del self._rooms[name]

    async def _look(self, room: _Room) -> bool:
        """Read the new changes, then check the sign-ins, so that nothing is sent after a sign-in has ended.

        Returns whether there was a change.
        """
        before, tokens = room.window, {viewer.token for viewer in room.viewers}
        found, ended = await self._run(partial(self._read, room.store, before, tokens))
        for viewer in room.viewers:
            viewer.is_signed_out |= viewer.token in ended
        room.window = found
        for viewer in room.viewers:
            if found is not before or viewer.is_signed_out:
                viewer.turn.set()
        return before is not None and found is not before

    def _read(self, store: MemoryStore, before: Window | None, tokens: set[str]) -> tuple[Window, set[str]]:
        rendered = partial(_row, store.id)

        def work(snapshot: Snapshot) -> Window:
            return rows.window(snapshot, rendered, before)

        found = core_of(store).peek(Read("feed", work))
        return found, {token for token in tokens if self._has_ended(token)}

    def _has_ended(self, token: str) -> bool:
        """Return whether a sign-in has ended.

        The record of the sign-in is read only every few seconds. The API key is checked each time, with a cache.
        """
        since, record = self._known.get(token, (float("-inf"), None))
        if time.monotonic() - since > self._check_s:
            record = self._sessions.key_of(token)
            self._known[token] = time.monotonic(), record
        return record is None or not self._sessions.is_active(record)


class LiveResponse(StreamingResponse):
    """Response with the stream of a live page.

    The stream ends when the browser disconnects. It then no longer counts towards the limit of the sign-in.
    """

    def __init__(self, live: Live, changes: LiveChanges, token: str, headers: Mapping[str, str]) -> None:
        super().__init__(live.stream(changes, token), headers=headers, media_type=EVENT_STREAM)
        self._live = live
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self._live.counted(self._token):
            tasks = [
                asyncio.create_task(self.stream_response(send)),
                asyncio.create_task(self.listen_for_disconnect(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in tasks:
                    each.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception) and not isinstance(error, OSError):
                raise error

    async def stream_response(self, send: Send) -> None:
        """Send the stream, and close its generator even if the browser has disconnected."""
        async with aclosing(self.body_iterator):  # type: ignore[type-var] # it is the generator of `Live.stream`
            await super().stream_response(send)


def _start(found: Window, changes: LiveChanges) -> Position:
    """Return the position of a page: the revision that it shows.

    If the page connects again, return the position of the last message that it received.
    """
    if changes.is_resumed:
        return rows.position_at(found, changes.after)
    return Position(changes.after, found.newest_event)


def _room_of(store: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return the key of a room. Streams share a room if their callers may see the same paths of the same store."""
    return store.id, core_of(store).scope


def _row(store_id: str, version: Version) -> str:
    values = {"version": version, "url": partial(store_url, store_id)}
    return environment().get_template("_row.html").render(values)


def _note(store_id: str, count: int | None) -> str:
    values = {"version": None, "count": count, "url": partial(store_url, store_id)}
    return environment().get_template("_row.html").render(values)
