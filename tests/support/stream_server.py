"""Server that answers every request with the same stream, complete or truncated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Answering(BaseHTTPRequestHandler):
    answer = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_answer(answer: bytes) -> Iterator[str]:
    """Start the server and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_This", (_Answering,), {"answer": answer}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
