"""Troubles a scripted Claude can be told to have: which request, and what goes wrong with it.

Sources: "Errors" (statuses and types), "Rate limits" (retry-after), "Streaming Messages" (error events).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.testing.scripted_claude.errors import ApiError

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
WORDS = {429: "This request would exceed your rate limit.", 500: "Internal server error", 529: "Overloaded"}
_SPELT = re.compile(r"(?P<number>[1-9][0-9]*)=(?P<what>[0-9]{3}|cut|error)(?::(?P<amount>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class Refused:
    """Answered with this status instead, and with `retry_after` seconds in the header of that name."""

    status: int
    retry_after: int | None = None

    def __post_init__(self) -> None:
        if self.status not in KINDS:
            raise ValueError(f"the API has no error {self.status}, only {', '.join(map(str, KINDS))}")

    def error(self) -> ApiError:
        """The error as the API would send it."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        words = WORDS.get(self.status, KINDS[self.status].replace("_", " "))
        return ApiError(self.status, KINDS[self.status], f"[scripted Claude] {words}", headers=headers)


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends: before anything of the answer, or after so many events of a streamed one.

    A plain answer that is cut after events ends in the middle of its body.
    """

    after_events: int | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A streamed answer ends with an error event after so many events; a plain one is refused with that status."""

    after_events: int = 3
    status: int = 529


Trouble: TypeAlias = Refused | Cut | Broken
Plan: TypeAlias = Mapping[int, Trouble] | Callable[[int], Trouble | None]
"""The trouble of the n-th `POST /v1/messages`, counted from 1, repeats included; none where it has no entry."""


def trouble_of(plan: Plan, number: int) -> Trouble | None:
    """What goes wrong with request `number`."""
    return plan.get(number) if isinstance(plan, Mapping) else plan(number)


def trouble_from(spelt: str) -> tuple[int, Trouble]:
    """One entry of a plan, as the program takes it: `3=429:2`, `4=529`, `5=cut`, `6=cut:4`, `7=error:4`.

    After the colon: seconds for retry-after, or events that still come. Raises `ValueError`.
    """
    found = _SPELT.fullmatch(spelt)
    if found is None:
        raise ValueError(f"{spelt!r} is no trouble, expected such as 3=429:2, 4=529, 5=cut, 6=cut:4 or 7=error:4")
    number, what = int(found["number"]), found["what"]
    amount = int(found["amount"]) if found["amount"] else None
    if what == "cut":
        return number, Cut(amount)
    if what == "error":
        return number, Broken() if amount is None else Broken(amount)
    return number, Refused(int(what), amount)
