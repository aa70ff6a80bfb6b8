"""HTTP server on the loopback interface, whose requests a test answers."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """Request. The names of its headers are in lowercase."""

    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, bytes]


class _Server(ThreadingHTTPServer):
    def handle_error(self, *where: Any) -> None:
        """Print a traceback, unless a connection was cut."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*where)


@contextmanager
def listening(
    answer: Callable[[Received], Answer], *, certificate: tuple[str, str] | None = None, **headers: str
) -> Iterator[str]:
    """Yield the URL of a server. `answer` returns status and body of each answer, which also has the `headers`.

    It may raise `ConnectionError` to cut the connection.

    `certificate` has the files of a certificate and its private key, for a server with TLS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(given.get("content-length", "0")))
            status, answered = answer(Received(self.path, given, body))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(answered))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answered)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
