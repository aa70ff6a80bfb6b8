"""Scripts and their parts (turns, tool calls, checks), and faults to simulate. A fault affects one request.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from retentive.testing.scripted_claude.prompt import Prompt, Result

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}


class ScriptError(ValueError):
    """The script is invalid. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """Conditions for the result of a tool call. The check fails if one of them is not met.

    `text` is the expected text of the result. Each string in `contains` must occur in the text. `is_error` is the
    expected flag of the result. If it is None, both values are accepted. If the other conditions are met, `holds` is
    called with the text. The check fails if `holds` returns a false value or raises an exception.
    """

    text: str | None = None
    contains: tuple[str, ...] = ()
    is_error: bool | None = False
    holds: Callable[[str], object] | None = None

    def problem(self, result: Result) -> str | None:
        """Return a sentence about the first condition that is not met, with the expected and the actual value.

        Returns None if all conditions are met.
        """
        if self.text is not None and result.text != self.text:
            return f"expected the text {self.text!r}, got {result.text!r}"
        for part in self.contains:
            if part not in result.text:
                return f"expected a text that contains {part!r}, got {result.text!r}"
        if self.is_error is not None and result.is_error != self.is_error:
            return f"expected is_error {self.is_error}, got {result.is_error} with the text {result.text!r}"
        try:
            held = self.holds is None or self.holds(result.text)
        except Exception as error:  # the function of a test may raise anything
            return f"the check raised {error!r} for the text {result.text!r}"
        return None if held else f"the check failed for the text {result.text!r}"


@dataclass(frozen=True, slots=True)
class Call:
    """Tool call: a tool_use block with the name and the input of a tool.

    `input` can be any JSON object, even an invalid command. `check` is applied to the result that the client sends. If
    `check` is None, any result is accepted.
    """

    input: Mapping[str, object]
    check: Check | None = None
    name: str = "memory"


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking block. The client must send it back unchanged in later requests; only the server may clear it."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Content block that the server sends unchanged, such as a call of a server tool or the result of such a call."""

    block: Mapping[str, object]


Content: TypeAlias = str | Call | Thinking | Raw


@dataclass(frozen=True, slots=True)
class Turn:
    """Reply of the assistant. Its blocks are texts (str), tool calls, thinking and raw blocks, in order.

    The default stop reason is "tool_use" for a turn with tool calls, and "end_turn" for other turns. Raises
    `ScriptError` for a turn without blocks or with an empty text.
    """

    blocks: tuple[Content, ...]
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if not self.blocks or "" in self.blocks:
            raise ScriptError("a turn must have at least one block, and its texts must not be empty")

    @property
    def calls(self) -> tuple[Call, ...]:
        """Tool calls of the turn, in order."""
        return tuple(block for block in self.blocks if isinstance(block, Call))


@dataclass(frozen=True, slots=True)
class Script:
    """Sequence of turns for one conversation. A turn can be a plain string: a reply with this text.

    The script is used for conversations whose first user message contains `when`.
    """

    turns: tuple[Turn | str, ...]
    name: str = "script"
    when: str = field(default="", kw_only=True)

    def turn(self, number: int) -> Turn | None:
        """Return the turn with this number. The first turn has the number 1. Returns None after the last turn."""
        return to_turn(self.turns[number - 1]) if number <= len(self.turns) else None

    def unplayed(self, played: int) -> str:
        """Return a sentence about the first unplayed turn. `played` is the number of turns that were played.

        Returns an empty string if all turns were played.
        """
        count, turn = len(self.turns), self.turn(played + 1)
        if turn is None:
            return ""
        return f"no request for turn {played + 1} of {count}, {turn.blocks!r:.500}"


ScriptFunction: TypeAlias = "Callable[[Prompt], Turn | Content | Sequence[Content]]"
"""Function that gets a prompt and returns the next turn. It must not keep state between calls."""


def to_turn(answer: object) -> Turn:
    """Convert the return value of a script function to a turn. Raises `ScriptError` for an invalid value."""
    if isinstance(answer, Turn):
        return answer
    blocks = tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)
    for block in blocks:
        if not isinstance(block, (str, Call, Thinking, Raw)):
            raise ScriptError(f"a script function must return a Turn, strings, Calls, Thinking or Raw, got {block!r}")
    return Turn(blocks)


class ApiError(Exception):
    """Error response of the Messages API: a status of `KINDS`, a message and details."""

    def __init__(self, status: int, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.details = details

    def body(self, *, has_id: bool = True) -> dict[str, object]:
        """Return the JSON body of the error. An error response has a `request_id`; an event of a stream does not."""
        error = {
            "type": KINDS[self.status],
            "message": str(self),
            **({"details": self.details} if self.details else {}),
        }
        body: dict[str, object] = {"type": "error", "error": error}
        return {**body, "request_id": new_request_id()} if has_id else body


def new_request_id() -> str:
    """Return the id of a request."""
    return f"req_scripted_{secrets.token_hex(8)}"


def refuse_if(broken: object, message: str) -> None:
    """Raise the error response for an invalid request (status 400) if `broken` is true."""
    if broken:
        raise ApiError(400, message)


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
        message = MESSAGES.get(self.status, KINDS[self.status].replace("_", " "))
        return ApiError(self.status, f"[scripted Claude] {message}")


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
