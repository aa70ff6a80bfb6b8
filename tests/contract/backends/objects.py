"""Object backends with small pages, direct access to their objects, and a proxy that loses or changes replies."""

from __future__ import annotations

import re
import socket
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BufferedIOBase
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.records import DIGEST_CHARS
from retentive.storage.objects.requests import Requests

HOST = "127.0.0.1"
BUCKET = "wired"


def small(url: str, **options: Any) -> ObjectsBackend:
    """A backend that compacts after a few writes."""
    return ObjectsBackend(url, sizes=Sizes(log=4, page=6, fan_out=3), **options)


class Bottom:
    """Direct access to the objects, without a backend."""

    def __init__(self, url: str) -> None:
        self.store: Any = Requests(url).client(retries=False)

    def listed(self, under: str | None = None) -> list[str]:
        return [found["path"] for found in self.store.list(under).collect()]

    def get(self, key: str) -> bytes:
        return bytes(self.store.get(key).bytes())

    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data)

    def delete(self, key: str) -> None:
        self.store.delete(key)


def everything(url: str) -> str:
    """All decompressed bytes of a location."""
    return "\n".join(f"{key} {plain(Bottom(url).get(key))}" for key in Bottom(url).listed())


def plain(data: bytes) -> str:
    """The decompressed bytes of an object."""
    head, _, body = data.partition(b"\n")
    is_compressed = head.startswith(b"retentive ") and not head.startswith((b"retentive pack ", b"retentive format "))
    return (zlib.decompress(body[DIGEST_CHARS:]) if is_compressed else data).decode(errors="replace")


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

    @classmethod
    def read(cls, stream: BufferedIOBase) -> Asked | None:
        """Read one complete request. Returns None at the end of the connection."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return None
            head += line
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        return cls(head + stream.read(int(length[1]) if length else 0))


Reply = bytes | None
Rule = Callable[[Asked, Callable[[bytes], bytes]], Reply]
"""Function that returns the reply to a request, or None to close the connection. Its second argument forwards bytes."""


class Wire(ThreadingTCPServer):
    """A server in front of another server. A rule handles each request and decides about the reply."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__((HOST, 0), _Exchanges)
        self._behind = port
        self.rule: Rule = lambda asked, forward: forward(asked.raw)
        self.asked: list[Asked] = []
        self.port = int(self.server_address[1])
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def forward(self, raw: bytes) -> bytes:
        """Forward a request on a new connection, and return the server's reply."""
        closing = raw.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
        with socket.create_connection((HOST, self._behind)) as server:
            server.sendall(closing)
            reply = b"".join(iter(lambda: server.recv(65_536), b""))
        return re.sub(rb"\r\nconnection: close", b"", reply, flags=re.IGNORECASE)

    def close(self) -> None:
        """Stop the proxy."""
        self.shutdown()
        self.server_close()


class _Exchanges(StreamRequestHandler):
    server: Wire

    def handle(self) -> None:
        with suppress(OSError):
            while (asked := Asked.read(self.rfile)) is not None:
                self.server.asked.append(asked)
                reply = self.server.rule(asked, self.server.forward)
                if reply is None:
                    return
                self.wfile.write(reply)


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
