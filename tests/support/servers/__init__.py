"""Real servers for tests. `servers.postgresql()` starts a server at its first call in this process and returns it.

Each process of a test run has its own servers on its own ports. The servers stop with the process, even if the process
is killed. If a server is not installed, the test is skipped with a message. With RETENTIVE_SERVERS=required, the test
fails.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from .azurite import AzuriteServer
from .base import Server, ServerFailed
from .ceph import CephCluster
from .galera import GaleraCluster
from .mariadb import MariaServer
from .moto import MotoServer
from .patroni import PatroniCluster
from .postgresql import PgBouncer, PostgresServer

__all__ = [
    "AzuriteServer",
    "CephCluster",
    "GaleraCluster",
    "MariaServer",
    "MotoServer",
    "PatroniCluster",
    "PgBouncer",
    "PostgresServer",
    "Server",
    "ServerFailed",
    "azurite",
    "ceph",
    "galera",
    "mariadb",
    "moto",
    "patroni",
    "pgbouncer",
    "postgresql",
    "required",
]

S = TypeVar("S", bound=Server)
_running: dict[type[Server], Server] = {}


def postgresql() -> PostgresServer:
    """PostgreSQL."""
    return _started(PostgresServer, PostgresServer)


def pgbouncer() -> PgBouncer:
    """PgBouncer in transaction mode, in front of the PostgreSQL of `postgresql()`."""
    return _started(PgBouncer, lambda: PgBouncer(postgresql()))


def mariadb() -> MariaServer:
    """MariaDB, one node."""
    return _started(MariaServer, MariaServer)


def moto() -> MotoServer:
    """S3, by moto."""
    return _started(MotoServer, MotoServer)


def azurite() -> AzuriteServer:
    """Azure Blob Storage, by Azurite."""
    return _started(AzuriteServer, AzuriteServer)


def galera() -> GaleraCluster:
    """MariaDB, three nodes that all accept writes."""
    return _started(GaleraCluster, GaleraCluster)


def patroni() -> PatroniCluster:
    """PostgreSQL, three nodes with one leader."""
    return _started(PatroniCluster, PatroniCluster)


def ceph() -> CephCluster:
    """S3, by Ceph with three OSDs and two gateways."""
    return _started(CephCluster, CephCluster)


def required(kind: type[Server]) -> None:
    """Skip the test if the server cannot run here. With RETENTIVE_SERVERS=required, fail the test."""
    reason = kind.available()
    if reason is None:
        return
    if os.environ.get("RETENTIVE_SERVERS") == "required":
        raise ServerFailed(reason)
    pytest.skip(reason)


def _started(kind: type[S], make: Callable[[], S]) -> S:
    running = _running.get(kind)
    if running is None:
        required(kind)
        running = make()
        running.start()
        _running[kind] = running
        atexit.register(_stop_at_exit, running, os.getpid())
    assert isinstance(running, kind)
    return running


def _stop_at_exit(server: Server, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not stop the servers of its parent when the child ends
        server.stop()
