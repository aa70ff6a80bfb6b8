"""Options of the server.

One table defines the flags and environment variables of `retentive serve`, and the settings in its configuration file.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from retentive.errors import InvalidInput
from retentive.wire.stores import rate_of

PREFIX = "RETENTIVE_SERVE_"
"""Prefix of the environment variables for the options."""
CONFIG = PREFIX + "CONFIG"
MAX_PORT = 65_535
THREADS = 40
QUEUE = 200
"""Maximum number of calls that wait for a thread. Further calls get status 503."""
STREAMS_OF_KEY = 100
DEADLINE_S = 60
"""Default deadline of a request. It is shorter than the timeouts of the SDKs (600 s) and of most proxies."""


def option(
    default: str | int | bool | None, text: str, *, metavar: str = "", low: int = 0, high: int | None = None
) -> Any:
    """Return a field of `ServeOptions` that users can set, with its description and the bounds of a number."""
    return field(default=default, metadata={"text": text, "metavar": metavar, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Location and options of the server. The fields created with `option` are settings that users can set."""

    url: str
    key_file: str | None = None
    pages: str | None = None
    """Name of a function that returns more routes, as `module:name`. Its arguments are the server and the options."""
    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8080, "Port; 0 is a free one.", high=MAX_PORT)
    workers: int = option(1, "Number of processes.", low=1, high=64)
    threads: int = option(THREADS, "Calls that a process runs at the same time.", low=1, high=1_000)
    queue: int = option(QUEUE, "Calls that wait in a process; further ones get 503.", high=100_000)
    deadline_s: int = option(DEADLINE_S, "Seconds after which a call gets 504.", low=1, high=3_600)
    rate: str | None = option(None, "Requests of each key, such as 50/s or 600/m.", metavar="N/s")
    streams: int = option(STREAMS_OF_KEY, "Event streams that a key may have open in a process.", low=1, high=100_000)
    tls_cert: str | None = option(None, "TLS certificate with its chain, as PEM.", metavar="FILE")
    tls_key: str | None = option(None, "Private key of the certificate, as PEM.", metavar="FILE")
    lease_s: int = option(30, "Seconds until another process takes over webhooks and maintenance.", low=1, high=3_600)
    webhooks_to_private: bool = option(
        False, "Send webhooks to private addresses and without TLS too, and read documents of MCP clients there."
    )
    public_url: str | None = option(None, "URL at which clients reach the server (docs/frameworks.md).", metavar="URL")
    oauth: str | None = option(None, "Issuers of OAuth tokens, as TOML (docs/security.md).", metavar="FILE")
    trusted_proxies: str | None = option(
        None, "Proxies whose X-Forwarded-For and -Proto count: addresses and networks, with commas.", metavar="LIST"
    )
    insecure_no_tls: bool = option(False, "Allow an address of other machines without TLS.")
    console: bool = option(True, "Serve the web console at /console, if its extra is installed.")
    console_hosts: str | None = option(None, "Host names of the console, separated by commas.", metavar="NAMES")
    gateway: bool = option(False, "Give apps the memory tool at /gateway/STORE (docs/server.md).")
    gateway_upstream: str = option("https://api.anthropic.com", "URL of the Messages API.", metavar="URL")
    gateway_rounds: int = option(
        20, "Turns with memory calls that the gateway answers in one request.", low=1, high=100
    )
    metrics: bool = option(True, "Answer GET /metrics, for Prometheus, without a key.")
    request_log: bool = option(True, "Log each request as a line of JSON on standard error.")

    @property
    def proxies(self) -> list[str]:
        """Trusted proxies. Raises `InvalidInput` if one is no address or network, or stands for all addresses."""
        found = [each.strip() for each in (self.trusted_proxies or "").split(",") if each.strip()]
        for each in found:
            if not _is_network(each):
                raise InvalidInput(f"--trusted-proxies: {each!r} must be an address, or a network such as 10.0.0.0/8")
        return found

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can connect."""
        return is_loopback(self.host)

    def address(self, port: int) -> str:
        """Return the URL that the server has when it listens on `port`."""
        scheme = "http" if self.tls_cert is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"

    def check(self) -> None:
        """Raise `InvalidInput` if an option is invalid, or if other machines could connect without TLS."""
        rate_of(self.rate)
        check_upstream(self.gateway_upstream)
        _ = self.proxies
        if self.public_url is not None:
            check_public_url(self.public_url)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidInput("--tls-cert and --tls-key must be given together")
        for path in (self.tls_cert, self.tls_key):
            if path is not None and not os.access(path, os.R_OK):
                raise InvalidInput(f"{path} cannot be read")
        if not self.is_loopback and self.tls_cert is None and not self.insecure_no_tls:
            raise InvalidInput(
                f"{self.host} can be reached from other machines, so keys and memories need TLS: give --tls-cert and "
                "--tls-key, or give --insecure-no-tls if a proxy in front of the server encrypts the connections"
            )


def check_public_url(url: str) -> None:
    """Raise `InvalidInput` if `url` is not like https://memory.example.com. On this machine, it may have http.

    Clients write URLs in lower case and without the default port.
    """
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        is_bare = url == f"{parts.scheme}://{parts.netloc}" and "@" not in url and bool(parts.hostname)
        is_plain = url.islower() and parts.port not in {0, 443 if parts.scheme == "https" else 80}
        is_valid = is_safe and is_bare and is_plain
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidInput("--public-url must be an https URL without a path, such as https://memory.example.com")


def check_upstream(url: str) -> None:
    """Raise `InvalidInput` if `url` cannot be the URL of a Messages API."""
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or "@" in parts.netloc:
        raise InvalidInput("the URL of the Messages API must be https://HOST, without a user name and a query")


def is_loopback(host: str | None) -> bool:
    """Return whether the name or address of a host is one of this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    """Return whether `text` is an IP address or a network, but not that of all addresses."""
    try:
        return ipaddress.ip_network(text).prefixlen > 0
    except ValueError:
        return False


def settings() -> list[Field[Any]]:
    """Return the fields that users can set, in the order in which the help lists them."""
    return [each for each in fields(ServeOptions) if each.metadata]


def kind_of(setting: Field[Any]) -> type:
    """Return the type of the values of a setting."""
    return str if setting.default is None else type(setting.default)


def read_configuration(path: str) -> Mapping[str, Any]:
    """Return the settings in a TOML file, and its location (`at`) and key file (`keys`).

    Raises `InvalidInput` if a name is unknown or a value has the wrong type.
    """
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
    kinds: dict[str, type] = {"at": str, "keys": str} | {each.name: kind_of(each) for each in settings()}
    for name, value in found.items():
        if name not in kinds:
            raise InvalidInput(f"{path}: there is no setting {name!r}; `retentive serve --help` lists them")
        if type(value) is not kinds[name]:
            of = {str: "string", int: "integer", bool: "boolean"}[kinds[name]]
            raise InvalidInput(f"{path}: {name} must be of the type {of}")
    return found
