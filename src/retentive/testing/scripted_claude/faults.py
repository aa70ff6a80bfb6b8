"""Simulated faults: error responses, disconnects and interrupted streams, for selected requests.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.testing.scripted_claude.rules import KINDS, ApiError

MESSAGES = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}


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
