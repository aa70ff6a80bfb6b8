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
PRIVATE = {**HEADERS, "cache-control": "no-store", "vary": "cookie"}
"""Headers of pages, which no browser keeps."""


def host_of(headers: Mapping[str, str]) -> str:
    """Return the host name of a request without its port. Empty if it is malformed."""
    try:
        return (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    except ValueError:
        return ""


def is_known_host(host: str, allowed: frozenset[str]) -> bool:
    """Return whether requests may use this host name.

    Another site can make its own host name resolve to this server (DNS rebinding). So only listed names are allowed. IP
    addresses are always allowed.
    """
    if host in LOOPBACK or host in allowed:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Return whether another site sent a POST request. Browsers send at least one of the headers checked here."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site not in {None, "same-origin"}:
        return True
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def is_secure(scheme: str, host: str) -> bool:
    """Return whether cookies are sent only over TLS. The only exception is plain HTTP on this machine."""
    return scheme == "https" or host not in LOOPBACK


def cookie_name(kind: str, *, secure: bool) -> str:
    """Return the name of a cookie. Browsers accept the prefix `__Host-` only over TLS and from the host itself."""
    return f"__Host-{COOKIE}{kind}" if secure else f"{COOKIE}{kind}"


def cookie(kind: str, value: str, *, secure: bool, max_age: int) -> str:
    """Return the header that sets a cookie.

    With `SameSite=Lax`, links from other sites work. This is safe, because no GET changes data.
    """
    ending = "; Secure" if secure else ""
    return f"{cookie_name(kind, secure=secure)}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{ending}"
