"""HTTP client of a server: one request with its retries, and the errors in answers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import anyio
import httpx2
from anyio.lowlevel import RunVar
from pydantic import ValidationError

from retentive.errors import (
    Closed,
    Conflict,
    Conflicting,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    RetentiveError,
    TooLarge,
    Unavailable,
    error_of,
)
from retentive.values.extras import why_unreachable
from retentive.wire.base import Answer, tool_path
from retentive.wire.history import ErrorAnswer

if TYPE_CHECKING:
    from retentive.remote.location import ServerAddress

T = TypeVar("T")
A = TypeVar("A", bound=Answer)
CONNECT_S = 10.0
READ_S = 60.0
LONG_READ_S = 600.0
"""Time to wait for an answer to an export or import, in seconds. The server may need minutes."""
MAX_TRIES = 6
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
MAX_RETRY_AFTER_S = 60.0
_RETRIED = frozenset({429, 502, 503, 504})
_MAYBE_DONE = frozenset({502, 504})
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_BY_STATUS: Mapping[int, type[RetentiveError]] = {
    400: InvalidInput, 401: PermissionDenied, 403: PermissionDenied, 404: NotFound, 409: Conflict,
    413: TooLarge, 429: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpRequest(Generic[A]):
    """One request, and the model of its answer.

    `key` is the idempotency key of the request, the same in all attempts: a request that is sent twice makes its change
    only once, unless `is_once` says that the route makes it each time. `run` names the run in which the tool_use id of
    a command is unique. `upload` returns the pieces of the body; it is called for each attempt. The body of the
    response is written to `sink`.
    """

    method: str
    path: str
    answer: type[A]
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = field(default=None, repr=False)
    actor: str | None = None
    run: str | None = None
    key: str = field(default_factory=lambda: f"idem_{uuid.uuid4().hex}")
    is_once: bool = False
    upload: Callable[[], Iterator[bytes]] | None = field(default=None, repr=False)
    sink: IO[bytes] | None = field(default=None, repr=False)

    @property
    def is_change(self) -> bool:
        """True if the request may change something, False if it only reads."""
        return self.method != "GET"

    def options(self) -> dict[str, Any]:
        """Return the arguments for the HTTP client. Query parameters that are None are left out.

        Raises `InvalidInput` if JSON cannot represent the body.
        """
        headers, found = dict[str, bytes](), dict[str, Any]()
        try:
            if self.body is not None:
                headers["content-type"] = b"application/json"
                text = json.dumps(
                    self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=datetime.isoformat
                )
                found["content"] = text.encode()
            query = {name: _plain(value) for name, value in self.query.items() if value is not None}
            url = f"{self.path}?{urlencode(query, quote_via=quote)}" if query else self.path
            named = {"retentive-actor": self.actor, "retentive-run": self.run}
            headers |= {name: value.encode() for name, value in named.items() if value is not None}
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput("an argument cannot be sent as JSON") from None
        if self.upload is not None:
            headers["content-type"] = b"application/x-tar"
        if self.upload is not None or self.sink is not None:
            found["timeout"] = httpx2.Timeout(LONG_READ_S, connect=CONNECT_S)
        if self.is_change:
            headers["idempotency-key"] = self.key.encode()
        return {**found, "method": self.method, "url": url, "headers": headers}


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Failure of a request that got no answer.

    If `was_sent` is True, the server may have run the request. If `is_final` is True, a retry would fail too.
    """

    message: str
    was_sent: bool
    is_final: bool = False


class Conflicts(Conflict):
    """Error in an answer that lists what is in the way of a change."""

    def __init__(self, message: str, answer: ErrorAnswer) -> None:
        super().__init__(message)
        self.answer = answer


class Client:
    """Connections to one server. Threads and event loops may share it."""

    def __init__(self, server: ServerAddress) -> None:
        try:
            verify = ssl.create_default_context(cafile=server.ca_file)
        except (OSError, ValueError):
            raise InvalidInput("`ca_file` cannot be read, or has no certificates in PEM format") from None
        self._options: dict[str, Any] = {
            "base_url": server.url,
            "headers": {"authorization": f"Bearer {server.api_key}", "user-agent": "retentive"},
            "verify": verify,
            "timeout": httpx2.Timeout(READ_S, connect=CONNECT_S),
            "trust_env": not server.is_loopback,
            "follow_redirects": False,
        }
        self._http = httpx2.Client(**self._options)
        self._async: RunVar[httpx2.AsyncClient] = RunVar(f"retentive client {id(self)}")
        self._is_closed = False
        self._is_first = True  # until the first answer of the server
        self._process = os.getpid()

    async def send(self, request: HttpRequest[A], *, is_async: bool) -> A:
        """Send a request, again if the rules for retries allow it, and return the answer. Raises `RetentiveError`.

        With `is_async`, the caller's event loop waits. Otherwise the thread waits, and nothing is ever suspended.
        """
        if self._is_closed:
            raise Closed("the location was closed; open it again")
        options, tries = request.options(), 0
        outcome: httpx2.Response | HttpFailure
        while True:
            try:
                outcome = await self._stream_async(request, options) if is_async else self._stream(request, options)
                self._is_first = False
            except httpx2.HTTPError as error:
                outcome = _failure(error, is_first=self._is_first)
            tries += 1
            may_be_done = outcome.was_sent if isinstance(outcome, HttpFailure) else outcome.status_code in _MAYBE_DONE
            pause = None if request.is_once and may_be_done else pause_after(outcome, tries)
            if pause is None:
                return read_answer(request, outcome)
            if is_async:
                await anyio.sleep(pause)
            else:
                time.sleep(pause)

    def _stream(self, request: HttpRequest[A], options: dict[str, Any]) -> httpx2.Response:
        if self._process != os.getpid():  # a forked child must neither use nor close the connections of its parent
            self._kept_open, self._http = self._http, httpx2.Client(**self._options)
            self._process = os.getpid()
        if request.upload is not None:
            options = {**options, "content": request.upload()}
        with self._http.stream(**options) as response:
            if request.sink is None or response.status_code != 200:
                response.read()
                return response
            _empty(request.sink)
            for piece in response.iter_bytes():
                request.sink.write(piece)
        return response

    async def _stream_async(self, request: HttpRequest[A], options: dict[str, Any]) -> httpx2.Response:
        http = self._async.get(None)
        if http is None:
            http = httpx2.AsyncClient(**self._options)
            self._async.set(http)
        if request.upload is not None:
            options = {**options, "content": _async_pieces(request.upload())}
        async with http.stream(**options) as response:
            if request.sink is None or response.status_code != 200:
                await response.aread()
                return response
            _empty(request.sink)
            async for piece in response.aiter_bytes():
                request.sink.write(piece)
        return response

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a method of a `described` object on the event loop. If the caller is cancelled, it first runs to its end.

        So a call on a server is like a call on a local location.
        """
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:  # the event loop is trio, where a shield is enough to delay the cancellation
            with anyio.CancelScope(shield=True):
                return await work
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.gather(task, return_exceptions=True)
            raise

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


def pause_after(outcome: httpx2.Response | HttpFailure, tries: int) -> float | None:
    """Return the seconds to wait before the next attempt, or None if there must be no further attempt.

    `tries` is the number of attempts that were made. A request whose answer was lost is sent again too, because a
    repeated request makes its change only once.
    """
    if isinstance(outcome, HttpFailure):
        again, least = not outcome.is_final, 0.0
    else:
        given = outcome.headers.get("retry-after", "")
        again = outcome.status_code in _RETRIED
        least = min(MAX_RETRY_AFTER_S, float(given)) if given.isascii() and given.isdecimal() else 0.0
    if tries >= MAX_TRIES or not again:
        return None
    pause = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (tries - 1))
    return max(pause * random.uniform(0.5, 1), least)  # noqa: S311


def read_answer(request: HttpRequest[A], outcome: httpx2.Response | HttpFailure) -> A:
    """Return the object in a response.

    Raises `RetentiveError` if the request got no response, or if the response reports an error. The error code decides
    the type of the error. If the code is missing or unknown, the status decides.
    """
    if isinstance(outcome, HttpFailure):
        if outcome.was_sent and request.is_change:
            raise OutcomeUnknown(f"{outcome.message}, so it is unknown if the change is stored")
        raise Unavailable(outcome.message)
    status = outcome.status_code
    if status == 200:
        return request.answer() if request.sink is not None else _parsed(outcome, request.answer)
    try:
        error = json.loads(outcome.content)["error"]
        message, code = str(error["message"]), error.get("details", {}).get("error_code")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        error, code = {}, None
        message = f"the server answered with status {status}, and not with an error of the API"
    if status == 409 and error.get("conflicts") is not None:
        raise Conflicts(message, _parsed(outcome, ErrorAnswer))
    if status in _MAYBE_DONE and request.is_change:
        raise OutcomeUnknown(f"{message}; it is unknown if the change is stored")
    found = error_of(message, code if isinstance(code, str) else None)
    if type(found) is RetentiveError and code != RetentiveError.code:
        found = _BY_STATUS.get(status, RetentiveError)(message)
    memory_id, path, position = map(error.get, ("conflicting_memory_id", "conflicting_path", "position"))
    found.position = position if isinstance(position, int) else None
    if isinstance(memory_id, str) and isinstance(path, str):
        found.conflicting = Conflicting(memory_id, tool_path(path))
    raise found


def _parsed(response: httpx2.Response, model: type[A]) -> A:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        found = error.errors(include_url=False)
    if any(each["type"] in {"json_invalid", "model_type"} for each in found):
        raise Unavailable(f"the answer of the server (status {response.status_code}) is not a JSON object")
    raise Unavailable(f"the answer of the server is not as documented: {'.'.join(map(str, found[0]['loc']))}")


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


async def _async_pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _empty(sink: IO[bytes]) -> None:
    """Remove the bytes that an earlier attempt of the request wrote."""
    sink.seek(0)
    sink.truncate()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value
