"""Environment variables of processes that reach package registries."""

from __future__ import annotations

import os

_CERTIFICATES = {name: value for name, value in os.environ.items() if name.startswith("SSL_CERT_")}
"""As they were before `conftest.py` left one authority for the servers of tests."""


def outward() -> dict[str, str]:
    """The environment with the certificate authorities of the machine."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT_")} | _CERTIFICATES
