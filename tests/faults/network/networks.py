"""Every kind of database or object server, with a proxy in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import servers
from support.places import name_of, s3_place
from support.protocols import S3, Mariadb, Postgresql, Protocol
from support.proxy import Proxy

TIMEOUT_S = 3.0
HANGS_S = 60.0  # far more than two timeouts on any machine; without timeouts, a silent connection blocks for minutes
MESSAGES: dict[type[Protocol], int] = {Postgresql: 200, Mariadb: 50, S3: 25}
"""Approximate number of messages that a client sends for fifteen commands."""


@dataclass(frozen=True)
class Network:
    """A server reached in two ways: by its own URL, and by the URL of a proxy that the clients use."""

    direct: str
    place: str
    proxy: Proxy

    @property
    def messages(self) -> int:
        """Approximate number of messages that a client sends for fifteen commands."""
        return MESSAGES[self.proxy.protocol]


@contextmanager
def _through(direct: str, port: int, protocol: type[Protocol], place: str = "") -> Iterator[Network]:
    with Proxy(port, protocol) as proxy:
        there = proxy.through(place or direct)
        yield Network(direct, f"{there}{'&' if '?' in there else '?'}timeout_s={TIMEOUT_S}", proxy)


def postgresql(directory: Path) -> AbstractContextManager[Network]:
    server = servers.postgresql()
    return _through(server.new_database(name_of(directory)), server.port, Postgresql)


def pgbouncer(directory: Path) -> AbstractContextManager[Network]:
    direct = servers.postgresql().new_database(name_of(directory))
    bouncer = servers.pgbouncer()
    return _through(direct, bouncer.port, Postgresql, bouncer.url(name_of(directory)))


def mariadb(directory: Path) -> AbstractContextManager[Network]:
    server = servers.mariadb()
    return _through(server.new_database(name_of(directory)), server.port, Mariadb)


def s3(directory: Path) -> AbstractContextManager[Network]:
    return _through(s3_place(directory), servers.moto().port, S3)


NETWORKS: dict[str, Callable[[Path], AbstractContextManager[Network]]] = {
    "postgresql": postgresql,
    "pgbouncer": pgbouncer,
    "mariadb": mariadb,
    "s3": s3,
}
