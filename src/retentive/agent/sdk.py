"""Access to the SDK: creates clients, and converts exceptions of the SDK to `AgentError`.

Importing this module imports the SDK.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from retentive.values.extras import pip_install

try:
    import anthropic
    import httpx2
except ImportError as error:
    raise ImportError(f"Agent needs the SDK: {pip_install('anthropic')}") from error

from retentive.agent.checks import replace_surrogates
from retentive.agent.conversation import MALFORMED_RESPONSE, to_json
from retentive.agent.errors import (
    AgentError,
    ApiFailed,
    ConnectionLost,
    NotAuthorized,
    Overloaded,
    RateLimited,
    RequestRefused,
)
from retentive.agent.events import Event, Text, block_events
from retentive.errors import InvalidInput

_NO_KEY = "no API key found; set ANTHROPIC_API_KEY or pass a client"
_STREAM_INTERRUPTED = "the response of the API was interrupted; call run() without a message to retry"
_INTERRUPTED = "the connection to the API was interrupted; call run() without a message to retry"


def new_client() -> anthropic.Anthropic:
    """Create a client with the API key from the environment."""
    with api_errors():
        return anthropic.Anthropic()


def new_async_client() -> anthropic.AsyncAnthropic:
    """Create an async client with the API key from the environment."""
    with api_errors():
        return anthropic.AsyncAnthropic()


@contextmanager
def api_errors() -> Iterator[None]:
    """Raise `AgentError` in place of the exceptions of the SDK, and `InvalidInput` if it cannot build the request.

    The SDK tries to parse each response with status 200, even a malformed one, and may then raise a `TypeError` or
    another exception that the SDK does not define.
    """
    try:
        yield
    except anthropic.AnthropicError as error:
        raise to_agent_error(error) from error
    except (httpx2.TransportError, json.JSONDecodeError) as error:
        # While the SDK reads a stream, it does not wrap these exceptions. If a stream ends inside an event, its JSON is
        # invalid.
        raise ConnectionLost(_INTERRUPTED) from error
    except UnicodeEncodeError as error:
        raise InvalidInput("the request contains a lone surrogate; check `tools` and `request`") from error
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError, RuntimeError) as error:
        reason = str(error)
        if "authentication method" in reason:  # raised with the first request if no API key is set
            raise NotAuthorized(_NO_KEY) from None
        if "JSON serializable" in reason:
            raise InvalidInput("the request cannot be serialized as JSON; check `tools` and `request`") from error
        if isinstance(error, RuntimeError) and "Unexpected event order" not in reason:
            raise
        raise ApiFailed(MALFORMED_RESPONSE) from error


def check_fields(method: Callable[..., object], fields: Mapping[str, object]) -> None:
    """Raise `InvalidInput` if a method of the SDK does not accept these fields."""
    try:
        inspect.signature(method).bind(**fields)
    except TypeError as error:
        raise InvalidInput(f"the SDK cannot build this request: {error}") from error


def stream_events(event: Any) -> tuple[list[Event], bool]:
    """Convert an event of the SDK's stream to agent events.

    Returns the events, and True if this was the last event of the stream. `event` is None at the end of the stream.
    Raises `ConnectionLost` if the stream ended before the end of the response: some proxies close a stream without an
    error.
    """
    if event is None:
        raise ConnectionLost(_STREAM_INTERRUPTED)
    match event.type:
        case "content_block_delta" if event.delta.type == "text_delta":
            return [Text(replace_surrogates(event.delta.text))], False
        case "content_block_stop" if event.content_block.type not in ("text", "tool_use"):
            return block_events(replace_surrogates(to_json(event.content_block))), False
        case kind:
            return [], kind == "message_stop"


def lost_after_the_end() -> suppress:
    """Return a context manager that ignores the loss of the connection after the end of a response.

    The rest of the stream is not needed. It is read only so that the connection can be reused.
    """
    return suppress(httpx2.TransportError)


_BY_TYPE_OR_STATUS: dict[str | int | None, type[AgentError]] = {
    **dict.fromkeys(("authentication_error", "permission_error", "billing_error", 401, 402, 403), NotAuthorized),
    **dict.fromkeys(("rate_limit_error", 429), RateLimited),
    **dict.fromkeys(("overloaded_error", 503, 529), Overloaded),
    **dict.fromkeys(("timeout_error", 408, 504), ConnectionLost),
    "api_error": ApiFailed,
}


def to_agent_error(error: anthropic.AnthropicError) -> AgentError:
    """Convert an exception of the SDK to an `AgentError`.

    The message contains the explanation that the API gave, but nothing from the request.
    """
    if isinstance(error, anthropic.APIStatusError):
        kind = _BY_TYPE_OR_STATUS.get(error.type) or _BY_TYPE_OR_STATUS.get(error.status_code)
        kind = kind or (ApiFailed if error.status_code >= 500 else RequestRefused)
        # An error inside a stream has status 200, that of the stream.
        reason = f"{error.type or error.status_code}: {error.api_message or 'no reason given'}"
        return kind(f"the API returned {reason}", status=error.status_code, request_id=error.request_id)
    if isinstance(error, anthropic.APIConnectionError):
        return ConnectionLost("the API could not be reached or did not respond in time; check the network and retry")
    if isinstance(error, anthropic.APIError):
        return ApiFailed(MALFORMED_RESPONSE)
    if isinstance(error, anthropic.CredentialsError):
        return NotAuthorized(_NO_KEY)
    return RequestRefused(f"the SDK rejected the request: {error}")
