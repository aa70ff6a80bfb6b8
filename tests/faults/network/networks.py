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
def postgresql(directory: Path) -> Iterator[Network]:
    server = servers.postgresql()
    direct = server.new_database(name_of(directory))
    with Proxy(server.port, Postgresql) as proxy:
        yield Network(direct, f"{proxy.through(direct)}?timeout_s={TIMEOUT_S}", proxy)


@contextmanager
def pgbouncer(directory: Path) -> Iterator[Network]:
    direct = servers.postgresql().new_database(name_of(directory))
    bouncer = servers.pgbouncer()
    with Proxy(bouncer.port, Postgresql) as proxy:
        place = proxy.through(bouncer.url(name_of(directory)))
        yield Network(direct, f"{place}?timeout_s={TIMEOUT_S}", proxy)


@contextmanager
def mariadb(directory: Path) -> Iterator[Network]:
    server = servers.mariadb()
    direct = server.new_database(name_of(directory))
    with Proxy(server.port, Mariadb) as proxy:
        yield Network(direct, f"{proxy.through(direct)}?timeout_s={TIMEOUT_S}", proxy)


@contextmanager
def s3(directory: Path) -> Iterator[Network]:
    direct = s3_place(directory)
    with Proxy(servers.moto().port, S3) as proxy:
        yield Network(direct, f"{proxy.through(direct)}&timeout_s={TIMEOUT_S}", proxy)


NETWORKS: dict[str, Callable[[Path], AbstractContextManager[Network]]] = {
    "postgresql": postgresql,
    "pgbouncer": pgbouncer,
    "mariadb": mariadb,
    "s3": s3,
}
