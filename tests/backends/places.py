"""Where each backend rests in a test. A new backend is picked up by every test when it gets a line here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import servers


def name_of(directory: Path) -> str:
    """A name for what belongs to one test on a server, the same for the same directory."""
    return "t" + hashlib.sha256(str(directory).encode()).hexdigest()[:16]


def s3_place(directory: Path) -> str:
    """A bucket of the S3 that runs for the tests, with its keys in the environment."""
    server = servers.moto()
    os.environ |= {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    return f"s3://{server.new_bucket(name_of(directory))}/some/prefix?endpoint={server.endpoint}&allow_http=true&region={server.region}"


PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda directory: f"sqlite:///{directory}/memory.db",
    "directory": lambda directory: f"{directory}/memory",
    "memory": lambda _: "sqlite://",
    "postgresql": lambda directory: servers.postgresql().new_database(name_of(directory)),
    "mariadb": lambda directory: servers.mariadb().new_database(name_of(directory)),
    "s3": s3_place,
}
SERVERS = ["postgresql", "mariadb", "s3"]
"""Those that are reached over a connection."""
LASTING = [name for name in PLACES if name != "memory"]
"""Those whose memories are there again after closing and opening."""


def place_of(backend: str, directory: Path) -> str:
    """The place of a backend inside a directory that belongs to the test."""
    return PLACES[backend](directory)
