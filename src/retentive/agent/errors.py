"""Errors of the agent and the API, each with a stable `code` and a `retryable` flag.

After any of these errors the memory is consistent, since every command is atomic, and `agent.messages` is still a valid
conversation. The error codes of the memory itself are in `retentive.errors`.
"""

from __future__ import annotations

from retentive.errors import RetentiveError


class AgentError(RetentiveError):
    """Base class of agent errors. `status` and `request_id` come from the response of the API, if it sent one."""

    code = "agent_error"

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class NotAuthorized(AgentError):
    """The API key is missing, invalid, or lacks permission."""

    code = "not_authorized"


class RequestRefused(AgentError):
    """The API rejected the request, for example because of an invalid field, an unknown model or its size."""

    code = "request_refused"


class RateLimited(AgentError):
    """The rate limit was still exceeded after the SDK's own retries."""

    code = "rate_limited"
    retryable = True


class Overloaded(AgentError):
    """The API was still overloaded after the SDK's own retries."""

    code = "overloaded"
    retryable = True


class ApiFailed(AgentError):
    """The API reported an internal error or sent a malformed response."""

    code = "api_failed"
    retryable = True


class ConnectionLost(AgentError):
    """The API was unreachable, timed out, or closed the connection during a response."""

    code = "connection_lost"
    retryable = True


class Stopped(AgentError):
    """`ask` has no answer, because the run ended before Claude was done.

    `reason` is copied from the event `Finished`.
    """

    code = "stopped"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NotSaved(AgentError):
    """Saving the files of a project failed. The error message is the reply of the memory to the failed command."""

    code = "not_saved"
