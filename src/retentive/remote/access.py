"""Address and API key of a server. Both are checked before a connection is opened."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from retentive.errors import InvalidInput

VARIABLE = "RETENTIVE_API_KEY"
HOSTED = "api.anthropic.com"


@dataclass(frozen=True, slots=True)
class Access:
    """API key and options for connecting to a server.

    `hosted` says whether the server has only the routes of Anthropic's hosted memory stores. If it is None, the host
    name decides.
    """

    api_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    insecure: bool = False
    hosted: bool | None = None

    def is_hosted(self, host: str) -> bool:
        """Return whether the server at `host` has only the routes of Anthropic's hosted memory stores."""
        return host == HOSTED if self.hosted is None else self.hosted

    def key(self) -> str:
        """Return the API key from the argument or from the environment.

        Raises `InvalidInput` if it is missing or malformed. The error does not contain the key.
        """
        found = self.api_key if self.api_key is not None else os.environ.get(VARIABLE, "")
        if not found:
            raise InvalidInput(f"to connect to a server, pass an API key as `api_key`, or set {VARIABLE}")
        if not found.isascii() or not found.isprintable() or " " in found:
            raise InvalidInput("the API key contains an invalid character")
        return found


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server. `base` is the URL without a slash at its end."""

    base: str
    host: str
    is_loopback: bool

    @classmethod
    def parse(cls, url: str, *, insecure: bool = False) -> Address:
        """Parse the URL of a server. Raises `InvalidInput`.

        The error does not contain the URL, because the URL may contain a password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise InvalidInput("the URL of the server is invalid; use https://host or https://host:port") from None
        if not host or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
            raise InvalidInput("the URL of the server is invalid; use https://host or https://host:port")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise InvalidInput(
                "the URL of a server must not have a user, query or fragment; "
                f"pass the API key as `api_key`, or set {VARIABLE}"
            )
        if parts.scheme == "http" and not insecure and not _is_loopback(host):
            raise InvalidInput("http sends the API key and all memories unencrypted; use https, or pass insecure=True")
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", host, _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
