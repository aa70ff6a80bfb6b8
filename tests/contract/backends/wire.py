"""A proxy between object storage and its clients that loses, delays or changes replies."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

PATIENCE_S = 60.0
HOST = "127.0.0.1"
BUCKET = "wired"


class Asked:
    """A request as the proxy receives it."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.method, self.path = raw.split(b" ", 2)[:2]
        self.head = raw.partition(b"\r\n\r\n")[0].lower()

    @property
    def is_commit(self) -> bool:
        """True for a request that replaces a manifest."""
        return self.method == b"PUT" and b"/manifests/" in self.path and b"\r\nif-match:" in self.head

    def without(self, header: str) -> bytes:
        """Return the request without this header."""
        return re.sub(rb"\r\n" + header.encode() + rb":[^\r]*", b"", self.raw, flags=re.IGNORECASE)


Reply = bytes | None
Rule = Callable[[Asked, Callable[[bytes], bytes]], Reply]
"""Function that returns the reply to a request, or None to close the connection. Its second argument forwards bytes."""


class Wire:
    """A server in front of another server. A rule handles each request and decides about the reply."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.rule: Rule = lambda asked, forward: forward(asked.raw)
        self.asked: list[Asked] = []
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.add(client)
                self._start(partial(self._serve, client))

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            while (raw := read_message(client)) is not None:
                asked = Asked(raw)
                self.asked.append(asked)
                reply = self.rule(asked, self.forward)
                if reply is None:
                    return
                client.sendall(reply)

    def forward(self, raw: bytes) -> bytes:
        """Forward a request on a new connection, and return the server's reply."""
        closing = raw.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
        with socket.create_connection((HOST, self._port)) as server:
            server.sendall(closing)
            parts = []
            while part := server.recv(65_536):
                parts.append(part)
        return re.sub(rb"\r\nconnection: close", b"", b"".join(parts), flags=re.IGNORECASE)

    def close(self) -> None:
        """Stop the proxy."""
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def read_message(client: socket.socket) -> bytes | None:
    """Read one complete request. Returns None at the end of the connection."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = client.recv(65_536)
        if not part:
            return None
        raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    missing = (int(length[1]) if length else 0) - len(body)
    while missing > 0:
        part = client.recv(missing)
        if not part:
            return None
        raw, missing = raw + part, missing - len(part)
    return raw


def nth(numbers: set[int], chosen: Callable[[Asked], bool], rule: Rule) -> Rule:
    """Apply a rule to the requests with these numbers, counted among the selected ones.

    All other requests are forwarded.
    """
    count = [0]
    lock = threading.Lock()

    def ruled(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        with lock:
            count[0] += chosen(asked)
            hit = chosen(asked) and count[0] in numbers
        return rule(asked, forward) if hit else forward(asked.raw)

    return ruled


def cut_after(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Let the server execute the request, and close the client's connection without a reply."""
    forward(asked.raw)
    return None


def cut_before(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Close the client's connection without forwarding the request."""
    return None


def failed(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Let the server execute the request, and send the client an error reply of a gateway."""
    forward(asked.raw)
    return b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"


def is_commit(asked: Asked) -> bool:
    return asked.is_commit
