"""Requests and answers as values, the errors in answers, and the rules for retries. This module does no I/O."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from retentive.errors import (
    AlreadyExists,
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
from retentive.values.paths import ROOT
from retentive.wire.base import Answer
from retentive.wire.errors import ErrorAnswer

T = TypeVar("T")
JsonBody: TypeAlias = dict[str, Any]
MAX_TRIES = 6
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
MAX_RETRY_AFTER_S = 60.0
_NOTHING_DONE = frozenset({429, 503})
"""Statuses of requests that the server did not run, unless the error code is the one of `OutcomeUnknown`."""
_MAYBE_DONE = frozenset({502, 504})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request.

    If `repeats` is True, a request that is sent twice makes its change only once. `key` is the idempotency key of the
    request, the same in all attempts. `run` names the run in which the tool_use id of a command is unique. With
    `returns_conflicts`, an error response that lists conflicts is returned, and no exception is raised. `upload`
    returns the pieces of the body; it is called for each attempt. The body of the response is written to `sink`.
    """

    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = field(default=None, repr=False)
    actor: str | None = None
    run: str | None = None
    repeats: bool = False
    returns_conflicts: bool = False
    key: str = field(default_factory=lambda: f"idem_{uuid.uuid4().hex}")
    upload: Callable[[], Iterator[bytes]] | None = field(default=None, repr=False)
    sink: IO[bytes] | None = field(default=None, repr=False)
    answer: type[Answer] = Answer
    """Model of the answer. By default, the answer has no fields that the client needs."""

    @property
    def is_long(self) -> bool:
        """True if the server may need minutes for the request."""
        return self.upload is not None or self.sink is not None

    @property
    def target(self) -> str:
        """Path and query of the URL. Parameters that are None are left out."""
        given = {name: _plain(value) for name, value in self.query.items() if value is not None}
        return f"{self.path}?{urlencode(given, quote_via=quote)}" if given else self.path

    @property
    def is_change(self) -> bool:
        """True if the request may change something, False if it only reads."""
        return self.method != "GET"

    @property
    def may_repeat(self) -> bool:
        """True if the request can be sent again even if the server may already have run it."""
        return self.repeats or not self.is_change

    def content(self) -> bytes | None:
        """Return the body as JSON, or None if the request has no body.

        Raises `ValueError`, `TypeError` or `RecursionError` if JSON cannot represent the body.
        """
        if self.body is None:
            return None
        return json.dumps(self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def headers(self) -> dict[bytes, bytes]:
        """Return the headers of this request. The client adds headers that are the same for all requests."""
        found = {b"content-type": b"application/json"} if self.body is not None else {}
        if self.upload is not None:
            found[b"content-type"] = b"application/x-tar"
        if self.is_change:
            found[b"idempotency-key"] = self.key.encode()
        if self.actor is not None:
            found[b"retentive-actor"] = self.actor.encode()
        if self.run is not None:
            found[b"retentive-run"] = self.run.encode()
        return found


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Response of a server: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)

    def parsed(self, model: type[Answer]) -> Answer:
        """Return the JSON object in the body. Raises `Unavailable` if it does not fit the model."""
        try:
            return model.model_validate_json(self.content)
        except ValidationError as error:
            if any(each["type"] in {"json_invalid", "model_type"} for each in error.errors(include_url=False)):
                raise Unavailable(f"the answer of the server (status {self.status}) is not a JSON object") from None
            field = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise Unavailable(f"the answer of the server is not as documented: {field}") from None


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Failure of a request that got no answer.

    If `was_sent` is True, the server may have run the request. If `is_final` is True, a retry would fail too.
    """

    message: str
    was_sent: bool
    is_final: bool = False


HttpExchange: TypeAlias = Generator[HttpRequest, Any, T]
"""Method of the library as a generator. It yields requests, receives their answers, and returns its result.

If a request fails, its error is raised inside the generator.
"""


class Tries:
    """Counts the attempts of one request, and decides whether to try again."""

    def __init__(self, request: HttpRequest, tries: int = MAX_TRIES) -> None:
        self._request = request
        self._left = tries
        self._pause = FIRST_PAUSE_S

    def pause_after(self, outcome: HttpAnswer | HttpFailure) -> float | None:
        """Return the seconds to wait before the next attempt, or None if there must be no further attempt."""
        self._left -= 1
        if self._left <= 0 or not self._may_retry(outcome):
            return None
        pause, self._pause = self._pause * random.uniform(0.5, 1), min(MAX_PAUSE_S, self._pause * 2)  # noqa: S311
        return max(pause, _retry_after(outcome)) if isinstance(outcome, HttpAnswer) else pause

    def _may_retry(self, outcome: HttpAnswer | HttpFailure) -> bool:
        if isinstance(outcome, HttpFailure):
            return not outcome.is_final and (self._request.may_repeat or not outcome.was_sent)
        if outcome.status in _NOTHING_DONE:
            return self._request.may_repeat or _code(outcome) != OutcomeUnknown.code
        return outcome.status in _MAYBE_DONE and self._request.may_repeat


def _retry_after(answer: HttpAnswer) -> float:
    text = answer.headers.get("retry-after", "")
    return min(MAX_RETRY_AFTER_S, float(text)) if text.isascii() and text.isdecimal() else 0.0


def read_answer(request: HttpRequest, outcome: HttpAnswer | HttpFailure) -> Answer:
    """Return the object in a response.

    Raises `RetentiveError` if the request got no response, or if the response reports an error.
    """
    if isinstance(outcome, HttpFailure):
        if outcome.was_sent and request.is_change:
            raise OutcomeUnknown(f"{outcome.message}, so it is unknown if the change is stored")
        raise Unavailable(outcome.message)
    if outcome.status == 200:
        return outcome.parsed(request.answer)
    if outcome.status == 409 and request.returns_conflicts:
        found = outcome.parsed(ErrorAnswer)
        if isinstance(found, ErrorAnswer) and found.error.conflicts is not None:
            return found
    raise error_in(request, outcome)


def _code(answer: HttpAnswer) -> str | None:
    try:
        found: object = json.loads(answer.content)["error"]["details"]["error_code"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


_BY_STATUS: Mapping[int, type[RetentiveError]] = {
    400: InvalidInput,
    401: PermissionDenied,
    403: PermissionDenied,
    404: NotFound,
    413: TooLarge,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
_BY_TYPE: Mapping[str, type[RetentiveError]] = {
    "memory_precondition_failed_error": Conflict,
    "memory_path_conflict_error": AlreadyExists,
}
_OWN_CODES: Mapping[str, type[RetentiveError]] = {
    "overloaded": Unavailable,
    "invalid_key": PermissionDenied,
}


def error_in(request: HttpRequest, answer: HttpAnswer) -> RetentiveError:
    """Convert an error response to the exception that callers of this library expect.

    The error code decides the type of the error. If the code is missing or unknown, the status decides.
    """
    try:
        error = json.loads(answer.content)["error"]
        message = str(error["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        error, message = {}, f"the server answered with status {answer.status}, and not with an error of the API"
    code = _code(answer)
    if answer.status in _MAYBE_DONE and request.is_change:
        return OutcomeUnknown(f"{message}; it is unknown if the change is stored")
    found = error_of(message, code)
    if type(found) is RetentiveError and error.get("type") in _BY_TYPE:
        found = _BY_TYPE[error["type"]](message)
    elif type(found) is RetentiveError and code != RetentiveError.code:
        found = _OWN_CODES.get(code or "", _BY_STATUS.get(answer.status, RetentiveError))(message)
    position = error.get("position")
    found.conflicting, found.position = conflicting_in(error), position if isinstance(position, int) else None
    return found


def conflicting_in(given: Mapping[str, object]) -> Conflicting | None:
    """Return the conflicting memory that an answer names, or None."""
    memory_id, path = given.get("conflicting_memory_id"), given.get("conflicting_path")
    is_named = isinstance(memory_id, str) and isinstance(path, str)
    return Conflicting(str(memory_id), f"{ROOT}{path}") if is_named else None


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def segment(name: str) -> str:
    """Quote an id for use as one segment of a URL path."""
    return quote(name, safe="")
