"""Patroni: three PostgreSQL nodes with one leader. If the leader fails, another node takes over."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from .base import HOST, Cluster, descendants, missing, poll, program
from .postgresql import PostgresServer, clean_environment, postgresql_bin
from .web import answers, request

NODES = 3


class PatroniCluster(Cluster):
    """The parts etcd and node0 to node2. Each commit is on two nodes before the reply."""

    name = "patroni"
    user = "postgres"

    @classmethod
    def available(cls) -> str | None:
        return PostgresServer.available() or missing("patroni", "patroni") or missing("etcd-server", "etcd")

    def launch(self) -> None:
        self.ports = [self.free_port() for _ in range(NODES)]
        self._rest_ports = [self.free_port() for _ in range(NODES)]
        self._etcd_port, peer_port = self.free_port(), self.free_port()
        here, peer = f"http://{HOST}:{self._etcd_port}", f"http://{HOST}:{peer_port}"
        urls = [f"--listen-client-urls={here}", f"--advertise-client-urls={here}"]
        urls += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        etcd = [program("etcd"), f"--data-dir={self.directory}/etcd", *urls, f"--initial-cluster=default={peer}"]
        self.run_part("etcd", etcd).wait_until(lambda: answers(self._etcd_port))
        for node in range(NODES):
            self._run_node(node)
        self.parts["node0"].wait_until(self._complete)

    def stop(self) -> None:
        for node in [node for node in range(NODES) if f"node{node}" in self.parts]:
            self._kill_node(node, signal.SIGQUIT)
        super().stop()

    def new_database(self, name: str) -> str:
        """Create a database, and return its URL on the current leader."""
        import psycopg

        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())

        def known(port: int) -> bool:
            with suppress(psycopg.OperationalError):
                psycopg.connect(f"postgresql://postgres:x@{HOST}:{port}/{name}").close()
                return True
            return False

        for port in self.ports:  # a client that finds no such database on one node does not try the next node
            poll(partial(known, port), f"{port} has the database")
        return self._url(name)

    def leader(self) -> int | None:
        """Return the node that accepts writes, or None."""
        import psycopg

        with suppress(psycopg.OperationalError), psycopg.connect(self._url("postgres")) as connection:
            row = connection.execute("SELECT current_setting('port')").fetchone()
            return self.ports.index(int(row[0])) if row else None
        return None

    def kill_leader(self) -> int:
        """Kill the leader and its Patroni, and return its number. Another node leads after about 20 seconds."""
        node = self.leader()
        assert node is not None
        self._kill_node(node, signal.SIGKILL)
        return node

    def restart(self, node: int) -> None:
        """Start a killed node, and return when it follows the leader and the cluster is complete."""
        self._run_node(node)
        self.parts[f"node{node}"].wait_until(self._complete)

    def _url(self, database: str) -> str:
        hosts = ",".join(f"{HOST}:{port}" for port in self.ports)
        return f"postgresql://postgres:x@{hosts}/{database}?target_session_attrs=read-write"

    def _complete(self) -> bool:
        """Return whether all running nodes have one leader and follow it, one of them synchronously."""
        for port in self._rest_ports:
            with suppress(OSError, HTTPException, ValueError):
                members = json.loads(request(port, "GET", "/cluster").body)["members"]
                states = [member.get("state") for member in members]
                roles = [member.get("role") for member in members]
                serving = states.count("running") + states.count("streaming")
                return serving == NODES and roles.count("leader") == 1 and "sync_standby" in roles
        return False

    def _kill_node(self, node: int, number: signal.Signals) -> None:
        """Kill Patroni, which would restart PostgreSQL, and then PostgreSQL, which is no child of it."""
        self.kill(f"node{node}")
        with suppress(OSError, IndexError):
            first = int((self.directory / f"data{node}" / "postmaster.pid").read_text().split()[0])
            for pid in [first, *descendants(first)] if number == signal.SIGKILL else [first]:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            poll(lambda: not _alive(first), "PostgreSQL has ended")

    def _run_node(self, node: int) -> None:
        settings = self.directory / f"node{node}.json"  # Patroni reads YAML, and JSON is valid YAML
        settings.write_text(json.dumps(self._settings(node)))
        command = [program("patroni"), str(settings)]
        # SIGTERM also stops PostgreSQL, if the test run dies first.
        self.run_part(f"node{node}", command, env=clean_environment(), stop_signal=signal.SIGTERM)

    def _settings(self, node: int) -> dict[str, Any]:
        rest, port = f"{HOST}:{self._rest_ports[node]}", f"{HOST}:{self.ports[node]}"
        timing = {"ttl": 20, "loop_wait": 2, "retry_timeout": 5, "synchronous_mode": True}
        return {
            "scope": "retentive",
            "name": f"node{node}",
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"{HOST}:{self._etcd_port}"},
            "bootstrap": {
                "dcs": {**timing, "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 200}}},
                "initdb": [{"encoding": "UTF8"}, "no-locale", "no-sync"],
            },
            "postgresql": {
                "listen": port,
                "connect_address": port,
                "data_dir": f"{self.directory}/data{node}",
                "bin_dir": str(postgresql_bin()),
                "pgpass": f"{self.directory}/pgpass{node}",
                "pg_hba": [f"{kind} all {HOST}/32 trust" for kind in ("host all", "host replication")],
                "parameters": {"unix_socket_directories": "", "fsync": "off"},
                "authentication": {
                    "superuser": {"username": "postgres", "password": "x"},
                    "replication": {"username": "replicator", "password": "x"},
                },
            },
        }


def _alive(pid: int) -> bool:
    """Return whether a process is running. A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
