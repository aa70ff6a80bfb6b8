"""Hostile and broken clients over raw sockets: malformed HTTP, smuggling, slow requests, and large headers."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import pytest

import retentive
from retentive.server.protocol import MAX_URL_BYTES, ClientConnection
from support.http_api import Api, serving

KEYS = "/v1/organizations/api_keys"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")


class Impatient(ClientConnection):
    headers_s, body_s, write_s = 0.3, 0.3, 0.5
    lost = Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with short deadlines."""
    path: Path = tmp_path_factory.mktemp("impatient") / "memory.db"
    with retentive.open(f"sqlite:///{path}") as opened, serving(opened, http=Impatient) as found:
        yield found


def connect(api: Api) -> socket.socket:
    return socket.create_connection(address(api), timeout=20)


def address(api: Api) -> tuple[str, int]:
    parts = urlsplit(api.url)
    return parts.hostname or "", parts.port or 0


def rest_of(connection: socket.socket) -> bytes:
    """Bytes until the server closes the connection."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            found += piece
    return found


def exchange(api: Api, *pieces: bytes) -> bytes:
    """Send bytes on a new connection, and return the answers until the server closes it."""
    with connect(api) as connection:
        with suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return rest_of(connection)


def statuses(answers: bytes) -> list[int]:
    return [int(each) for each in STATUS.findall(answers)]


def head(api: Api, line: str = f"POST {KEYS} HTTP/1.1", *lines: str) -> bytes:
    return "\r\n".join([line, "Host: x", f"X-Api-Key: {api.key}", *lines, "", ""]).encode("latin-1")


def refusal(answers: bytes) -> dict[str, object]:
    """The error in the last answer, which has the form of all errors."""
    top, _, body = answers.rpartition(b"\r\n\r\n")
    found = json.loads(body)
    assert f"request-id: {found['request_id']}".encode() in top
    error: dict[str, object] = found["error"]
    return error


LAST = "Connection: close"
SECOND = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
BODY = '{"name":"smuggled"}'
CHUNKED = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"
SMUGGLING = {
    "both lengths": (["Content-Length: 4", "Transfer-Encoding: chunked"], CHUNKED),
    "both lengths, reversed": (["Transfer-Encoding: chunked", "Content-Length: 4"], CHUNKED),
    "two lengths": (["Content-Length: 4", "Content-Length: 19"], BODY),
    "two equal lengths": (["Content-Length: 19", "Content-Length: 19"], BODY),
    "a list of lengths": (["Content-Length: 19, 19"], BODY),
    "a signed length": (["Content-Length: +19"], BODY),
    "a negative length": (["Content-Length: -1"], BODY),
    "a hexadecimal length": (["Content-Length: 0x13"], BODY),
    "a huge length": (["Content-Length: 99999999999999999999999"], BODY),
    "an empty length": (["Content-Length:"], BODY),
    "a length with a space": (["Content-Length: 1 9"], BODY),
    "a space before the colon": (["Content-Length : 19"], BODY),
    "a space before the name": ([" Content-Length: 19"], BODY),
    "a tab before the colon": (["Transfer-Encoding\t: chunked"], CHUNKED),
    "two encodings": (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], CHUNKED),
    "chunked twice": (["Transfer-Encoding: chunked, chunked"], CHUNKED),
    "chunked not last": (["Transfer-Encoding: chunked, gzip"], CHUNKED),
    "gzip before chunked": (["Transfer-Encoding: gzip, chunked"], CHUNKED),
    "identity": (["Transfer-Encoding: identity", "Content-Length: 19"], BODY),
    "an unknown encoding": (["Transfer-Encoding: xchunked"], CHUNKED),
    "a quoted encoding": (['Transfer-Encoding: "chunked"'], CHUNKED),
    "a vertical tab": (["Transfer-Encoding: \x0bchunked"], CHUNKED),
    "a folded header": (["Transfer-Encoding:\r\n chunked"], CHUNKED),
    "a folded value": (["X-A: b\r\n Transfer-Encoding: chunked"], BODY),
    "a bare line feed": (["X-A: b\nTransfer-Encoding: chunked"], CHUNKED),
    "a bare carriage return": (["X-A: b\rTransfer-Encoding: chunked"], CHUNKED),
    "NUL in a value": (["X-A: b\0c", "Content-Length: 19"], BODY),
    "NUL in a name": (["X-\0A: b", "Content-Length: 19"], BODY),
    "no colon": (["Content-Length 19"], BODY),
    "an empty name": ([": 19", "Content-Length: 19"], BODY),
    "two hosts": (["Host: y", "Content-Length: 19"], BODY),
    "two keys": (["X-Api-Key: rtv_other", "Content-Length: 19"], BODY),
    "a chunk with a signed size": (["Transfer-Encoding: chunked"], f"+13\r\n{BODY}\r\n0\r\n\r\n"),
    "a chunk with a prefix": (["Transfer-Encoding: chunked"], f"0x13\r\n{BODY}\r\n0\r\n\r\n"),
    "a chunk that is too long": (["Transfer-Encoding: chunked"], f"4\r\n{BODY}\r\n0\r\n\r\n"),
    "a chunk with a huge size": (["Transfer-Encoding: chunked"], f"fffffffffffffffff\r\n{BODY}"),
    "a chunk with a bare line feed": (["Transfer-Encoding: chunked"], f"13\n{BODY}\r\n0\r\n\r\n"),
    "a chunk extension with a line feed": (["Transfer-Encoding: chunked"], f"13;a\nb\r\n{BODY}\r\n0\r\n\r\n"),
    "a chunk with a space": (["Transfer-Encoding: chunked"], f"13 \r\n{BODY}\r\n0\r\n\r\n"),
    "no size": (["Transfer-Encoding: chunked"], f"\r\n{BODY}\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("case", SMUGGLING)
def test_ambiguous_requests_are_refused(api: Api, case: str) -> None:
    """One answer, 400; the connection is closed, so nothing that follows is taken for a request."""
    lines, body = SMUGGLING[case]
    answers = exchange(api, head(api, f"POST {KEYS} HTTP/1.1", *lines) + body.encode() + SECOND.encode())
    assert statuses(answers) == [400], answers
    assert "smuggled" not in [each.name for each in api.place.keys.all()]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: x\n\n",
        b"GET /healthz\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health\x00z HTTP/1.1\r\nHost: x\r\n\r\n",
        b"G\xc3\x89T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"\xff" * 1_000,
    ],
)
def test_malformed_requests_are_refused(api: Api, sent: bytes) -> None:
    answers = exchange(api, sent)
    assert statuses(answers) == [400], answers


def test_oversized_headers_and_urls(api: Api) -> None:
    get = f"GET {KEYS} HTTP/1.1"
    for lines, status, limit in (
        ([get, "X-A: " + "a" * 70_000], 431, "65536 bytes"),
        ([get, *(f"X-{number}: a" for number in range(200))], 431, "100 headers"),
        ([get, *("X-A: " + "a" * 900 for _ in range(80))], 431, "65536 bytes"),
        ([f"GET {KEYS}?page={'a' * 20_000} HTTP/1.1"], 414, f"{MAX_URL_BYTES} bytes"),
        ([get, "X-A: " + "a" * 60_000, LAST], 200, ""),
    ):
        answers = exchange(api, head(api, *lines))
        assert statuses(answers) == [status]
        if status != 200:
            refused = refusal(answers)
            assert refused["type"] == "request_too_large"
            assert str(refused["message"]).endswith(f"at most {limit}")


@pytest.mark.parametrize(
    ("lines", "start", "piece"),
    [
        ([], b"", b"X-A: " + b"a" * 65_000 + b"\r\n"),
        (["Transfer-Encoding: chunked"], b"\r\n1\r\n{\r\n0\r\nX-A: ", b"a" * 65_536),
        (["Transfer-Encoding: chunked"], b"\r\n1\r\n{\r\n0\r\n", b"X-A: " + b"a" * 1_000 + b"\r\n"),
        (["Transfer-Encoding: chunked"], b"\r\n1;", b"a" * 65_536),
    ],
)
def test_what_has_no_end_takes_no_memory(api: Api, lines: list[str], start: bytes, piece: bytes) -> None:
    """Headers, trailers and extensions: the server closes, and does not keep the bytes."""
    with connect(api) as connection:
        connection.sendall(head(api, f"POST {KEYS} HTTP/1.1", *lines)[:-2] + start)
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 << 20:
                connection.sendall(piece)
                sent += len(piece)
        assert sent < 32 << 20


def test_chunks_of_one_byte(api: Api) -> None:
    body = "".join(f"1\r\n{each}\r\n" for each in '{"name":"' + "x" * 50_000 + '"}') + "0\r\n\r\n"
    answers = exchange(api, head(api, f"POST {KEYS} HTTP/1.1", "Transfer-Encoding: chunked", LAST) + body.encode())
    assert refusal(answers)["message"] == "name: String should have at most 255 characters"


@pytest.mark.parametrize("trailer", ["X-A: y", "X-Api-Key: x", "Retentive-Actor: user:x", "Idempotency-Key: x y"])
@pytest.mark.parametrize("is_late", [False, True])
def test_trailers_are_ignored(api: Api, trailer: str, *, is_late: bool) -> None:
    """Whether they arrive with the headers or later."""
    body = f"{len(BODY):x}\r\n{BODY.replace('smuggled', 'trailers')}\r\n0\r\n"
    top = head(api, f"POST {KEYS} HTTP/1.1", "Transfer-Encoding: chunked", LAST).decode() + body
    last = f"{trailer}\r\n\r\n"
    pieces = [top, last] if is_late else [top + last]
    assert statuses(exchange(api, *(each.encode() for each in pieces))) == [200]


def test_a_trailer_is_no_key(api: Api) -> None:
    sent = f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{LAST}\r\n\r\n{CHUNKED[:-2]}"
    assert statuses(exchange(api, f"{sent}X-Api-Key: {api.key}\r\n\r\n".encode())) == [401]


def test_a_request_before_a_malformed_one_is_answered(api: Api) -> None:
    answers = exchange(api, head(api, f"GET {KEYS} HTTP/1.1") + b"\0garbage\r\n\r\n")
    assert statuses(answers) == [200]
    with connect(api) as connection:
        connection.sendall(head(api, f"GET {KEYS} HTTP/1.1"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"\0garbage\r\n\r\n")
        assert statuses(rest_of(connection)) == [400]


def test_chunk_extensions_are_ignored(api: Api) -> None:
    body = f'{len(BODY):x};a=b;c="d"\r\n{BODY.replace("smuggled", "extended")}\r\n0;e\r\n\r\n'
    answers = exchange(api, head(api, f"POST {KEYS} HTTP/1.1", "Transfer-Encoding: chunked", LAST) + body.encode())
    assert statuses(answers) == [200]


def test_a_request_for_another_protocol_is_answered(api: Api) -> None:
    """Java sends this with its first request. What follows the body is never taken for a request."""
    lines = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAAA", "Content-Length: 2"]
    sent = head(api, f"POST {KEYS} HTTP/1.1", *lines) + b"{}" + SECOND.encode()
    assert statuses(exchange(api, sent)) == [400]
    assert statuses(exchange(api, *(sent[place : place + 1] for place in range(len(sent))))) == [400]
    assert statuses(exchange(api, head(api, f"GET {KEYS} HTTP/1.1", *lines[:3]) + SECOND.encode())) == [200]


def test_a_request_in_single_bytes(api: Api) -> None:
    sent = head(api, f"GET {KEYS}?limit=1 HTTP/1.1", LAST)
    assert statuses(exchange(api, *(sent[place : place + 1] for place in range(len(sent))))) == [200]


def test_requests_in_one_packet_are_answered_in_order(api: Api) -> None:
    unknown = head(api, "GET /none HTTP/1.1")
    assert statuses(exchange(api, head(api, f"GET {KEYS} HTTP/1.1") + unknown + SECOND.encode())) == [200, 404, 200]


def test_a_later_request_on_a_connection_is_refused_too(api: Api) -> None:
    with connect(api) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert statuses(rest_of(connection)) == [400]


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_unfinished_headers(impatient: Api, sent: bytes) -> None:
    assert exchange(impatient, sent) == b""


def test_empty_lines_do_not_keep_a_connection_open(impatient: Api) -> None:
    with connect(impatient) as connection:
        connection.settimeout(0.01)
        for _ in range(2_000):
            with suppress(ConnectionError):
                connection.sendall(b"\r\n")
            with suppress(TimeoutError):
                assert rest_of(connection) == b""
                return
    pytest.fail("the connection is still open")


@pytest.mark.parametrize("lines", [["Content-Length: 19"], ["Transfer-Encoding: chunked"]])
def test_unfinished_bodies(impatient: Api, lines: list[str]) -> None:
    answers = exchange(impatient, head(impatient, f"POST {KEYS} HTTP/1.1", *lines) + b"1\r\n{\r\n")
    assert statuses(answers) == [408]
    assert refusal(answers) == {
        "type": "timeout_error",
        "message": "the request did not arrive in time",
        "details": {"error_code": "timeout"},
    }


def test_a_body_for_a_refused_key(impatient: Api) -> None:
    """The answer does not wait for the body, and the connection does not stay open for it."""
    lines = [f"POST {KEYS} HTTP/1.1", "Host: x", "X-Api-Key: x", "Content-Length: 1000000", "", ""]
    assert statuses(exchange(impatient, "\r\n".join(lines).encode() + b"{")) == [401]


@pytest.mark.long
def test_a_client_that_does_not_read(impatient: Api) -> None:
    """Its connection is cut, and nothing of the answer is kept."""
    store = impatient.place.opened.store("large")
    for number in range(100):
        store.create(f"/memories/{number}", os.urandom(50_000).hex())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(address(impatient))
        Impatient.lost.clear()
        connection.sendall(head(impatient, f"GET /v1/memory_stores/{store.id}/export HTTP/1.1"))
        found = connection.recv(1)
        assert Impatient.lost.wait(20)
        found += rest_of(connection)
    assert len(found) < 10_000_000


def test_a_disconnected_client_is_forgotten(api: Api) -> None:
    for sent in (b"", head(api), head(api, f"POST {KEYS} HTTP/1.1", "Content-Length: 100") + b"{"):
        with connect(api) as connection:
            connection.sendall(sent)
    assert api.get("/healthz").status == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "x"])
def test_compressed_bodies_are_refused_unread(api: Api, encoding: str) -> None:
    bomb = gzip.compress(bytes(10 << 20))
    lines = [f"Content-Encoding: {encoding}", f"Content-Length: {len(bomb)}", LAST]
    assert statuses(exchange(api, head(api, f"POST {KEYS} HTTP/1.1", *lines) + bomb)) == [400]


def test_a_long_body_is_refused_before_its_end(api: Api) -> None:
    """The server reads at most some megabytes of it, and keeps none."""
    with connect(api) as connection:
        connection.sendall(head(api, f"POST {KEYS} HTTP/1.1", "Content-Length: 10000000000"))
        sent = 0
        with suppress(ConnectionError):
            while sent < 1 << 30:
                connection.sendall(bytes(1 << 16))
                sent += 1 << 16
        assert sent < 64 << 20
