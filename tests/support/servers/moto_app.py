"""moto's S3 server, limited to one request at a time: `python moto_app.py HOST PORT`.

moto checks If-Match and If-None-Match first and writes later, without a lock, so that two threads could both succeed.
In S3, only one of them succeeds. A client that stops in the middle of its request does not block the others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class OneAtATime:
    """WSGI application that reads each request completely and then serves one request at a time."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._turn = Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH")
        if length:
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(length)))
        with self._turn:
            return list(self._application(environ, start_response))


def main(host: str, port: int) -> None:
    """Serve until killed."""
    moto = OneAtATime(DomainDispatcherApplication(create_backend_app))
    run_simple(host, port, moto, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
