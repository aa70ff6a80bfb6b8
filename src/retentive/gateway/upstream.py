"""Connections to the Messages API. Its URL is fixed when the gateway starts; clients choose only the path below it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx2

from retentive.server.errors import HttpError
from retentive.server.options import check_upstream

Headers = list[tuple[bytes, bytes]]
OURS = b"x-retentive-"
"""Prefix of the headers that are for the gateway and are not forwarded."""
_HOPS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade host content-length expect".split()
)
"""Headers that belong to one connection (RFC 9110, section 7.6.1)."""
_TIMES = httpx2.Timeout(600.0, connect=15.0, pool=15.0)  # as the SDK: a model may think for minutes
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)


class Upstream:
    """The API behind the gateway. If `api_key` is given, it replaces the credentials of the clients."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        check_upstream(url)
        self._url = httpx2.URL(url)
        self._base = self._url.raw_path.rstrip(b"/")
        self.holds_key = bool(api_key)
        self._key = (api_key or "").encode("ascii", "replace")
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def send(
        self, method: str, path: bytes, headers: Headers, body: bytes | AsyncIterable[bytes]
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request, and yield its response as soon as it begins. Leaving the block ends it.

        Raises `HttpError` 502 or 504 if the API cannot be reached or its response does not begin.
        """
        if self._client is None:  # made in the event loop of the server
            self._client = httpx2.AsyncClient(timeout=_TIMES, limits=_LIMITS)
        if self.holds_key:
            headers = [(name, value) for name, value in headers if name not in {b"authorization", b"x-api-key"}]
            headers.append((b"x-api-key", self._key))
        url = self._url.copy_with(raw_path=self._base + path)
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
        if self._client is not None:
            await self._client.aclose()


def unreachable() -> HttpError:
    """Return the error for a connection to the API that failed or broke off."""
    return HttpError(502, "api_error", "the connection to the API failed", "upstream_unavailable")


async def decoded(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the decoded body of a response. Raises `HttpError` if the connection breaks off."""
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx2.HTTPError:
        raise unreachable() from None


async def raw(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body of a response as it is on the wire. Raises `HttpError` if the connection breaks off."""
    try:
        async for piece in response.aiter_raw():
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
    asked = b",".join(value for name, value in headers if name == b"accept-encoding")
    accepts = any(
        each.split(b";")[0].strip() in {b"gzip", b"*"} and b"q=0" not in each.replace(b"q=0.", b"")
        for each in asked.lower().split(b",")
    )
    kept = [(name, value) for name, value in headers if name != b"accept-encoding"]
    return [*kept, (b"accept-encoding", b"gzip" if accepts else b"identity")]


class Encoder:
    """Compresses what the client gets as the API compressed it. Each piece can be read when it arrives."""

    def __init__(self, response: httpx2.Response | None) -> None:
        is_gzip = response is not None and "gzip" in response.headers.get("content-encoding", "")
        self._gzip = zlib.compressobj(wbits=31) if is_gzip else None
        self.headers: Headers = [(b"content-encoding", b"gzip")] if is_gzip else []

    def encode(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return the bytes to send for a piece."""
        if self._gzip is None:
            return data
        return self._gzip.compress(data) + self._gzip.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)
