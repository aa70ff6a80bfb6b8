"""Locations of each backend in a test. A new backend needs only an entry here to be in every test."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import retentive
from retentive import Retentive
from support import servers

from .profiles import LONG, sized

if find_spec("cryptography") is not None:  # `make check NAME=extras` tests each extra alone
    from retentive.storage.sealed.keys import KeyRing

    KEYS = KeyRing.new()

OpenPlace: TypeAlias = Callable[..., Retentive]
"""Function like `retentive.open`. The fixture that supplies it closes the opened locations."""


def name_of(directory: Path) -> str:
    """Return a name for the test on a server. The same directory gives the same name."""
    return "t" + hashlib.sha256(str(directory).encode()).hexdigest()[:16]


def s3_place(directory: Path) -> str:
    """Create a bucket on the running S3 server, and put the server's access keys into the environment."""
    server = servers.moto()
    os.environ |= {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    options = f"endpoint={server.endpoint}&allow_http=true&region={server.region}"
    return f"s3://{server.new_bucket(name_of(directory))}/some/prefix?{options}"


PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda directory: f"sqlite:///{directory}/memory.db",
    "directory": lambda directory: f"{directory}/memory",
    "memory": lambda _: "sqlite://",
    "postgresql": lambda directory: servers.postgresql().new_database(name_of(directory)),
    "mariadb": lambda directory: servers.mariadb().new_database(name_of(directory)),
    "s3": s3_place,
}
SERVERS = ["postgresql", "mariadb", "s3"]
"""Backends that need a connection to a server."""
ALL_LOCAL = [name for name in PLACES if name not in SERVERS]
ALL_LASTING = [name for name in PLACES if name != "memory"]
"""Backends whose memories survive closing."""
SEALED = {f"sealed {name}": name for name in ALL_LASTING}
"""The same backends with encryption."""

# For tests of a feature rather than of backends. The suite, the state machine, the golden transcripts and
# `test_smoke.py` show that all backends agree, so the quick profile runs features on SQLite only.
LOCAL = ALL_LOCAL if LONG else ["sqlite"]
LASTING = ALL_LASTING if LONG else ["sqlite"]
_SOME_SEALED = ["sealed sqlite", "sealed directory", "sealed postgresql", "sealed s3"]
EVERYWHERE = sized(quick=["sqlite"], long=[*PLACES, *_SOME_SEALED], full=[*PLACES, *SEALED])
"""Backends for tests of a feature, both bare and encrypted."""
COMPARED = EVERYWHERE if LONG else ["sqlite", "directory", "postgresql", "sealed directory"]
"""Backends that the state machine and the laws run side by side."""


def place_of(backend: str, directory: Path) -> str:
    """Return the URL of a backend inside the directory of a test."""
    if backend not in SEALED:
        return PLACES[backend](directory)
    inner = directory / backend.split(maxsplit=1)[0]
    inner.mkdir(exist_ok=True)
    return PLACES[SEALED[backend]](inner)


def opened(backend: str, directory: Path, **options: Any) -> Retentive:
    """Open a backend inside a directory."""
    if backend in SEALED:
        options |= {"keys": KEYS}
    return retentive.open(place_of(backend, directory), **options)
