"""Where the SDK begins: the memory as one of its tools, and its errors as ours. Importing this imports the SDK."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from retentive.extras import pip_install

try:
    import anthropic
    import httpx2
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError
except ImportError as error:
    raise ImportError(f"Agent needs the SDK: {pip_install('anthropic')}") from error

from anyio import to_thread

from retentive.agent.conversation import UNREADABLE
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
from retentive.integrations.function_tool import Executes
from retentive.integrations.messages import TOOL
from retentive.storage.contract import Actor
from retentive.values.replies import EN

if TYPE_CHECKING:
    from anthropic.types.beta import BetaMemoryTool20250818Param

_NO_KEY = "no key for the API was found; set ANTHROPIC_API_KEY or give a client"
_LOG = logging.getLogger("retentive.agent")


def new_client() -> anthropic.Anthropic:
    """A client that takes its key from the environment."""
    with api_errors():
        return anthropic.Anthropic()


def new_async_client() -> anthropic.AsyncAnthropic:
    """As `new_client`."""
    with api_errors():
        return anthropic.AsyncAnthropic()


class MemoryCommands(BetaBuiltinFunctionTool):
    """The memory tool for the SDK's runner, over whatever answers commands."""

    def __init__(self, memory: Executes, actor: Actor) -> None:
        self._memory = memory
        self._actor = actor

    def to_dict(self) -> BetaMemoryTool20250818Param:
        """The entry in `tools`."""
        return {**TOOL}

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return _answer(self._memory, input, self._actor)


class AsyncMemoryCommands(BetaAsyncBuiltinFunctionTool):
    """As `MemoryCommands`, each command in a worker thread. A command that began runs to its end."""

    def __init__(self, memory: Executes, actor: Actor) -> None:
        self._memory = memory
        self._actor = actor

    def to_dict(self) -> BetaMemoryTool20250818Param:
        """The entry in `tools`."""
        return {**TOOL}

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """The text of the reply; raises `ToolError` for an error reply."""
        return await to_thread.run_sync(_answer, self._memory, input, self._actor)


def _answer(memory: Executes, command: object, actor: Actor) -> str:
    try:
        reply = memory.execute(command, actor=actor)
    except Exception:
        # A bug, ours or of the application's own memory. The SDK would show the model its text, with whatever is in it.
        _LOG.exception("the memory failed")
        raise ToolError(EN.unavailable) from None
    if reply.is_error:
        raise ToolError(reply.text)
    return reply.text


@contextmanager
def api_errors() -> Iterator[None]:
    """Whatever the SDK raises for the API or the network, as an `AgentError`."""
    try:
        yield
    except anthropic.AnthropicError as error:
        raise translated(error) from error
    except TypeError as error:  # what the SDK raises, at the first request, where no key was given
        if "authentication method" not in str(error):
            raise
        raise NotAuthorized(_NO_KEY) from None
    except (httpx2.TransportError, json.JSONDecodeError) as error:
        # The SDK lets these through while a streamed reply is read; one that ends inside an event is no JSON.
        raise ConnectionLost("the connection to the API broke off; run() without a message tries again") from error


@contextmanager
def making() -> Iterator[None]:
    """What the SDK says of fields and tools it does not know, before anything is sent, as `InvalidInput`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the SDK cannot make this request: {error}") from error


@contextmanager
def asking() -> Iterator[None]:
    """As `reading`, also for what the SDK trips over while it writes the request: that is an `InvalidInput`."""
    with reading():
        try:
            yield
        except UnicodeEncodeError as error:
            raise InvalidInput("the request has a lone surrogate in it, in a tool or a field") from error
        except TypeError as error:
            if "JSON serializable" not in str(error):
                raise
            raise InvalidInput("the request has something in it that is no JSON, in a tool or a field") from error


@contextmanager
def reading() -> Iterator[None]:
    """What the SDK trips over while it reads an answer, as `ApiFailed`: it takes every 200 for a message."""
    try:
        yield
    except json.JSONDecodeError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError) as error:
        if "authentication method" in str(error):  # no answer at all, see api_errors
            raise
        raise ApiFailed(UNREADABLE) from error
    except RuntimeError as error:
        if "Unexpected event order" not in str(error):
            raise
        raise ApiFailed(UNREADABLE) from error


def expect_unknown_tools() -> None:
    """A model may call a tool that is not there, and is told so. The SDK's warning about it is for programmers.

    It is put down for calls made by this package alone, and for good: filters belong to the whole process, so that
    threads that put them down and up again would undo each other's.
    """
    told = r"(?s)Tool(set)? '.*' .*not found in tool runner"
    warnings.filterwarnings("ignore", told, UserWarning, r"retentive\.agent\.")


_BY_TYPE: dict[str, type[AgentError]] = {
    "authentication_error": NotAuthorized,
    "permission_error": NotAuthorized,
    "billing_error": NotAuthorized,
    "rate_limit_error": RateLimited,
    "overloaded_error": Overloaded,
    "api_error": ApiFailed,
    "timeout_error": ConnectionLost,
}
_BY_STATUS: dict[int, type[AgentError]] = {
    401: NotAuthorized,
    402: NotAuthorized,
    403: NotAuthorized,
    408: ConnectionLost,
    429: RateLimited,
    503: Overloaded,
    504: ConnectionLost,
    529: Overloaded,
}


def translated(error: anthropic.AnthropicError) -> AgentError:
    """The error of ours for one of the SDK's. The API's own words are in the message, nothing of the request is."""
    if isinstance(error, anthropic.APIStatusError):
        kind = _BY_TYPE.get(error.type or "") or _BY_STATUS.get(error.status_code)
        kind = kind or (ApiFailed if error.status_code >= 500 else RequestRefused)
        # An error within a stream comes with the status of the stream, 200.
        said = f"{error.type or error.status_code}: {error.api_message or 'no reason was given'}"
        return kind(f"the API answered {said}", status=error.status_code, request_id=error.request_id)
    if isinstance(error, anthropic.APIConnectionError):
        return ConnectionLost("the API could not be reached, or did not answer in time")
    if isinstance(error, anthropic.APIError):
        return ApiFailed("the API sent an answer that cannot be read")
    if isinstance(error, anthropic.CredentialsError):
        return NotAuthorized(_NO_KEY)
    return RequestRefused(f"the SDK refused the request: {error}")
