"""HTTP client of a server: one request with its retries, and the errors in answers."""

from __future__ import annotations

import json
import os
import random
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import httpx2
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
from retentive.wire.base import Answer
from retentive.wire.errors import ErrorAnswer
from retentive.wire.history import ConflictObject
from retentive.wire.review import ObstacleObject

if TYPE_CHECKING:
    from retentive.remote.location import ServerAddress

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
class HttpFailure:
    """Failure of a request that got no answer.

    If `was_sent` is True, the server may have run the request. If `is_final` is True, a retry would fail too.
    """

    message: str
    was_sent: bool
    is_final: bool = False


class Conflicts(Conflict):
    """Error in an answer that lists what is in the way of a change."""

    def __init__(self, message: str, conflicts: Sequence[ConflictObject | ObstacleObject]) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class Client:
    """Connections to one server. Threads may share it."""

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
        self._is_closed = False
        self._is_first = True  # until the first answer of the server
        self._process = os.getpid()

    def call(
        self, answer: type[A], method: str, path: str, *, query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None, actor: str | None = None, run: str | None = None,
        key: str | None = None, is_once: bool = False, upload: Callable[[], Iterator[bytes]] | None = None,
        sink: IO[bytes] | None = None,
    ) -> A:  # fmt: skip
        """Send a request, again if the rules for retries allow it, and return the answer. Raises `RetentiveError`.

        `key` is the idempotency key of a change, the same in all attempts: a request that is sent twice makes its
        change only once, unless `is_once` says that the route makes it each time. `run` names the run in which the
        tool_use id of a command is unique. `upload` returns the pieces of the body; it is called for each attempt. The
        body of the response is written to `sink`. Query parameters that are None are left out.
        """
        if self._is_closed:
            raise Closed("the location was closed; open it again")
        options, is_change, tries = _options(path, query or {}, body, actor, run), method != "GET", 0
        if is_change:
            options["headers"]["idempotency-key"] = key or f"idem_{uuid.uuid4().hex}"
        if upload is not None:
            options["headers"]["content-type"] = "application/x-tar"
        if upload is not None or sink is not None:
            options["timeout"] = httpx2.Timeout(LONG_READ_S, connect=CONNECT_S)
        outcome: httpx2.Response | HttpFailure
        while True:
            try:
                outcome = self._stream(method, {**options, **({"content": upload()} if upload else {})}, sink)
                self._is_first = False
            except httpx2.HTTPError as error:
                outcome = _failure(error, is_first=self._is_first)
            tries += 1
            may_be_done = outcome.was_sent if isinstance(outcome, HttpFailure) else outcome.status_code in _MAYBE_DONE
            pause = None if is_once and may_be_done else pause_after(outcome, tries)
            if pause is None:
                return read_answer(answer, outcome, is_change=is_change, is_file=sink is not None)
            time.sleep(pause)

    def _stream(self, method: str, options: dict[str, Any], sink: IO[bytes] | None) -> httpx2.Response:
        if self._process != os.getpid():  # a forked child must neither use nor close the connections of its parent
            self._kept_open, self._http = self._http, httpx2.Client(**self._options)
            self._process = os.getpid()
        with self._http.stream(method, **options) as response:
            if sink is None or response.status_code != 200:
                response.read()
                return response
            sink.seek(0)  # an earlier attempt may have written a part
            sink.truncate()
            for piece in response.iter_bytes():
                sink.write(piece)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._http.close()


def _options(
    path: str, query: Mapping[str, object], body: Mapping[str, object] | None, actor: str | None, run: str | None
) -> dict[str, Any]:
    """Return the arguments for the HTTP client. Raises `InvalidInput` if JSON cannot represent the body."""
    try:
        asked = {name: _plain(value) for name, value in query.items() if value is not None}
        named = {"retentive-actor": actor, "retentive-run": run}
        headers = {name: value.encode() for name, value in named.items() if value is not None}
        found: dict[str, Any] = {"url": f"{path}?{urlencode(asked, quote_via=quote)}" if asked else path}
        if body is not None:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, default=datetime.isoformat)
            headers["content-type"], found["content"] = b"application/json", text.encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("an argument cannot be sent as JSON") from None
    return {**found, "headers": headers}


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


def read_answer(
    answer: type[A], outcome: httpx2.Response | HttpFailure, *, is_change: bool, is_file: bool = False
) -> A:
    """Return the object in a response.

    Raises `RetentiveError` if the request got no response, or if the response reports an error. The error code decides
    the type of the error. If the code is unknown, the status decides.
    """
    if isinstance(outcome, HttpFailure):
        if outcome.was_sent and is_change:
            raise OutcomeUnknown(f"{outcome.message}, so it is unknown if the change is stored")
        raise Unavailable(outcome.message)
    status = outcome.status_code
    try:
        if status == 200:
            return answer() if is_file else answer.model_validate_json(outcome.content)
        error = ErrorAnswer.model_validate_json(outcome.content).error
    except ValidationError:
        message = f"the server answered with status {status}, and not as the API of memory stores does"
        if status in _MAYBE_DONE and is_change:
            raise OutcomeUnknown(f"{message}; it is unknown if the change is stored") from None
        raise (Unavailable if status in {200, 404} else _BY_STATUS.get(status, RetentiveError))(message) from None
    if error.conflicts is not None:
        raise Conflicts(error.message, error.conflicts)
    if status in _MAYBE_DONE and is_change:
        raise OutcomeUnknown(f"{error.message}; it is unknown if the change is stored")
    code = error.details.error_code
    found = error_of(error.message, code)
    if type(found) is RetentiveError and code != RetentiveError.code:
        found = _BY_STATUS.get(status, RetentiveError)(error.message)
    found.position = error.position
    if error.conflicting_memory_id is not None and error.conflicting_path is not None:
        found.conflicting = Conflicting(error.conflicting_memory_id, error.conflicting_path)
    raise found


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
    hint = "; if its port takes only TLS, use https" if error.request.url.scheme == "http" else ""
    return HttpFailure(f"the connection to the server was cut{hint}", was_sent=True)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value
