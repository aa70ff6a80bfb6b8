"""HTTP clients, one for threads and one for event loops. Both run the same exchanges with the same retries.

An exchange is a generator that yields requests and receives their answers.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any, TypeVar

import anyio
from anyio.lowlevel import RunVar

from retentive.errors import Closed, InvalidInput, RetentiveError
from retentive.remote.access import Access, Address
from retentive.remote.requests import HttpAnswer, HttpExchange, HttpFailure, HttpRequest, Tries, read_answer
from retentive.values.extras import pip_install
from retentive.values.unreachable import why_unreachable
from retentive.wire.base import Answer

try:
    import httpx2
except ImportError as error:
    raise InvalidInput(f"to open the URL of a server, install an HTTP client: {pip_install('remote')}") from error

T = TypeVar("T")
OK = 200
CONNECT_S = 10.0
READ_S = 60.0
LONG_READ_S = 600.0
"""Time to wait for an answer to an export or import, in seconds. The server may need minutes."""
HOSTED_HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": "agent-memory-2026-07-22"}
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


class Client:
    """Connections to one server. Threads and event loops may share it.

    `run` sends the requests of an exchange and returns the result of the exchange. `run_async` does the same on the
    running event loop. If a call is cancelled, the exchange still runs to the end, like a call on a local location.
    """

    def __init__(self, address: Address, access: Access) -> None:
        self._options = _options(address, access)
        self._http = httpx2.Client(**self._options)
        self._async: RunVar[httpx2.AsyncClient] = RunVar(f"retentive client {id(self)}")
        self._is_closed = False
        self._is_first = True  # until the first answer of the server
        self._process = os.getpid()

    def run(self, exchange: HttpExchange[T]) -> T:
        """Send the requests of an exchange in this thread. Return the exchange's result. Raises `RetentiveError`."""
        try:
            request = next(exchange)
            while True:
                try:
                    found = self._sent(request)
                except RetentiveError as error:
                    request = exchange.throw(error)
                else:
                    request = exchange.send(found)
        except StopIteration as done:
            result: T = done.value
            return result

    async def run_async(self, exchange: HttpExchange[T]) -> T:
        """Send the requests of an exchange on the event loop. Return the exchange's result. Raises `RetentiveError`.

        If the caller is cancelled, the exchange first runs to its end.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the event loop is trio, where a shield is enough to delay the cancellation
            with anyio.CancelScope(shield=True):
                return await self._run_async(exchange)
        task = loop.create_task(self._run_async(exchange))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.gather(task, return_exceptions=True)
            raise

    async def _run_async(self, exchange: HttpExchange[T]) -> T:
        try:
            request = next(exchange)
            while True:
                try:
                    found = await self._sent_async(request)
                except RetentiveError as error:
                    request = exchange.throw(error)
                else:
                    request = exchange.send(found)
        except StopIteration as done:
            result: T = done.value
            return result

    def _sent(self, request: HttpRequest) -> Answer:
        tries, given, http = Tries(request), self._given(request), self._sync_client()
        outcome: HttpAnswer | HttpFailure
        while True:
            try:
                outcome = _sent_by(http, request, given)
                self._is_first = False
            except httpx2.HTTPError as error:
                outcome = _failure(error, is_first=self._is_first)
            pause = tries.pause_after(outcome)
            if pause is None:
                return read_answer(request, outcome)
            time.sleep(pause)

    async def _sent_async(self, request: HttpRequest) -> Answer:
        tries, given, http = Tries(request), self._given(request), self._async_client()
        outcome: HttpAnswer | HttpFailure
        while True:
            try:
                outcome = await _sent_by_async(http, request, given)
                self._is_first = False
            except httpx2.HTTPError as error:
                outcome = _failure(error, is_first=self._is_first)
            pause = tries.pause_after(outcome)
            if pause is None:
                return read_answer(request, outcome)
            await anyio.sleep(pause)

    def _sync_client(self) -> httpx2.Client:
        """Return the HTTP client of this process.

        After a fork, the child process must neither use nor close the connections of its parent.
        """
        if self._process != os.getpid():
            self._kept_open, self._http = self._http, httpx2.Client(**self._options)
            self._process = os.getpid()
        return self._http

    def _async_client(self) -> httpx2.AsyncClient:
        http = self._async.get(None)
        if http is None:
            http = httpx2.AsyncClient(**self._options)
            self._async.set(http)
        return http

    def _given(self, request: HttpRequest) -> dict[str, Any]:
        if self._is_closed:
            raise Closed("the location was closed; open it again")
        try:
            content, headers = request.content(), request.headers()
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput("an argument cannot be sent as JSON") from None
        longer = {"timeout": httpx2.Timeout(LONG_READ_S, connect=CONNECT_S)} if request.is_long else {}
        return {"method": request.method, "url": request.target, "content": content, "headers": headers, **longer}

    def close(self) -> None:
        """Close the connections of threads.

        The connections of an event loop are closed by `aclose` or when the loop ends.
        """
        self._is_closed = True
        self._http.close()

    async def aclose(self) -> None:
        """Close the connections of threads and of the running event loop."""
        self.close()
        http = self._async.get(None)
        if http is not None:
            await http.aclose()


def _options(address: Address, access: Access) -> dict[str, Any]:
    try:
        verify = ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ValueError):
        raise InvalidInput("`ca_file` cannot be read, or has no certificates in PEM format") from None
    return {
        "base_url": address.base,
        "headers": {
            "authorization": f"Bearer {access.key()}",
            "user-agent": "retentive",
            **(HOSTED_HEADERS if access.is_hosted(address.host) else {}),
        },
        "verify": verify,
        "timeout": httpx2.Timeout(READ_S, connect=CONNECT_S),
        "trust_env": not address.is_loopback,
        "follow_redirects": False,
    }


def _sent_by(http: httpx2.Client, request: HttpRequest, given: dict[str, Any]) -> HttpAnswer:
    if request.upload is not None:
        given = {**given, "content": request.upload()}
    if request.sink is None:
        return _answer(http.request(**given))
    with http.stream(**given) as response:
        if response.status_code != OK:
            response.read()
            return _answer(response)
        _empty(request.sink)
        for piece in response.iter_bytes():
            request.sink.write(piece)
    return HttpAnswer(OK, response.headers, b"{}")


async def _sent_by_async(http: httpx2.AsyncClient, request: HttpRequest, given: dict[str, Any]) -> HttpAnswer:
    if request.upload is not None:
        given = {**given, "content": _async_pieces(request.upload())}
    if request.sink is None:
        return _answer(await http.request(**given))
    async with http.stream(**given) as response:
        if response.status_code != OK:
            await response.aread()
            return _answer(response)
        _empty(request.sink)
        async for piece in response.aiter_bytes():
            request.sink.write(piece)
    return HttpAnswer(OK, response.headers, b"{}")


async def _async_pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _empty(sink: IO[bytes]) -> None:
    """Remove the bytes that an earlier attempt of the request wrote."""
    sink.seek(0)
    sink.truncate()


def _answer(response: httpx2.Response) -> HttpAnswer:
    return HttpAnswer(response.status_code, response.headers, response.content)


def _failure(error: httpx2.HTTPError, *, is_first: bool) -> HttpFailure:
    """Convert an error of the HTTP client to an `HttpFailure`. The message does not contain the server's address.

    `is_first` says that this client never got an answer. Then a refused connection or an unknown host is final, because
    the URL is probably wrong.
    """
    cause: BaseException | None = error
    texts = []
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return HttpFailure("the certificate of the server is not trusted; pass `ca_file`", False, is_final=True)
        texts.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, _NOT_SENT):
        reason = why_unreachable("\n".join(texts))
        message = "the server cannot be reached" if reason is None else f"the server cannot be reached: {reason}"
        return HttpFailure(message, was_sent=False, is_final=is_first and reason is not None)
    if isinstance(error, httpx2.TimeoutException):
        return HttpFailure("the server did not answer in time", was_sent=True)
    return HttpFailure("the connection to the server was cut", was_sent=True)
