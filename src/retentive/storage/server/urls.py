"""Server URLs: splits our options from those of the driver."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from retentive.errors import InvalidInput

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1.0, 3_600.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits of one process: timeout of one command, and open connections."""

    timeout_s: float = 30.0
    connections: int = 16

    def __post_init__(self) -> None:
        if not MIN_TIMEOUT_S <= self.timeout_s <= MAX_TIMEOUT_S:
            raise InvalidInput(f"timeout_s must be {MIN_TIMEOUT_S:.0f} to {MAX_TIMEOUT_S:.0f} seconds")
        if not 1 <= self.connections <= 10_000:
            raise InvalidInput("connections must be 1 to 10000")


def split_options(rest: str) -> tuple[str, ServerOptions, dict[str, str]]:
    """Split the part after `scheme://` into the address, our options and the remaining query options.

    Raises `InvalidInput`; its message omits the URL, which may have a password.
    """
    address, _, query = rest.partition("?")
    try:
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        ours = ServerOptions(
            timeout_s=float(given.pop("timeout_s", "30")), connections=int(given.pop("connections", "16"))
        )
    except ValueError:
        raise InvalidInput("the options of a place are `?name=value&name=value`; timeouts are numbers") from None
    return address, ours, given


def refuse_unknown(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raise `InvalidInput` for an unknown option."""
    for name in given:
        if name not in known:
            raise InvalidInput(f"unknown option {name!r} of the place; known are timeout_s, connections, {known}")
