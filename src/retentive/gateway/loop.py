"""The loop of one request: turns of the model, until one has no call that the gateway can answer.

A streamed response begins with the first event of the API and goes on over all turns. The API may fail before the
response has begun: then the client gets that failure as it is, and may repeat the request.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2

from retentive.gateway.calls import UNAVAILABLE, MemoryCalls
from retentive.gateway.records import KeptCall
from retentive.gateway.transform import JsonObject, MessagesRequest
from retentive.gateway.turns import MALFORMED, ModelTurn, encoded, events_of, failed, usage_of, whole_reply
from retentive.gateway.upstream import Headers, Upstream, end_to_end, pieces_of, unreachable
from retentive.server.errors import HttpError

if TYPE_CHECKING:
    from starlette.types import Send

    from retentive.server.application import Server

UNAVAILABLE_HEADER = (b"x-retentive-memory", b"unavailable")
BIG = 64 << 10  # bytes of a body that is handled in a thread, because it would hold up the others


class ClientResponse:
    """Response to the client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._gzip: Any = None
        self.has_begun = False
        self.is_stream = False

    async def begin(self, status: int, headers: Headers, *, is_gzip: bool = False) -> None:
        """Send the status and the headers. With `is_gzip`, the body is compressed, each piece for itself."""
        self.has_begun = True
        if is_gzip:
            self._gzip, headers = zlib.compressobj(wbits=31), [*headers, (b"content-encoding", b"gzip")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data and self._gzip is not None:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece."""
        await self.write(data)
        last = b"" if self._gzip is None else self._gzip.flush()
        await self._send({"type": "http.response.body", "body": last})

    async def forward(self, response: httpx2.Response) -> None:
        """Send a response of the API as it is."""
        length = [(name, value) for name, value in response.headers.raw if name.lower() == b"content-length"]
        await self.begin(response.status_code, end_to_end(response.headers.raw, b"date") + length)
        async for piece in pieces_of(response.aiter_raw()):
            await self.write(piece)
        await self.end()


@dataclass
class Loop:
    """One request for a message whose memory calls the gateway answers."""

    server: Server
    upstream: Upstream
    client: ClientResponse
    request: MessagesRequest
    memory: MemoryCalls
    headers: Headers
    path: bytes
    body: bytes
    """Body of the first request to the API."""
    max_rounds: int
    answering: dict[str, asyncio.Future[list[KeptCall]]]
    """Calls that run now, by the digest of the request."""
    turns: list[tuple[ModelTurn, Sequence[KeptCall]]] = field(default_factory=list)

    async def run(self) -> None:
        """Answer the request. Raises `HttpError` only before the response has begun."""
        events = list[JsonObject]()
        for message in self.memory.rounds:
            turn = self._turn()
            events += [event for each in events_of(message) for event in turn.take(each)]
            events += await self._answered(turn)
            if not turn.goes_on:
                await self._finish(None, events, turn)
                return
        while not await self._ask(events):
            events = []

    def _turn(self) -> ModelTurn:
        return ModelTurn(len(self.turns) + 1, sum(len(turn.content) + len(found) for turn, found in self.turns))

    async def _ask(self, events: list[JsonObject]) -> bool:
        """Ask the API for the next turn, after sending `events`. Return whether the response is complete."""
        turn, is_last = self._turn(), len(self.turns) >= self.max_rounds
        body = self.body if not self.turns else await heavy(len(self.body), self._next_body, is_last)
        async with self.upstream.send("POST", self.path, self.headers, body) as response:
            kind = response.headers.get("content-type", "")
            is_message = response.status_code == 200 and ("event-stream" in kind) == self.request.is_stream
            if not is_message:
                await self._failed(response)
                return True
            data = await self._read(turn, response, events)
            if not turn.is_complete:
                if not turn.has_failed:
                    raise unreachable()
                await self.client.end()
                return True
            if not turn.uses and len(self.turns) == 0 and not self.request.is_stream:
                await self._begin(response)
                await self.client.end(data)
                return True
            found = await self._answered(turn, is_over=is_last)
            if turn.uses and turn.goes_on and not is_last:
                await self._write(found)
                return False
            await self._finish(response, found, turn, is_cut=bool(turn.uses) and turn.goes_on)
            return True

    def _next_body(self, is_last: bool) -> bytes:
        messages = [message for turn, results in self.turns for message in turn.to_send(results)]
        named = [turn.message["container"] for turn, _ in self.turns if turn.message.get("container")]
        container = named[-1].get("id") if named else None
        return self.request.following(messages, container=container, is_last=is_last)

    async def _read(self, turn: ModelTurn, response: httpx2.Response, events: list[JsonObject]) -> bytes:
        """Read the message of a turn. A streamed one goes to the client event by event."""
        if not self.request.is_stream:
            data = b"".join([piece async for piece in pieces_of(response.aiter_bytes())])
            try:
                turn.message, turn.is_complete = dict(json.loads(data)), True
                turn.check()
            except MALFORMED:
                raise unreachable() from None
            return data
        if not self.client.has_begun:
            await self._begin(response)
        await self._write(events)
        try:
            async for event in httpx2.EventSource(response, max_event_size=None):
                await self._write(turn.take(json.loads(event.data)))
            turn.check()
        except (httpx2.HTTPError, *MALFORMED):
            raise unreachable() from None
        return b""

    async def _answered(self, turn: ModelTurn, *, is_over: bool = False) -> list[JsonObject]:
        """Run the calls of a turn, and return the events with their results."""
        results: list[KeptCall] = []
        if turn.uses:
            job = self.answering[self.memory.digest] = asyncio.ensure_future(self._run(turn, is_over=is_over))
            results = await asyncio.shield(job)  # calls that began are finished, also without the client
        self.turns.append((turn, results))
        return turn.results(results)

    async def _run(self, turn: ModelTurn, *, is_over: bool) -> list[KeptCall]:
        try:
            return await self.server.workers.run(partial(self.memory.answer, turn, is_over=is_over))
        except HttpError:  # too many calls wait, or this one takes too long
            self.memory.has_failed = True
            return [turn.answered(use, UNAVAILABLE, is_error=True) for use in turn.uses]
        finally:
            if self.answering.get(self.memory.digest) is asyncio.current_task():
                del self.answering[self.memory.digest]
            self.server.hub.wake(self.memory.store.id)

    async def _finish(
        self, response: httpx2.Response | None, events: list[JsonObject], turn: ModelTurn, *, is_cut: bool = False
    ) -> None:
        """Send the end of the response. With `is_cut`, the model wanted to go on, but may not."""
        if not self.client.has_begun:
            await self._begin(response)
        stop_reason = "end_turn" if is_cut else None
        if self.request.is_stream:
            await self.client.end(encoded([*events, *turn.end(usage_of(self.turns), stop_reason)]))
        else:
            await self.client.end(json.dumps(whole_reply(self.turns, stop_reason)).encode())

    async def _begin(self, response: httpx2.Response | None) -> None:
        kind = b"text/event-stream; charset=utf-8" if self.request.is_stream else b"application/json"
        headers: Headers = [(b"content-type", kind)]
        if response is not None:
            headers = end_to_end(response.headers.raw, b"date", b"content-encoding")
        headers += [UNAVAILABLE_HEADER] if self.memory.has_failed else []
        is_gzip = response is not None and response.headers.get("content-encoding") == "gzip"
        await self.client.begin(200, headers, is_gzip=is_gzip)

    async def _write(self, events: list[JsonObject]) -> None:
        if self.request.is_stream:
            await self.client.write(encoded(events))

    async def _failed(self, response: httpx2.Response) -> None:
        """Send a response of the API that is no message: as it is, or as an event if the response has begun."""
        if not self.client.has_begun:
            await self.client.forward(response)
            return
        event = failed(unreachable())
        with suppress(*MALFORMED):
            given: Any = json.loads(b"".join([piece async for piece in pieces_of(response.aiter_bytes())]))
            event = given if given["type"] == "error" else event
        await self.client.end(encoded([event]))


async def heavy(size: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function here, or in a thread if a body of this size would hold up the others."""
    return await asyncio.to_thread(work, *arguments) if size > BIG else work(*arguments)
