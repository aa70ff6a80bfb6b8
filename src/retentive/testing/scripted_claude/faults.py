"""Faults to simulate: error responses, disconnects and interrupted streams. A fault affects one request.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.testing.scripted_claude.errors import KINDS, ApiError

MESSAGES = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}


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
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        message = MESSAGES.get(self.status, KINDS[self.status].replace("_", " "))
        return ApiError(self.status, f"[scripted Claude] {message}", headers=headers)


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


def fault_for(plan: FaultPlan, number: int) -> Fault | None:
    """Return the fault of the request with this number. Returns None if the request has no fault."""
    return plan.get(number) if isinstance(plan, Mapping) else plan(number)
