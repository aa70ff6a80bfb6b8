"""Rules for every request and answer of the console: host, origin, and headers."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COOKIE = "retentive"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
PRIVATE = {"cache-control": "no-store", "vary": "cookie"}


def host_of(headers: Mapping[str, str]) -> str:
    """Host name of a request without its port; empty if it is malformed."""
    try:
        return (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    except ValueError:
        return ""


def is_known_host(host: str, allowed: frozenset[str]) -> bool:
    """Return whether a host name may be used.

    Another site can point its own name at this server (DNS rebinding), so names must be listed. Addresses are safe.
    """
    if host in LOOPBACK or host in allowed:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Return whether another site sent a request that changes something. Browsers send at least one of the headers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site not in {None, "same-origin"}:
        return True
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def is_secure(scheme: str, host: str) -> bool:
    """Return whether cookies need TLS: always, except over plain HTTP on this machine."""
    return scheme == "https" or host not in LOOPBACK


def cookie_name(kind: str, *, secure: bool) -> str:
    """Name of a cookie. Browsers accept the prefix `__Host-` only over TLS and only from the host itself."""
    return f"__Host-{COOKIE}{kind}" if secure else f"{COOKIE}{kind}"


def cookie(kind: str, value: str, *, secure: bool, max_age: int) -> str:
    """The header that sets a cookie. It is `Lax`, so that links from other sites work; no GET changes anything."""
    ending = "; Secure" if secure else ""
    return f"{cookie_name(kind, secure=secure)}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{ending}"
