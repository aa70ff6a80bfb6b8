"""Simulated faults: error responses, disconnects and interrupted streams, for selected requests.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.testing.scripted_claude.errors import ApiError

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}
_FORMAT = re.compile(r"(?P<number>[1-9][0-9]*)=(?P<kind>[0-9]{3}|cut|error)(?::(?P<amount>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Fault: the server sends an error response with this status.

    `retry_after` is the value of the header `retry-after`, in seconds.
    """

    status: int
    retry_after: int | None = None

    def __post_init__(self) -> None:
        if self.status not in KINDS:
            raise ValueError(f"the API has no error status {self.status}; use one of {', '.join(map(str, KINDS))}")

    def error(self) -> ApiError:
        """Create the error response of the API."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        message = MESSAGES.get(self.status, KINDS[self.status].replace("_", " "))
        return ApiError(self.status, KINDS[self.status], f"[scripted Claude] {message}", headers=headers)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Fault: the connection closes before the response, or after `after_events` events of a stream.

    With `after_events`, a response without streaming ends in the middle of its body.
    """

    after_events: int | None = None


@dataclass(frozen=True, slots=True)
class StreamError:
    """Fault: a stream ends with an error event after `after_events` events.

    If the request does not ask for a stream, it gets an error response with `status` instead.
    """

    after_events: int = 3
    status: int = 529


Fault: TypeAlias = ErrorResponse | Disconnect | StreamError
FaultPlan: TypeAlias = Mapping[int, Fault] | Callable[[int], Fault | None]
"""Fault for each `POST /v1/messages`. Requests are numbered from 1, including retries. No entry means no fault."""


def fault_for(plan: FaultPlan, number: int) -> Fault | None:
    """Return the fault for request `number`, or None."""
    return plan.get(number) if isinstance(plan, Mapping) else plan(number)


def parse_fault(text: str) -> tuple[int, Fault]:
    """Parse a fault from the command line, such as `3=429:2`, `4=529`, `5=cut`, `6=cut:4` or `7=error:4`.

    The first number is that of the request. The number after the colon is `retry_after` for a status, otherwise
    `after_events`. Raises `ValueError`.
    """
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid fault {text!r}; expected a form like 3=429:2, 4=529, 5=cut, 6=cut:4 or 7=error:4")
    number, kind = int(match["number"]), match["kind"]
    amount = int(match["amount"]) if match["amount"] else None
    if kind == "cut":
        return number, Disconnect(amount)
    if kind == "error":
        return number, StreamError() if amount is None else StreamError(amount)
    return number, ErrorResponse(int(kind), amount)
