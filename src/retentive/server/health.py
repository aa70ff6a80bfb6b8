"""Health check for containers: `python -m retentive.server.health` exits with status 0 if the server answers.

The address is that of `retentive serve` in this container, from the same flags, environment and configuration file.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from retentive.errors import InvalidInput
from retentive.server.options import PREFIX, ServeOptions, read_configuration

TIMEOUT_S = 4.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - those for all of this machine  # nosec B104


def is_healthy(host: str, port: int, *, tls: bool) -> bool:
    """Return whether the server on this machine answers `/healthz`.

    The TLS certificate is not verified, because it names a public host and not this address.
    """
    connection = HTTPConnection(_ANY.get(host, host), port, timeout=TIMEOUT_S)
    if tls:
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(_ANY.get(host, host), port, timeout=TIMEOUT_S, context=unverified)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def served_flags() -> list[str]:
    """Return the flags of the first running `retentive serve` with the settings of this environment, if there is one.

    Only Linux shows them.
    """
    own = {f"{name}={value}" for name, value in os.environ.items() if name.startswith(PREFIX)}
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        with suppress(OSError):
            texts = [(process / name).read_text(errors="replace") for name in ("cmdline", "environ")]
            words, variables = (text.split("\0") for text in texts)
            at = words.index("serve") if "serve" in words else 0
            is_ours = any("retentive" in word for word in words[:at])
            if is_ours and {each for each in variables if each.startswith(PREFIX)} == own:
                return words[at + 1 : -1]
    return []


def served(name: str, flags: Sequence[str]) -> Any:
    """Return a setting of the server: from its flags, the environment, its configuration file, or the default."""
    flag, found = f"--{name.replace('_', '-')}", os.environ.get(PREFIX + name.upper())
    for word, after in zip(flags, [*flags[1:], ""], strict=False):
        given, is_one, value = word.partition("=")
        if given == flag:
            found = value if is_one else after
    path = None if found or name == "config" else served("config", flags)
    file = {} if path is None else read_configuration(path)
    return found or file.get(name, getattr(ServeOptions(""), name, None))


def main() -> int:
    """Return 0 if the server answers, else 1."""
    flags = served_flags()
    try:
        host, port, cert = (served(name, flags) for name in ("host", "port", "tls_cert"))
        return 0 if is_healthy(host, int(port), tls=bool(cert)) else 1
    except (InvalidInput, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
