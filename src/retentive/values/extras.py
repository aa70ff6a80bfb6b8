"""What error messages advise: packages to install, and why a server cannot be reached."""

from __future__ import annotations

import re


def pip_install(*extras: str) -> str:
    """Return a `pip install` command that names the packages of these extras, rather than `retentive[extra]`."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - takes 40 ms, for errors only

    try:
        needed = [each.partition("; extra == ") for each in requires("retentive") or ()]
    except PackageNotFoundError:  # run from a source tree
        needed = []
    packages = [f"'{package}'" for package, _, extra in needed if extra.strip("'\"") in extras]
    return " ".join(["pip install", *(packages or [f"'retentive[{','.join(extras)}]'"])])


_REASONS = (
    (
        r"resolve host|translate host name|service not known|nodename nor|getaddrinfo|dns error|lookup address",
        "the name of the host is unknown; check the host in the URL",
    ),
    (r"Connection refused|actively refused", "the connection was refused; check the host and port"),
    (r"No route to host|Network is unreachable", "there is no route to the host; check the host in the URL"),
    (r"No such file or directory", "no server listens on the local socket; name the host in the URL"),
    (
        r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|does not support SSL|SSL is required",
        "the server does not use TLS; check the scheme and the port",
    ),
    (r"certificate verify failed|UnknownIssuer", "the certificate of the server is not trusted"),
)


def why_unreachable(text: str) -> str | None:
    """Return the reason that the error text of a failed connection names, or None if it names no known reason.

    The text itself is never shown, because it contains names of hosts and users.
    """
    return next((reason for pattern, reason in _REASONS if re.search(pattern, text, re.IGNORECASE)), None)
