"""What can go wrong between an agent and the API, each with a stable code and whether it may be tried again.

None of them touches the memory: a command of the memory tool is done whole or not at all, and the conversation in
`agent.messages` stays one that can be sent. Codes of the memory itself are in `retentive.errors`.
"""

from __future__ import annotations

from retentive.errors import RetentiveError


class AgentError(RetentiveError):
    """The base of the errors of an agent. `status` and `request_id` are those of the API's answer, if there was one."""

    code = "agent_error"

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class NotAuthorized(AgentError):
    """The API does not know the key, or the key may not do this."""

    code = "not_authorized"


class RequestRefused(AgentError):
    """The API does not take the request as it is: a field, a model, a size."""

    code = "request_refused"


class RateLimited(AgentError):
    """Too many requests or tokens for now; the SDK's own retries were used up."""

    code = "rate_limited"
    retryable = True


class Overloaded(AgentError):
    """The API has too much to do; the SDK's own retries were used up."""

    code = "overloaded"
    retryable = True


class ApiFailed(AgentError):
    """The API failed inside, or sent what cannot be read."""

    code = "api_failed"
    retryable = True


class ConnectionLost(AgentError):
    """The API could not be reached, did not answer in time, or the answer broke off."""

    code = "connection_lost"
    retryable = True


class Stopped(AgentError):
    """`ask` got no answer to return: the run ended for another reason than that Claude was done.

    `reason` is that of the `Finished` event.
    """

    code = "stopped"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NotSaved(AgentError):
    """The record of a project could not be written; the message is the memory's reply."""

    code = "not_saved"
