"""Access to the SDK: creates clients, and converts exceptions of the SDK to `AgentError`.

Importing this module imports the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retentive.values.extras import pip_install

try:
    import anthropic
    import httpx2
except ImportError as error:
    raise ImportError(f"Agent needs the SDK: {pip_install('anthropic')}") from error

from retentive.agent.conversation import malformed, replace_surrogates, to_json
from retentive.agent.events import AgentError, Event, Text, block_event
from retentive.errors import InvalidInput

TransportError = httpx2.TransportError
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
    except (TransportError, json.JSONDecodeError) as error:
        # While the SDK reads a stream, it does not wrap these exceptions. If a stream ends inside an event, its JSON is
        # invalid.
        raise _lost(_INTERRUPTED) from error
    except UnicodeEncodeError as error:
        raise InvalidInput("the request contains a lone surrogate; check `tools` and `request`") from error
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError, RuntimeError) as error:
        reason = str(error)
        if "authentication method" in reason:  # raised with the first request if no API key is set
            raise AgentError(_NO_KEY, "not_authorized") from None
        if "JSON serializable" in reason:
            raise InvalidInput("the request cannot be serialized as JSON; check `tools` and `request`") from error
        if isinstance(error, RuntimeError) and "Unexpected event order" not in reason:
            raise
        raise malformed() from error


def stream_events(event: Any) -> tuple[list[Event], bool]:
    """Convert an event of the SDK's stream to agent events.

    Returns the events, and True if this was the last event of the stream. `event` is None at the end of the stream.
    Raises `AgentError` if the stream ended before the end of the response: some proxies close a stream without an
    error.
    """
    if event is None:
        raise _lost(_STREAM_INTERRUPTED)
    match event.type:
        case "content_block_delta" if event.delta.type == "text_delta":
            return [Text(replace_surrogates(event.delta.text))], False
        case "content_block_stop" if event.content_block.type not in ("text", "tool_use"):
            return [block_event(replace_surrogates(to_json(event.content_block)))], False
        case kind:
            return [], kind == "message_stop"


_CODES: dict[str | int | None, str] = {
    **dict.fromkeys(("authentication_error", "permission_error", "billing_error", 401, 402, 403), "not_authorized"),
    **dict.fromkeys(("rate_limit_error", 429), "rate_limited"),
    **dict.fromkeys(("overloaded_error", 503, 529), "overloaded"),
    **dict.fromkeys(("timeout_error", 408, 504), "connection_lost"),
    "api_error": "api_failed",
}


def to_agent_error(error: anthropic.AnthropicError) -> AgentError:
    """Convert an exception of the SDK to an `AgentError`.

    The message contains the explanation that the API gave, but nothing from the request.
    """
    if isinstance(error, anthropic.APIStatusError):
        code = _CODES.get(error.type) or _CODES.get(error.status_code)
        code = code or ("api_failed" if error.status_code >= 500 else "request_refused")
        return AgentError(
            # An error inside a stream has status 200, that of the stream.
            f"the API returned {error.type or error.status_code}: {error.api_message or 'no reason given'}",
            code,
            retryable=code not in ("not_authorized", "request_refused"),
            status=error.status_code,
            request_id=error.request_id,
        )
    if isinstance(error, anthropic.APIConnectionError):
        return _lost("the API could not be reached or did not respond in time; check the network and retry")
    if isinstance(error, anthropic.APIError):
        return malformed()
    if isinstance(error, anthropic.CredentialsError):
        return AgentError(_NO_KEY, "not_authorized")
    return AgentError(f"the SDK rejected the request: {error}", "request_refused")


def _lost(message: str) -> AgentError:
    return AgentError(message, "connection_lost", retryable=True)
