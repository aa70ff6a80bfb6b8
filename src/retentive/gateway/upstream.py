"""Connections to the Messages API. Its URL is fixed when the gateway starts; clients choose only the path below it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx2

from retentive.server.errors import HttpError

Headers = list[tuple[bytes, bytes]]
OURS = b"x-retentive-"
"""Prefix of the headers that are for the gateway and are not forwarded."""
_HOPS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade host content-length expect".split()
)
"""Headers that belong to one connection (RFC 9110, section 7.6.1)."""
_GZIP = re.compile(rb"(?:\bgzip\b|\*)(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_TIMES = httpx2.Timeout(600.0, connect=15.0, pool=15.0)  # as the SDK: a model may think for minutes
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)


class Upstream:
    """The API behind the gateway. If `api_key` is given, it replaces the credentials of the clients."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self._url = httpx2.URL(url)
        self._key = api_key
        self._client = httpx2.AsyncClient(timeout=_TIMES, limits=_LIMITS)

    @asynccontextmanager
    async def send(
        self, method: str, path: bytes, headers: Headers, body: bytes | AsyncIterable[bytes]
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request, and yield its response as soon as it begins. Leaving the block ends it.

        Raises `HttpError` 502 or 504 if the API cannot be reached or its response does not begin.
        """
        if self._key:
            headers = [(name, value) for name, value in headers if name not in {b"authorization", b"x-api-key"}]
            headers.append((b"x-api-key", self._key.encode("ascii", "replace")))
        url = self._url.copy_with(raw_path=self._url.raw_path.rstrip(b"/") + path)
        try:
            response = await self._client.send(httpx2.Request(method, url, headers=headers, content=body), stream=True)
        except httpx2.TimeoutException:
            raise HttpError(504, "timeout_error", "the API did not answer in time", "upstream_timeout") from None
        except (httpx2.HTTPError, httpx2.InvalidURL):
            raise unreachable() from None
        try:
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def unreachable() -> HttpError:
    """Return the error for a connection to the API that failed or broke off."""
    return HttpError(502, "api_error", "the connection to the API failed", "upstream_unavailable")


async def pieces_of(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of the body of a response. Raises `HttpError` if the connection breaks off."""
    try:
        async for piece in body:
            yield piece
    except httpx2.HTTPError:
        raise unreachable() from None


def end_to_end(headers: Iterable[tuple[bytes, bytes]], *others: bytes) -> Headers:
    """Return the headers that a proxy forwards, without those for the gateway and without `others`."""
    found = [(name.lower(), value) for name, value in headers]
    named = {each.strip().lower() for name, value in found if name == b"connection" for each in value.split(b",")}
    gone = _HOPS | named | {*others}
    return [(name, value) for name, value in found if name not in gone and not name.startswith(OURS)]


def encoding_for(headers: Headers) -> Headers:
    """Return the headers of a request whose response the gateway reads: compressed by gzip if the client accepts it."""
    asked = b",".join(value for name, value in headers if name == b"accept-encoding").lower()
    kept = [(name, value) for name, value in headers if name != b"accept-encoding"]
    return [*kept, (b"accept-encoding", b"gzip" if _GZIP.search(asked) else b"identity")]
