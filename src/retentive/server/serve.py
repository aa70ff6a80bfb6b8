"""Implements `retentive serve`: opens the location and runs uvicorn, in this process or in several worker processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

import retentive
from retentive.errors import InvalidInput
from retentive.opening import Keys, Retentive
from retentive.server.calls import ServedLocation
from retentive.server.options import ServeOptions
from retentive.server.telemetry import DIRECTORY, Telemetry, exporting, log_as_json
from retentive.values.extras import pip_install

try:
    import uvicorn
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp
    from uvicorn.supervisors import Multiprocess
except ImportError as error:
    raise ImportError(f"the server needs the extra `server` of retentive: {pip_install('server')}") from error

from retentive.server.application import Server, application
from retentive.server.background import start
from retentive.server.limits import RateLimits, Workers
from retentive.server.location_metrics import LocationCollector
from retentive.server.metrics import QUEUE_MAX, THREADS_MAX
from retentive.server.protocol import ClientConnection

if TYPE_CHECKING:
    from retentive.server.oauth import Tokens

VARIABLE = "RETENTIVE_SERVE"
"""Environment variable with the options, for the worker processes."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
GRACE_S = 30
HEALTH_S = 10
"""Seconds after which a worker that does not answer its parent, or does not end after its grace, is killed."""
LOST_CLIENT_MS = 60_000
KEEP_ALIVE_S = 75
"""Seconds after which an idle connection is closed.

With uvicorn's default of 5 s, clients with connection pools often send a request just when the connection is closed.
"""


def serve(options: ServeOptions, *, on_start: Callable[[str, str | None], None]) -> None:
    """Serve a location until SIGTERM or Ctrl-C. Requests that are in progress are completed first.

    At its first start on a loopback address, the server creates an admin key. When it starts to listen, `on_start` is
    called with its URL, and with the text of this key, which cannot be read again. Raises `InvalidInput` and the errors
    of storage.
    """
    options.check()
    _tokens(options)  # an error in the OAuth file stops the server here, before it starts workers
    log_as_json(requests=options.request_log)
    listener = _listen(options)
    with listener, retentive.open(options.url, keys=_keys(options), sweep=False) as opened:
        made = ServedLocation(opened).keys.first() if options.is_loopback else None
        started = options.address(listener.getsockname()[1]), made.text if made else None
        if options.workers == 1:
            _run(_config(_application(opened, options), options), listener, lambda: on_start(*started))
            return
        on_start(*started)
        opened.close()  # the workers open the location themselves
        os.environ[VARIABLE] = json.dumps(asdict(options))
        with TemporaryDirectory(prefix="retentive-metrics-") as directory:
            os.environ[DIRECTORY] = directory  # before a worker imports prometheus_client
            parent = Multiprocess(_config("retentive.server.serve:from_environment", options), [listener])

            def end_in_time() -> None:
                parent.should_exit.wait()
                listener.close()  # only now: a worker that is just being created gets it
                time.sleep(GRACE_S + HEALTH_S)
                for worker in parent.processes:
                    worker.process.kill()  # it loses no command that was answered

            Thread(target=end_in_time, name="retentive-end", daemon=True).start()
            try:
                parent.run()
            finally:
                parent.should_exit.set()
                parent.terminate_all()  # after an error; Python waits for the workers before it exits


def from_environment() -> ASGIApp:
    """Create the ASGI application of a worker process. The options come from an environment variable."""
    options = ServeOptions(**json.loads(os.environ[VARIABLE]))
    parent = multiprocessing.parent_process()
    assert parent is not None

    def stop_with_parent() -> None:
        parent.join()  # the worker would otherwise run forever, and hold the port
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=stop_with_parent, name="retentive-parent", daemon=True).start()
    return _application(retentive.open(options.url, keys=_keys(options), sweep=False), options)


def serve_here(
    opened: Retentive, make: Callable[[Server], list[BaseRoute]], on_start: Callable[[str], None], *, port: int = 0
) -> None:
    """Serve an open location from this process to this machine only, until SIGTERM or Ctrl-C.

    `make` returns additional routes. The system chooses the port if it is 0. `on_start` is called with the
    URL when the server starts to listen.
    """
    options = ServeOptions("", port=port)
    server = Server(ServedLocation(opened), has_metrics=False)
    with _listen(options) as listener:
        config = _config(application(server, more=make(server)), options)
        _run(config, listener, lambda: on_start(options.address(listener.getsockname()[1])))


def _run(config: uvicorn.Config, listener: socket.socket, on_start: Callable[[], None]) -> None:
    server = uvicorn.Server(config)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, server.handle_exit)  # also before and after uvicorn handles signals itself
    on_start()
    server.run(sockets=[listener])


def _keys(options: ServeOptions) -> Keys | None:
    if options.key_file is None and os.environ.get("RETENTIVE_KEYS"):
        from retentive.storage.sealed.keys import KeyRing  # noqa: PLC0415 - imports cryptography

        return KeyRing.from_environment(os.environ)
    return options.key_file


def _tokens(options: ServeOptions) -> Tokens | None:
    """Return the verifier of OAuth tokens, or None if OAuth is not configured. Raises `InvalidInput`."""
    if options.oauth is None:
        return None
    from retentive.server.openid import Tokens  # noqa: PLC0415 - imports cryptography

    found = Tokens.from_file(options.oauth)
    if options.public_url not in {None, found.resource}:
        raise InvalidInput("--public-url must be the `resource` of the OAuth file")
    return found


def _application(opened: Retentive, options: ServeOptions) -> ASGIApp:
    log_as_json(requests=options.request_log)
    exports = any(map(os.environ.get, ENDPOINTS)) and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
    telemetry, stop_export = exporting(LocationCollector(opened)) if exports else (Telemetry(), lambda: None)
    background = start(opened, options)
    THREADS_MAX.set(options.threads)
    QUEUE_MAX.set(options.queue)

    def stop() -> None:
        background.stop()
        stop_export()  # its last values are read from the location
        opened.close()

    server = Server(
        ServedLocation(opened, webhooks_to_private=options.webhooks_to_private),
        Workers(options.threads, options.queue, deadline_s=options.deadline_s),
        RateLimits(options.rate, streams=options.streams),
        telemetry,
        _tokens(options),
        is_alone=options.workers == 1,
        has_console=options.pages is not None,
        has_metrics=options.metrics,
        public_url=options.public_url,
    )
    if server.tokens is not None:
        from retentive.server.openid import People  # noqa: PLC0415 - imports cryptography

        server.sessions.people = People(server.tokens, opened.records)
    more: list[BaseRoute] = []
    if options.gateway:
        more += import_module("retentive.gateway.endpoint").served(server, options)
    if options.pages is not None:
        module, _, name = options.pages.partition(":")
        more += getattr(import_module(module), name)(server, options)
    return application(server, on_stop=stop, more=more)


def _config(app: ASGIApp | str, options: ServeOptions) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=options.workers,
        log_config=None,
        log_level="info",
        access_log=False,
        http=ClientConnection,
        ws="none",
        server_header=False,
        proxy_headers=bool(options.proxies),
        forwarded_allow_ips=options.proxies,  # never from uvicorn's environment variable
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        timeout_worker_healthcheck=HEALTH_S,
    )


def _listen(options: ServeOptions) -> socket.socket:
    """Return a listening socket.

    The protocol of the socket is set to TCP explicitly. Otherwise asyncio would not turn off Nagle's algorithm for
    accepted connections.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {options.host}:{options.port}: {error.strerror}") from None
    listener.set_inheritable(True)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted connections inherit both options
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; otherwise a client that vanished is noticed after 15 minutes
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_CLIENT_MS)
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())
