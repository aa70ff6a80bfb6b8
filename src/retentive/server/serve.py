"""`retentive serve`: opens the location, and runs uvicorn in this process or in several worker processes."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TypedDict

import retentive
from retentive.errors import InvalidInput
from retentive.opening import Keys, Retentive
from retentive.server.calls import Place
from retentive.values.extras import pip_install

try:
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.supervisors import Multiprocess
except ImportError as error:
    raise ImportError(f"the server needs the extra `server` of retentive: {pip_install('server')}") from error

from retentive.server.application import QUEUE, THREADS, Server, application

VARIABLE = "RETENTIVE_SERVE"
"""Environment variable that passes the options to worker processes."""
GRACE_S = 30
KEEP_ALIVE_S = 75
"""With the 5 s of uvicorn, pooled clients often send a request on a connection that is just being closed."""
_serving: list[tuple[Retentive, Server]] = []
"""The open location and the server of this process."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the server. `certificate` and `private_key` are paths of PEM files."""

    url: str
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    threads: int = THREADS
    queue: int = QUEUE
    certificate: str | None = None
    private_key: str | None = None
    insecure_no_tls: bool = False
    key_file: str | None = None
    log_requests: bool = True

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can connect."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Raise `InvalidInput` for an address without encryption that other machines can reach."""
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidInput("a certificate and its private key must be given together")
        if not self.is_loopback and self.certificate is None and not self.insecure_no_tls:
            raise InvalidInput(
                f"{self.host} can be reached from other machines, so keys and memories need TLS: give a certificate, "
                "or allow connections without it because a proxy in front encrypts them"
            )


class Started(TypedDict):
    """What `serve` reports once it listens. `first_key` is the text of the first admin key, which is shown once."""

    url: str
    first_key: str | None


class _Uvicorn(uvicorn.Server):
    """Ends the event streams at SIGTERM: an open one would block the stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        for _, server in _serving:
            server.stop()
        super().handle_exit(sig, frame)


def serve(options: Options, keys: Keys | None, *, on_start: Callable[[Started], None]) -> None:
    """Serve a location until SIGTERM or Ctrl-C. Requests that have begun are finished.

    On a loopback address, the first start creates an admin key. Raises `InvalidInput` and the errors of storage.
    """
    options.check()
    listener = _listen(options)
    opened = retentive.open(options.url, keys=keys, sweep=False)
    try:
        first = Place(opened).keys.first() if options.is_loopback else None
        scheme = "http" if options.certificate is None else "https"
        host = f"[{options.host}]" if ":" in options.host else options.host
        url = f"{scheme}://{host}:{listener.getsockname()[1]}"
        if options.workers == 1:
            on_start({"url": url, "first_key": first.text if first else None})
            _Uvicorn(_config(_application(opened, options), options)).run(sockets=[listener])
            return
    finally:
        opened.close()
        if options.workers == 1:
            listener.close()
    on_start({"url": url, "first_key": first.text if first else None})
    os.environ[VARIABLE] = json.dumps(asdict(options))
    config = _config("retentive.server.serve:from_environment", options)
    Multiprocess(config, target=_Uvicorn(config).run, sockets=[listener]).run()


def from_environment() -> ASGIApp:
    """The ASGI application of a worker process."""
    from retentive.cli.location import Location  # noqa: PLC0415

    options = Options(**json.loads(os.environ[VARIABLE]))
    keys = Location(options.url, keys=options.key_file).given_keys()
    return _application(retentive.open(options.url, keys=keys, sweep=False), options)


def _application(opened: Retentive, options: Options) -> ASGIApp:
    app, server = application(Place(opened), threads=options.threads, queue=options.queue)
    _serving[:] = [(opened, server)]
    if options.log_requests:
        log = logging.getLogger("retentive.server.requests")
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler(sys.stderr))
    return app


def _config(app: ASGIApp | str, options: Options) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=options.workers,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.private_key,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


def _listen(options: Options) -> socket.socket:
    """Listening socket, with an explicit protocol: otherwise asyncio leaves Nagle's algorithm on."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {options.host}:{options.port}: {error.strerror}") from None
    listener.set_inheritable(True)
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())
