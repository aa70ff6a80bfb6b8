"""Opens a location whose URL names a server: `retentive serve` or Anthropic's hosted memory stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retentive.errors import InvalidInput
from retentive.remote.access import Access, Address
from retentive.remote.hosted import HostedLocation
from retentive.remote.location import RemoteLocation

if TYPE_CHECKING:
    from retentive.storage.contract import Actor


def open_location(url: str, access: Access, *, actor: Actor | None, create: bool) -> RemoteLocation:
    """Return the location at a URL. Raises `InvalidInput`."""
    address = Address.parse(url, insecure=access.insecure)
    if not access.is_hosted(address.host):
        return RemoteLocation(address, access, actor=actor, create=create)
    if actor is not None:
        raise InvalidInput("hosted memory stores record the actor of the API key; omit `actor`")
    return HostedLocation(address, access, actor=None, create=create)
