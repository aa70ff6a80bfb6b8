"""Errors of the object storage driver: their texts contain URLs and times, which must not decide the meaning."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from retentive.errors import PermissionDenied, Unavailable
from retentive.storage.objects.requests import Missing, Requests

PREFIX = "416/169.254.1.2/invalidrange/403"  # what a prefix, a key, a port or a time can contain
URL = f"s3://bucket/{PREFIX}?endpoint=http://127.0.0.1:{{port}}&region=us-east-1&allow_http=true&timeout_s=1"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@contextmanager
def replying(status: str, body: bytes = b"") -> Iterator[Requests]:
    """Requests to a server that sends one reply to everything."""
    reply = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(reply)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield Requests(URL.format(port=listening.getsockname()[1]))
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_numbers_in_the_url_of_an_unreachable_storage_mean_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    requests = Requests(URL.format(port=port))
    with pytest.raises(Unavailable):
        requests.get("416")
    with pytest.raises(Unavailable):
        requests.get_range("416", 0, 1)


def test_numbers_in_the_url_of_a_failed_request_mean_nothing() -> None:
    with replying("400 Bad Request") as requests:
        with pytest.raises(Unavailable):
            requests.get("416")
        with pytest.raises(Unavailable):
            requests.get_range("416", 0, 1)


@pytest.mark.parametrize("body", [b"", b"<Error><Code>InvalidRange</Code></Error>"])
def test_a_range_behind_the_end_is_missing(body: bytes) -> None:
    with replying("416 Range Not Satisfiable", body) as requests, pytest.raises(Missing):
        requests.get_range("a", 5, 1)


def test_a_range_behind_the_end_in_memory_is_missing() -> None:
    requests = Requests("memory://ranges")
    requests.put("a", b"xyz")
    with pytest.raises(Missing):
        requests.get_range("a", 5, 3)


def test_a_forbidden_request_is_refused() -> None:
    with replying("403 Forbidden") as requests, pytest.raises(PermissionDenied, match="lack a permission"):
        requests.get("a")
