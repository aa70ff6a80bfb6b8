"""Cut connections, retries, keys and TLS, with real connections."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import retentive
from faults.network.faults import MOMENTS, Action, Fault, Moment, Plan
from retentive import MemoryStore, errors
from support.http_api import Api, serving
from support.protocols import S3
from support.proxy import Proxy
from support.tls import self_signed

A = "/memories/a.md"
LIMIT_S = 5.0


@pytest.fixture
def proxy(api: Api) -> Iterator[Proxy]:
    with Proxy(urlsplit(api.url).port or 0, S3) as found:
        yield found


def cuts(*numbers: int, moment: Moment, action: Action = "reset") -> Plan:
    return Plan(Fault("message", number, moment, action) for number in numbers)


CUTS: list[tuple[Moment, Action]] = [(moment, action) for moment in MOMENTS for action in ("reset", "close")]


@pytest.mark.parametrize("cut", CUTS, ids="-".join)
def test_a_change_over_cut_connections_is_made_once(
    api: Api, proxy: Proxy, store: MemoryStore, local: MemoryStore, cut: tuple[Moment, Action]
) -> None:
    """Also if the server ran the change and only its answer was lost."""
    moment, action = cut
    with retentive.open(proxy.through(api.url), api_key=api.key) as opened:
        through = opened.store(store.id)
        proxy.plan = cuts(1, 1, 2, 1, moment=moment, action=action)
        proxy.cut_all()
        for number in range(5):
            through.append(A, f"line {number}")
        assert through.execute({"command": "view", "path": A}).is_error is False
    assert proxy.done.total() == 4
    assert local.read(A) == "".join(f"line {number}\n" for number in range(5))
    assert len(local.versions()) == 5


def test_a_server_that_is_gone(api: Api, proxy: Proxy, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.remote.client.time.sleep", lambda _: None)
    with retentive.open(proxy.through(api.url), api_key=api.key) as opened:
        through = opened.store(store.id)
        proxy.down = True
        proxy.cut_all()
        with pytest.raises(errors.Unavailable, match=r"cannot be reached|was cut"):
            through.read(A)
        reply = through.execute({"command": "create", "path": A, "file_text": "x"})
        assert (reply.is_error, reply.code in {"unavailable", "outcome_unknown"}) == (True, True)
        proxy.heal()
        assert through.create(A, "x").memories == 1


def test_a_text_that_no_request_can_carry_is_refused_in_the_reply(store: MemoryStore, local: MemoryStore) -> None:
    reply = store.execute({"command": "create", "path": A, "file_text": "x" * 9_000_000})
    assert (reply.is_error, reply.code) == (True, "too_large")
    assert reply.text.startswith("Error: The text is larger than the storage can hold in one memory.")
    with pytest.raises(errors.TooLarge, match="the body of the request must have at most 8388608 bytes"):
        store.write(A, "x" * 9_000_000)
    assert local.memories() == []


def test_a_closed_place(api: Api, store: MemoryStore) -> None:
    opened = retentive.open(api.url, api_key=api.key)
    closed = opened.store(store.id)
    opened.close()
    with pytest.raises(errors.Closed):
        closed.read(A)


@pytest.mark.parametrize("key", ["wrong", "rtv_" + "x" * 60])
def test_a_wrong_key(api: Api, key: str) -> None:
    with (
        retentive.open(api.url, api_key=key) as opened,
        pytest.raises(errors.PermissionDenied, match="invalid API key"),
    ):
        opened.store("x")


def test_the_key_comes_from_the_environment(api: Api, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTIVE_API_KEY", api.key)
    with retentive.open(api.url) as opened:
        assert opened.store(store.id).id == store.id
        assert api.key not in repr(opened) + repr(opened.store(store.id)) + repr(vars(opened))
    monkeypatch.delenv("RETENTIVE_API_KEY")
    with pytest.raises(errors.InvalidInput, match="as `api_key`, or set RETENTIVE_API_KEY"):
        retentive.open(api.url)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://example.com", {}, "unencrypted; use https"),
        ("http://10.0.0.1:8080", {}, "unencrypted; use https"),
        ("https://user:secret@host", {}, "must not have a user, query or fragment"),
        ("https://host/?key=secret", {}, "must not have a user, query or fragment"),
        ("https://", {}, "the URL of the server is invalid"),
        ("https://host:99999", {}, "the URL of the server is invalid"),
        ("https://ho st", {}, "the URL of the server is invalid"),
        ("https://host", {"api_key": "secret\n"}, "contains an invalid character"),
        ("https://host", {"view_chars": 100}, "`view_chars` has no effect on a server"),
        ("https://host", {"keys": "secret.key"}, "`keys` has no effect on a server"),
        ("https://host", {"read_only": True}, "`read_only` has no effect on a server"),
        ("https://host", {"ca_file": "/none/secret.pem"}, "`ca_file` cannot be read"),
        ("sqlite://", {"api_key": "secret"}, "`api_key` can only be used with the URL of a server"),
        ("sqlite://", {"insecure": True}, "`insecure` can only be used with the URL of a server"),
        ("ftp://host", {}, "unknown scheme"),
    ],
)
def test_invalid_locations_and_options(url: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message) as raised:
        retentive.open(url, **{"api_key": "k", **options} if url.startswith("https://host") else options)  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


def test_a_server_that_is_no_api_of_memory_stores() -> None:
    """The answer of another web server, and one that ends in the middle."""
    for answer in (b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                   b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n[]"):  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=_answer_once, args=(listener, answer))
            thread.start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with (
                retentive.open(url, api_key="k") as opened,
                pytest.raises(errors.RetentiveError, match=r"status (302|200|404)"),
            ):
                opened.store("x")
            thread.join(LIMIT_S)


def _answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_tls(certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate
    tls = {"ssl_certfile": cert, "ssl_keyfile": key}
    with retentive.open("sqlite://") as opened, serving(opened, tls=tls) as api:
        url = api.url.replace("http:", "https:")
        with retentive.open(url, api_key=api.key, ca_file=cert) as trusted:
            trusted.store().create(A, "one")
        monkeypatch.setattr("retentive.remote.client.MAX_TRIES", 1)
        with retentive.open(api.url, api_key=api.key) as plain, pytest.raises(errors.Unavailable, match="use https"):
            plain.store()
        assert opened.store().read(A) == "one"
        with retentive.open(url, api_key=api.key) as other, pytest.raises(errors.Unavailable, match="is not trusted"):
            other.store()

        async def run() -> str:
            async with retentive.open_async(url, api_key=api.key, ca_file=cert) as trusted:
                return await (await trusted.store()).read(A)

        assert asyncio.run(run()) == "one"


FORKING = """
import os, sys, retentive
with retentive.open(sys.argv[1]) as opened:
    store = opened.store(sys.argv[2])
    store.create("/memories/a.md", "one")
    child = os.fork()
    if child == 0:
        store.append("/memories/a.md", "of the child")
        print(store.read("/memories/a.md"), end="", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.append("/memories/a.md", "of the parent")
    print(store.read("/memories/a.md"), end="")
"""


@pytest.mark.long
def test_a_fork_has_its_own_connections(api: Api, store: MemoryStore) -> None:
    command = [sys.executable, "-c", FORKING, api.url, store.id]
    env = {**os.environ, "RETENTIVE_API_KEY": api.key}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "one\nof the child\none\nof the child\nof the parent\n"
