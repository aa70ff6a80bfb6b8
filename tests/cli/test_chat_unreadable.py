"""An answer that cannot be read is told in a line, and ends nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.canned import streamed_call

from .running import here

CALLS = ['{"command": "create", "path": "/memories/a", "file_text": "x\\ud83d"}', '{"command": view}']


class _Api(BaseHTTPRequestHandler):
    answer = ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=CALLS, ids=["half a character", "no JSON"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("_Answering", (_Api,), {"answer": streamed_call(request.param)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_call_that_cannot_be_read_is_told_and_ends_nothing(url: str, tmp_path: Path) -> None:
    done = here(f"sqlite:///{tmp_path}/memory.db", "chat", "--base-url", url, text=b"Note it.\nAgain.\n/retry\n")
    shown = "Error: The API failed. /retry asks again.\n"
    assert done.stdout.count(shown) + done.stderr.count(shown) == 3
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
