"""Error responses of the Messages API, and faults to simulate. A fault affects one request.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}


class ApiError(Exception):
    """Error response of the Messages API: a status of `KINDS`, a message, details, and the header `retry-after`."""

    def __init__(
        self,
        status: int,
        message: str,
        details: Mapping[str, object] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.details = details
        self.retry_after = retry_after

    def body(self, request_id: str | None = None) -> dict[str, object]:
        """Return the JSON body of the error. An error response has a `request_id`; an event of a stream does not."""
        error: dict[str, object] = {"type": KINDS[self.status], "message": str(self)}
        if self.details is not None:
            error["details"] = self.details
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}


def refuse_if(broken: object, message: str) -> None:
    """Raise the error response for an invalid request (status 400) if `broken` is true."""
    if broken:
        raise ApiError(400, message)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Fault: the server sends an error response with this status instead of the reply.

    `retry_after` is the value of the header `retry-after`, in seconds. Raises `ValueError` for a status that the API
    does not use.
    """

    status: int
    retry_after: int | None = None

    def __post_init__(self) -> None:
        if self.status not in KINDS:
            raise ValueError(f"the API has no error status {self.status}; use one of {', '.join(map(str, KINDS))}")

    def error(self) -> ApiError:
        """Return the error response as the API sends it."""
        message = MESSAGES.get(self.status, KINDS[self.status].replace("_", " "))
        return ApiError(self.status, f"[scripted Claude] {message}", retry_after=self.retry_after)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Fault: the server closes the connection.

    If `after_events` is None, the connection closes before the response. If it is a number, a stream is cut off after
    this number of events, and a response that is not streamed is cut off in the middle of its body.
    """

    after_events: int | None = None


@dataclass(frozen=True, slots=True)
class StreamError:
    """Fault: a stream ends with an error event after `after_events` events.

    `status` selects the error. A request that does not ask for a stream gets an error response with this status.
    """

    after_events: int = 3
    status: int = 529


Fault: TypeAlias = ErrorResponse | Disconnect | StreamError
FaultPlan: TypeAlias = Mapping[int, Fault] | Callable[[int], Fault | None]
"""Faults by the number of the request, as a mapping or a function. A request without a fault has no entry or None.

Each `POST /v1/messages` has a number, from 1. A retry is a request with a number of its own.
"""
