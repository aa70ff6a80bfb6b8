"""Requests to URLs that others chose: receivers of webhooks, and metadata documents of MCP clients."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from threading import Timer
from urllib.parse import urlsplit

from retentive import __version__
from retentive.errors import InvalidInput
from retentive.server.webhooks import is_public

TIMEOUT_S, TOTAL_S = 10.0, 15.0


def sent(
    method: str, url: str, headers: Mapping[str, str], body: str = "", *, to_private: bool, max_bytes: int = 0
) -> tuple[int, bytes]:
    """Send a request, and return the status and at most `max_bytes` of the response. Redirects are not followed.

    The connection uses an IP address that was checked, so a later DNS change has no effect. Raises `OSError`,
    `HTTPException`, `ValueError` or, if the host may not be sent to, `InvalidInput`.
    """
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    if not is_tls and not to_private:
        raise InvalidInput("the URL must begin with https://")
    found = socket.getaddrinfo(host, parts.port or (443 if is_tls else 80), type=socket.SOCK_STREAM)
    if not to_private and not all(is_public(str(each[4][0]).partition("%")[0]) for each in found):
        raise InvalidInput("the host has a private address")
    opened = socket.create_connection((str(found[0][4][0]), found[0][4][1]), TIMEOUT_S)
    if is_tls:
        context = ssl.create_default_context()
        opened = context.wrap_socket(opened, server_hostname=host, do_handshake_on_connect=False)
    end = Timer(TOTAL_S, _cut, [opened])
    end.daemon = True
    end.start()
    try:
        if isinstance(opened, ssl.SSLSocket):
            opened.do_handshake()
        connection = http.client.HTTPConnection(host, parts.port)
        connection.sock = opened
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body.encode(), {"user-agent": f"retentive/{__version__}", **headers})
        response = connection.getresponse()
        return response.status, response.read(max_bytes)
    finally:
        end.cancel()
        opened.close()


def _cut(connection: socket.socket) -> None:
    """End a connection that takes too long, for example because the receiver sends its response one byte at a time."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
