"""Health check for containers. `python -m retentive.server.health` exits with status 0 if the server answers."""

from __future__ import annotations

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from retentive.server.options import PREFIX, ServeOptions

TIMEOUT_S = 4.0


def is_healthy(port: int, *, tls: bool) -> bool:
    """Return whether the server on this machine answers `/healthz`.

    The TLS certificate is not verified, because it names a public host and not 127.0.0.1.
    """
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: HTTPConnection = HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=context)
    else:
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    found = int(os.environ.get(f"{PREFIX}PORT") or ServeOptions("").port)
    sys.exit(0 if is_healthy(found, tls=bool(os.environ.get(f"{PREFIX}TLS_CERT"))) else 1)
