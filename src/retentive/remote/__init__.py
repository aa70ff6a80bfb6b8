"""Remote locations: the library over HTTP, with `retentive serve` or Anthropic's hosted memory stores as the server.

Only the two transports do I/O. Every other method is a generator that yields requests and returns its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from retentive.remote.location import RemoteLocation
    from retentive.remote.store import RemoteStore


def is_remote(opened: object) -> bool:
    """Return True if an open memory store or location is on a server. Imports nothing."""
    return hasattr(type(opened), "described")


def remote_store(store: object) -> RemoteStore | None:
    """Return the memory store if it is on a server, otherwise None."""
    return cast("RemoteStore", store) if is_remote(store) else None


def remote_location(opened: object) -> RemoteLocation | None:
    """Return the location if it is a server, otherwise None."""
    return cast("RemoteLocation", opened) if is_remote(opened) else None
