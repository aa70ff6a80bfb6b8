"""A stream that ends in the middle of an event is a lost connection, as any other cut is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from anthropic import Anthropic

import commonplace
from commonplace.agent import Agent
from commonplace.agent.errors import ConnectionLost

HALF = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "msg_1", "ty\n\n'


class _Half(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(HALF)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Half)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_half_an_event_is_a_lost_connection(url: str) -> None:
    with commonplace.open("sqlite://") as place, Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        agent = Agent(client, memory=place.store(), stream=True)
        with pytest.raises(ConnectionLost):
            list(agent.run("hello"))
