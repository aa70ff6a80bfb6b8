"""Errors of the agent and of the API. Each class has a stable `code` and a flag `retryable`.

After any of these errors, `agent.messages` is still a valid conversation. The memory is consistent, because each
command is atomic. Errors of the memory itself are in `retentive.errors`.
"""

from __future__ import annotations

from retentive.errors import RetentiveError


class AgentError(RetentiveError):
    """Base class of agent errors. If the API sent a response, `status` and `request_id` are copied from it."""

    code = "agent_error"

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class NotAuthorized(AgentError):
    """The API key is missing, invalid, or lacks permission."""

    code = "not_authorized"


class RequestRefused(AgentError):
    """The API rejected the request.

    For example, a field is invalid, the model is unknown, or the request is too large.
    """

    code = "request_refused"


class RateLimited(AgentError):
    """The rate limit was exceeded, and the retries of the SDK failed too."""

    code = "rate_limited"
    retryable = True


class Overloaded(AgentError):
    """The API was overloaded, and the retries of the SDK failed too."""

    code = "overloaded"
    retryable = True


class ApiFailed(AgentError):
    """The API reported an internal error or sent a malformed response."""

    code = "api_failed"
    retryable = True


class ConnectionLost(AgentError):
    """The API could not be reached, did not respond in time, or closed the connection during a response."""

    code = "connection_lost"
    retryable = True


class Stopped(AgentError):
    """`Agent.ask` cannot return an answer, because the run ended before Claude had finished.

    `reason` is the reason in `Finished`, the last event of the run.
    """

    code = "stopped"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
