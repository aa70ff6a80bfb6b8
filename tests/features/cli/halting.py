"""Proxy in front of the scripted Claude that halts or closes the connection in the middle of an answer."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.command_line import DEADLINE_S


class Halting:
    """Proxy that halts its n-th answer after the first event with text, until the client closes the connection.

    With `closes`, it closes the connection directly after the text, in the middle of the event.
    """

    def __init__(self, url: str, *, request: int, after: bytes, closes: bool = False) -> None:
        self.url = ""
        self.halted = threading.Event()
        self._to = url
        self._request = request
        self._after = after
        self._closes = closes
        self._requests = 0

    @contextmanager
    def serving(self) -> Iterator[Halting]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answer(self)

            def log_message(self, *_given: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        data = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP_BY_HOP}
        request = urllib.request.Request(self._to + handler.path, data, headers)
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read()
        handler.send_response(answer.status)
        handler.send_header("content-type", answer.headers["content-type"])
        handler.end_headers()
        self._requests += 1
        if self._requests != self._request:
            handler.wfile.write(body)
            return
        if self._closes:
            handler.wfile.write(body[: body.index(self._after) + len(self._after)])
            return
        handler.wfile.write(body[: body.index(b"\n\n", body.index(self._after)) + 2])
        handler.wfile.flush()
        self.halted.set()
        handler.connection.settimeout(DEADLINE_S)
        handler.connection.recv(1)  # blocks until the client closes


_HOP_BY_HOP = {"host", "connection", "content-length", "accept-encoding"}
