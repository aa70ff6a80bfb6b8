"""Every server starts, answers requests and leaves no process or file behind.

Cluster nodes are killed and restarted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from support import servers
from support.servers import (
    AzuriteServer,
    CephCluster,
    CephServer,
    GaleraCluster,
    MariaServer,
    MotoServer,
    PatroniCluster,
    PgBouncer,
    PostgresServer,
    Server,
    ServerFailed,
)
from support.servers.base import accepts
from support.servers.process import poll

pytestmark = pytest.mark.long

_BLOB = {"x-ms-blob-type": "BlockBlob"}
_TESTS = Path(__file__).parents[1]


def gone(server: Server, directory: Path, *ports: int) -> bool:
    """Return True if no process and no file of the server is left."""
    return not directory.exists() and not server.processes and not any(accepts(port) for port in ports)


def test_postgresql() -> None:
    servers.required(PostgresServer)
    with PostgresServer() as server:
        directory, port = server.directory, server.port
        assert f"postgresql://postgres@127.0.0.1:{port}/a b" == server.new_database("a b")
        server.new_database("a b")
        server.ask("CREATE TABLE t (i int); INSERT INTO t VALUES (7)", database="a b")
        assert server.ask("SELECT i FROM t", database="a b") == "7\n"
        assert server.ask("SELECT getdatabaseencoding(), current_setting('synchronous_commit')") == "UTF8|on\n"
        with pytest.raises(ServerFailed, match="does not exist"):
            server.ask("SELECT 1", database="b")
    assert gone(server, directory, port)


def test_pgbouncer_keeps_a_connection_for_one_transaction() -> None:
    """Another client may have used the connection between two transactions, so a session setting can be lost."""
    servers.required(PgBouncer)
    behind = servers.postgresql()
    with PgBouncer(behind) as server:
        directory, port = server.directory, server.port
        behind.new_database("bounced")
        assert servers.psql(server.url("bounced"), "SELECT current_database()") == "bounced\n"
        mode = servers.psql(server.url("pgbouncer"), "SHOW CONFIG")
        assert "pool_mode|transaction" in mode
    assert gone(server, directory, port)
    assert accepts(behind.port)


def test_mariadb() -> None:
    servers.required(MariaServer)
    with MariaServer() as server:
        directory, port = server.directory, server.port
        assert f"mariadb://root@127.0.0.1:{port}/ours" == server.new_database("ours")
        server.new_database("ours")
        server.ask("CREATE TABLE t (i int); INSERT INTO t VALUES (7)", database="ours")
        assert server.ask("SELECT i FROM t", database="ours") == "7\n"
        assert server.ask("SELECT @@innodb_flush_log_at_trx_commit") == "1\n"
        with pytest.raises(ServerFailed, match="Unknown database"):
            server.ask("SELECT 1", database="theirs")
    assert gone(server, directory, port)


def test_moto_honours_conditions() -> None:
    servers.required(MotoServer)
    with MotoServer() as server:
        directory, port = server.directory, server.port
        server.new_bucket("ours")
        assert server.new_bucket("ours") == "ours"
        check_conditions(server, first=200, taken=412)
    assert gone(server, directory, port)


def test_azurite_honours_conditions() -> None:
    servers.required(AzuriteServer)
    with AzuriteServer() as server:
        directory, port = server.directory, server.port
        server.new_container("ours")
        assert server.new_container("ours") == "ours"
        check_conditions(server, first=201, taken=409)
    assert gone(server, directory, port)


@pytest.mark.parametrize("kind", [MotoServer, AzuriteServer])
def test_one_of_many_concurrent_writes_wins(kind: type[MotoServer] | type[AzuriteServer]) -> None:
    """Eight threads increment a counter with If-Match. The final value equals the number of successful writes."""
    servers.required(kind)
    server = servers.moto() if kind is MotoServer else servers.azurite()
    (server.new_bucket if isinstance(server, MotoServer) else server.new_container)("counter")
    server.request("PUT", "/counter/n", body=b"0", headers=_BLOB)
    barrier = threading.Barrier(8)

    def raise_it(_: int) -> int:
        barrier.wait()
        wins = 0
        for _ in range(25):
            seen = server.request("GET", "/counter/n")
            condition = {**_BLOB, "If-Match": seen.headers["etag"]}
            after = b"%d" % (int(seen.body) + 1)
            wins += server.request("PUT", "/counter/n", body=after, headers=condition).status in (200, 201)
        return wins

    with ThreadPoolExecutor(8) as threads:
        wins = sum(threads.map(raise_it, range(8)))
    assert wins == int(server.request("GET", "/counter/n").body) > 0


def test_a_server_stops_when_the_test_run_is_killed() -> None:
    """Processes of another user stop too, and the files are deleted."""
    servers.required(PostgresServer)
    imports = "import time; from support import servers"
    script = f"{imports}; s = servers.postgresql(); print(s.port, s.directory, flush=True); time.sleep(600)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_TESTS) as run:
        assert run.stdout is not None
        port, directory = run.stdout.readline().split()
        assert accepts(int(port))
        run.send_signal(signal.SIGKILL)
    poll(lambda: not accepts(int(port)) and not Path(directory).exists(), "the server is gone")


class WrongServer(PostgresServer):
    """PostgreSQL server with an invalid setting."""

    settings: ClassVar = {"max_connections": "none"}


def test_a_server_that_fails_reports_the_reason() -> None:
    """The error contains the end of the server's log, and no process or file is left."""
    servers.required(PostgresServer)
    server = WrongServer()
    with pytest.raises(ServerFailed, match='invalid value for parameter "max_connections"'):
        server.start()
    assert not server.processes
    assert Path() == server.directory


def test_a_missing_server_is_a_skip_and_in_ci_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTIVE_AZURITE", os.devnull)
    monkeypatch.delenv("RETENTIVE_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is not installed"):
        servers.required(AzuriteServer)
    monkeypatch.setenv("RETENTIVE_SERVERS", "required")
    with pytest.raises(ServerFailed, match="is not installed"):
        servers.required(AzuriteServer)


@pytest.mark.clusters
def test_galera() -> None:
    servers.required(GaleraCluster)
    with GaleraCluster() as cluster:
        directory, ports = cluster.directory, cluster.ports
        cluster.new_database("ours")
        cluster.ask(0, "CREATE TABLE t (i int PRIMARY KEY); INSERT INTO t VALUES (1)", database="ours")
        assert cluster.ask(2, "SELECT i FROM t", database="ours") == "1\n"
        cluster.kill(1)
        assert not accepts(ports[1])
        cluster.ask(0, "INSERT INTO t VALUES (2)", database="ours")
        cluster.restart(1)
        assert cluster.ask(1, "SELECT i FROM t", database="ours") == "1\n2\n"
    assert gone(cluster, directory, *ports)


@pytest.mark.clusters
def test_patroni() -> None:
    servers.required(PatroniCluster)
    with PatroniCluster() as cluster:
        directory, ports = cluster.directory, cluster.ports
        cluster.new_database("ours")
        cluster.ask("CREATE TABLE t (i int); INSERT INTO t VALUES (1)", database="ours")
        lost = cluster.kill_leader()
        assert not accepts(ports[lost])
        assert lost != cluster.leader()
        cluster.ask("INSERT INTO t VALUES (2)", database="ours")
        cluster.restart(lost)
        assert cluster.ask("SELECT i FROM t ORDER BY i", database="ours") == "1\n2\n"
    assert gone(cluster, directory, *ports)


@pytest.mark.clusters
def test_ceph() -> None:
    """Ceph accepts If-Match only with an ETag without quotes."""
    servers.required(CephServer)
    with CephServer() as server:
        directory, ports = server.directory, server.ports
        server.new_bucket("ours")
        assert server.new_bucket("ours") == "ours"
        check_conditions(server, first=200, taken=412, quoted=False)
    assert gone(server, directory, *ports)


@pytest.mark.clusters
def test_ceph_cluster() -> None:
    servers.required(CephCluster)
    with CephCluster() as cluster:
        directory, ports = cluster.directory, cluster.ports
        cluster.new_bucket("ours")
        assert cluster.request("PUT", "/ours/a", body=b"1").status == 200
        cluster.kill_gateway(0)
        assert not accepts(ports[0])
        assert cluster.request("GET", "/ours/a", gateway=1).body == b"1"
        cluster.restart_gateway(0)
        cluster.kill_osd(0)
        assert cluster.request("PUT", "/ours/a", body=b"2").status == 200
        cluster.restart_osd(0)
        cluster.kill_osd(1)
        assert cluster.request("GET", "/ours/a").body == b"2"
    assert gone(cluster, directory, *ports)


def check_conditions(
    server: MotoServer | AzuriteServer | CephServer, *, first: int, taken: int, quoted: bool = True
) -> None:
    """Check that a second create is refused, and so is a write based on an outdated version of the object."""
    new = {**_BLOB, "If-None-Match": "*"}
    assert first == server.request("PUT", "/ours/a", body=b"1", headers=new).status
    assert taken == server.request("PUT", "/ours/a", body=b"2", headers=new).status
    etag = server.request("GET", "/ours/a").headers["etag"]
    unchanged = {**_BLOB, "If-Match": etag if quoted else etag.strip('"')}
    assert first == server.request("PUT", "/ours/a", body=b"3", headers=unchanged).status
    assert server.request("PUT", "/ours/a", body=b"4", headers=unchanged).status == 412
    assert server.request("GET", "/ours/a").body == b"3"
