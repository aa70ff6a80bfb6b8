"""Address and API key of a server. Both are checked before a connection is opened."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from retentive.errors import InvalidInput

KEY_VARIABLE = "RETENTIVE_API_KEY"
_INVALID_URL = "the URL of the server is invalid; use https://host or https://host:port"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server, and the API key and options for connecting to it. `url` has no slash at its end."""

    url: str
    is_loopback: bool
    api_key: str = field(repr=False)
    ca_file: str | None = None


def server_at(
    url: str, *, api_key: str | None = None, ca_file: str | None = None, insecure: bool = False
) -> ServerAddress:
    """Parse the URL of a server. The API key comes from the argument or from the environment.

    Raises `InvalidInput`. The error contains neither the key nor the URL, because the URL may contain a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput(_INVALID_URL) from None
    if not host or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(_INVALID_URL)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            "the URL of a server must not have a user, query or fragment; "
            f"pass the API key as `api_key`, or set {KEY_VARIABLE}"
        )
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme == "http" and not insecure and not is_loopback:
        raise InvalidInput("http sends the API key and all memories unencrypted; use https, or pass insecure=True")
    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise InvalidInput(f"to connect to a server, pass an API key as `api_key`, or set {KEY_VARIABLE}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("the API key contains an invalid character")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return ServerAddress(base, is_loopback, key, ca_file)
