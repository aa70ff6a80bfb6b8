"""Patroni: three PostgreSQL nodes with one leader. If the leader fails, another node takes over."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from typing import Any

from .base import HOST, Server, missing, program
from .postgresql import PostgresServer, clean_environment, create_database, postgresql_bin, psql
from .process import Process, ServerFailed, alive, descendants, end_all, poll
from .web import request

NODES = 3


class PatroniCluster(Server):
    """Three nodes and one etcd. Each commit is on two nodes before the reply."""

    name = "patroni"
    user = "postgres"

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[int, Process] = {}

    @classmethod
    def available(cls) -> str | None:
        return PostgresServer.available() or missing("patroni", "patroni") or missing("etcd-server", "etcd")

    def launch(self) -> None:
        self._nodes.clear()
        self.ports = [self.free_port() for _ in range(NODES)]
        self._rest_ports = [self.free_port() for _ in range(NODES)]
        self._run_etcd()
        for node in range(NODES):
            self._run_node(node)
        for node in range(NODES):
            self._nodes[node].wait_until(self._complete)

    def stop(self) -> None:
        for node in list(self._nodes):
            postgres = self._postgres(node)
            self._nodes[node].kill()  # before PostgreSQL, which Patroni would restart
            end_all(postgres[:1], signal.SIGQUIT)
            end_all(postgres)
        self._nodes.clear()
        super().stop()

    def url(self, database: str) -> str:
        """Return the URL of a database on the current leader."""
        hosts = ",".join(f"{HOST}:{port}" for port in self.ports)
        return f"postgresql://postgres:x@{hosts}/{database}?target_session_attrs=read-write"

    def urls(self, database: str) -> list[str]:
        """Return the URLs of a database on each node."""
        return [f"postgresql://postgres:x@{HOST}:{port}/{database}" for port in self.ports]

    def new_database(self, name: str) -> str:
        """Create a database if it does not exist, and return its URL on the current leader."""
        create_database(self.url("postgres"), name)
        for node in self._nodes:  # a client that finds no such database on one node does not try the next node
            there = partial(self._has_database, node, name)
            poll(there, f"node {node} has the database")
        return self.url(name)

    def ask(self, statements: str, *, database: str = "postgres") -> str:
        """Return the output of psql on the leader: rows without headers, columns separated by `|`."""
        return psql(self.url(database), statements)

    def leader(self) -> int:
        """Wait until a node leads, and return its number."""
        found: list[int] = []

        def one_leads() -> bool:
            found[:] = [node for node in self._nodes if self._leads(node)]
            return bool(found)

        poll(one_leads, "a node leads")
        return found[0]

    def kill_leader(self) -> int:
        """Kill PostgreSQL and Patroni of the leader, and return its number.

        Another node leads after about 20 seconds.
        """
        node = self.leader()
        postgres = self._postgres(node)
        process = self._nodes.pop(node)
        self.processes.remove(process)
        process.kill()
        end_all(postgres)
        return node

    def restart(self, node: int) -> None:
        """Start a killed node, and return when it follows the leader and the cluster is complete."""
        self._run_node(node)
        self._nodes[node].wait_until(self._complete)

    def _has_database(self, node: int, name: str) -> bool:
        count = "SELECT count(*) FROM pg_database WHERE datname = :'name';"
        return psql(self.urls("postgres")[node], count, name=name).strip() == "1"

    def _leads(self, node: int) -> bool:
        """Return whether a node accepts writes: it has the lock, and its promotion is complete."""
        try:
            if request(self._rest_ports[node], "GET", "/primary").status != 200:
                return False
            return psql(self.urls("postgres")[node], "SELECT pg_is_in_recovery()").strip() == "f"
        except (OSError, HTTPException, ServerFailed):
            return False

    def _complete(self) -> bool:
        """Return whether all running nodes have one leader and follow it, one of them synchronously."""
        members = self._members()
        states = [member.get("state") for member in members]
        roles = [member.get("role") for member in members]
        serving = states.count("running") + states.count("streaming")
        return serving == len(self._nodes) and roles.count("leader") == 1 and "sync_standby" in roles

    def _members(self) -> list[dict[str, Any]]:
        for node in self._nodes:
            with suppress(OSError, HTTPException, ValueError):
                return list(json.loads(request(self._rest_ports[node], "GET", "/cluster").body)["members"])
        return []

    def _postgres(self, node: int) -> list[int]:
        """Return the PostgreSQL processes of a node, the postmaster first. They are not children of Patroni."""
        try:
            first = int((self.directory / f"data{node}" / "postmaster.pid").read_text().split()[0])
        except (OSError, IndexError):
            return []
        return [first, *descendants(first)] if alive(first) else []

    def _run_etcd(self) -> None:
        port, peer_port = self.free_port(), self.free_port()
        self._etcd = f"{HOST}:{port}"
        here, peer = f"http://{self._etcd}", f"http://{HOST}:{peer_port}"
        urls = [f"--listen-client-urls={here}", f"--advertise-client-urls={here}"]
        urls += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        command = [program("etcd"), f"--data-dir={self.directory}/etcd", *urls, f"--initial-cluster=default={peer}"]
        process = Process(command, log=self.directory / "etcd.log", directory=self.directory, user=self.user)
        self.processes.append(process)

        def healthy() -> bool:
            try:
                return b'"true"' in request(port, "GET", "/health").body
            except (OSError, HTTPException):
                return False

        process.wait_until(healthy)

    def _run_node(self, node: int) -> None:
        settings = self.directory / f"node{node}.json"  # Patroni reads YAML, and JSON is valid YAML
        settings.write_text(json.dumps(self._settings(node)))
        process = Process(
            [program("patroni"), str(settings)],
            log=self.directory / f"node{node}.log",
            directory=self.directory,
            user=self.user,
            env=clean_environment(),
            stop_signal=signal.SIGTERM,  # this also stops PostgreSQL
        )
        self._nodes[node] = process
        self.processes.append(process)

    def _settings(self, node: int) -> dict[str, Any]:
        rest, port = f"{HOST}:{self._rest_ports[node]}", f"{HOST}:{self.ports[node]}"
        timing = {"ttl": 20, "loop_wait": 2, "retry_timeout": 5, "synchronous_mode": True}
        return {
            "scope": "retentive",
            "name": f"node{node}",
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": self._etcd},
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
