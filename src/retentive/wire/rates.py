"""Request rates, such as `50/s`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from retentive.errors import InvalidInput

NO_LIMIT = "none"
"""Text for a key without a rate limit, even if the server has a default rate."""
RATE_PATTERN = r"^(none|[1-9][0-9]{0,6}/[smh])$"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_RATE = re.compile(r"([1-9][0-9]{0,6})/([smh])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """Limit on requests, as a token bucket.

    A request takes one token. The bucket holds at most `burst` tokens, and gains `per_s` tokens each second.
    """

    burst: int
    per_s: float


def rate_of(text: str | None) -> Rate | None:
    """Return the rate in a text such as `50/s`, `600/m` or `1000/h`. Return None for None and for `none`.

    Raises `InvalidInput` if the text is not a rate.
    """
    if text is None or text == NO_LIMIT:
        return None
    found = _RATE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "a rate must be a number per second, minute or hour, such as 50/s, 600/m or 1000/h, or `none`"
        )
    number = int(found[1])
    return Rate(number, number / _SECONDS[found[2]])
