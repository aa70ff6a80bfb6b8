"""Adapters to the SDK: the memory as an SDK tool, and SDK errors as `AgentError`. This module imports the SDK."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack, cast

from retentive.values.extras import pip_install

try:
    import anthropic
    import httpx2
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError
    from anthropic.types.beta import BetaMemoryTool20250818Param
except ImportError as error:
    raise ImportError(f"Agent needs the SDK: {pip_install('anthropic')}") from error

from anyio import to_thread

from retentive.agent.conversation import MALFORMED_RESPONSE
from retentive.agent.errors import (
    AgentError,
    ApiFailed,
    ConnectionLost,
    NotAuthorized,
    Overloaded,
    RateLimited,
    RequestRefused,
)
from retentive.errors import InvalidInput
from retentive.integrations.memory import SupportsExecute
from retentive.integrations.messages import TOOL
from retentive.integrations.named import named
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor
from retentive.values.provenance import Origin
from retentive.values.replies import REPLIES

_NO_KEY = "no API key found; set ANTHROPIC_API_KEY or pass a client"
_INTERRUPTED = "the connection to the API was interrupted; call run() without a message to retry"
_LOG = logging.getLogger("retentive.agent")


def new_client() -> anthropic.Anthropic:
    """Create a client with the API key from the environment."""
    with api_errors():
        return anthropic.Anthropic()


def new_async_client() -> anthropic.AsyncAnthropic:
    """Create an async client with the API key from the environment."""
    with api_errors():
        return anthropic.AsyncAnthropic()


class _MemoryCommands:
    """Memory tool for the SDK's tool runner, over any object with `execute`."""

    def __init__(self, memory: SupportsExecute, actor: Actor, **origin: Unpack[Origin]) -> None:
        self._memory = cast("MemoryTree", memory)  # uses only the method `execute`
        self._actor = actor
        self._origin = origin

    def to_dict(self) -> BetaMemoryTool20250818Param:
        """Entry for the `tools` list of a request."""
        return {**TOOL}

    def _answer(self, command: object) -> str:
        try:
            reply = named(self._memory, "agent").execute(command, actor=self._actor, **self._origin)
        except Exception:
            # A bug in this package or in the application's memory. The SDK would pass the exception text to the model.
            _LOG.exception("the memory raised an unexpected error")
            raise ToolError(REPLIES.unavailable) from None
        if reply.is_error:
            raise ToolError(reply.text)
        return reply.text


class MemoryCommands(_MemoryCommands, BetaBuiltinFunctionTool):
    """Memory tool for a sync client."""

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return self._answer(input)


class AsyncMemoryCommands(_MemoryCommands, BetaAsyncBuiltinFunctionTool):
    """Memory tool for an async client. Each command runs in a worker thread and completes even if cancelled."""

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Run a command and return the text of the reply. Raises `ToolError` for an error reply."""
        return await to_thread.run_sync(self._answer, input)


@contextmanager
def api_errors() -> Iterator[None]:
    """Translate the SDK's exceptions for failures of the API and the network to `AgentError`."""
    try:
        yield
    except anthropic.AnthropicError as error:
        raise to_agent_error(error) from error
    except TypeError as error:  # the SDK raises it with the first request if no API key is set
        if "authentication method" not in str(error):
            raise
        raise NotAuthorized(_NO_KEY) from None
    except (httpx2.TransportError, json.JSONDecodeError) as error:
        # The SDK does not wrap these exceptions while it reads a stream. A stream that ends inside an event is invalid
        # JSON.
        raise ConnectionLost(_INTERRUPTED) from error


@contextmanager
def build_errors() -> Iterator[None]:
    """Translate the SDK's exceptions for unknown fields and invalid tools to `InvalidInput`. No request was sent."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the SDK cannot build this request: {error}") from error


@contextmanager
def send_errors() -> Iterator[None]:
    """Translate errors in serializing a request to `InvalidInput`, and in parsing its response to `ApiFailed`."""
    with read_errors():
        try:
            yield
        except UnicodeEncodeError as error:
            raise InvalidInput("the request contains a lone surrogate; check `tools` and `request`") from error
        except TypeError as error:
            if "JSON serializable" not in str(error):
                raise
            raise InvalidInput("the request cannot be serialized as JSON; check `tools` and `request`") from error


@contextmanager
def read_errors() -> Iterator[None]:
    """Translate errors in parsing a response to `ApiFailed`. The SDK parses every response with status 200."""
    try:
        yield
    except json.JSONDecodeError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError, RuntimeError) as error:
        if "authentication method" in str(error):  # no request was sent, see api_errors
            raise
        if isinstance(error, RuntimeError) and "Unexpected event order" not in str(error):
            raise
        raise ApiFailed(MALFORMED_RESPONSE) from error


def ignore_unknown_tool_warnings() -> None:
    """Ignore the SDK's warning about calls of unknown tools. The model gets an error result for such a call.

    The filter applies only to calls from this package. The filter is never removed: filters are global to the process,
    so threads that add and remove filters would undo each other's changes.
    """
    message = r"(?s)Tool(set)? '.*' .*not found in tool runner"
    warnings.filterwarnings("ignore", message, UserWarning, r"retentive\.agent\.")


_BY_TYPE_OR_STATUS: dict[str | int | None, type[AgentError]] = {
    **dict.fromkeys(("authentication_error", "permission_error", "billing_error", 401, 402, 403), NotAuthorized),
    **dict.fromkeys(("rate_limit_error", 429), RateLimited),
    **dict.fromkeys(("overloaded_error", 503, 529), Overloaded),
    **dict.fromkeys(("timeout_error", 408, 504), ConnectionLost),
    "api_error": ApiFailed,
}


def to_agent_error(error: anthropic.AnthropicError) -> AgentError:
    """Convert an SDK error. The message includes the API's explanation, but nothing from the request."""
    if isinstance(error, anthropic.APIStatusError):
        kind = _BY_TYPE_OR_STATUS.get(error.type) or _BY_TYPE_OR_STATUS.get(error.status_code)
        kind = kind or (ApiFailed if error.status_code >= 500 else RequestRefused)
        # An error inside a stream has the status of the stream, 200.
        reason = f"{error.type or error.status_code}: {error.api_message or 'no reason given'}"
        return kind(f"the API returned {reason}", status=error.status_code, request_id=error.request_id)
    if isinstance(error, anthropic.APIConnectionError):
        return ConnectionLost("the API could not be reached or did not respond in time; check the network and retry")
    if isinstance(error, anthropic.APIError):
        return ApiFailed(MALFORMED_RESPONSE)
    if isinstance(error, anthropic.CredentialsError):
        return NotAuthorized(_NO_KEY)
    return RequestRefused(f"the SDK rejected the request: {error}")
