"""Galera: three MariaDB nodes that all accept writes."""

from __future__ import annotations

from pathlib import Path

from .base import HOST, Cluster, ServerFailed, missing, program, run
from .mariadb import SETTINGS, MariaServer, answers, ask, install_database, own_temporary_directory

NODES = 3
_STATUS = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{}'"


def galera_provider() -> Path | None:
    """Return the path of the Galera library."""
    found = [*Path("/usr/lib/galera").glob("libgalera_smm.so"), *Path("/usr").glob("lib*/galera-4/libgalera_smm.so")]
    return found[0] if found else None


class GaleraCluster(Cluster):
    """The parts node0 to node2 on loopback. The user root needs no password.

    The other nodes notice after about 5 seconds that one was killed, and writes wait until then.
    """

    name = "galera"
    user = "mysql"

    @classmethod
    def available(cls) -> str | None:
        provider = None if galera_provider() else "galera-4 is not installed"
        return MariaServer.available() or provider or missing("rsync", "rsync")

    def launch(self) -> None:
        self.ports = [self.free_port() for _ in range(NODES)]
        self._group_ports = [self.free_port() for _ in range(NODES)]
        self._transfer_ports = [(self.free_port(), self.free_port()) for _ in range(NODES)]
        for node in range(NODES):
            install_database(self, str(self.directory / f"data{node}"), self._temporary(node))
        for node in range(NODES):
            self._run_node(node, first=node == 0)

    def restart(self, node: int) -> None:
        """Start a killed node, and return when it has caught up with another node."""
        self._run_node(node)

    def new_database(self, name: str) -> None:
        """Create a database if it does not exist."""
        self.ask(1, f"CREATE DATABASE IF NOT EXISTS `{name}`")

    def ask(self, node: int, statements: str, *, database: str = "mysql") -> str:
        """Return the output of the client on a node, after the node has applied all commits of the other nodes."""
        return ask(self.ports[node], f"SET SESSION wsrep_sync_wait = 15; {statements}", database=database)

    def _run_node(self, node: int, *, first: bool = False) -> None:
        command = self._command(node)
        command.append("--wsrep-new-cluster" if first else f"--wsrep-start-position={self._position(node)}")
        process = self.run_part(f"node{node}", command)
        process.wait_until(lambda: self._synced(node))

    def _synced(self, node: int) -> bool:
        """Return whether a node is synchronized and all running nodes are in the cluster."""
        if not answers(self.ports[node]):
            return False
        state = ask(self.ports[node], _STATUS.format("wsrep_local_state_comment")).strip()
        size = ask(self.ports[node], _STATUS.format("wsrep_cluster_size")).strip()
        return state == "Synced" and int(size) >= len(self.parts)

    def _position(self, node: int) -> str:
        """Return the position of the last commit of a node, for an incremental transfer."""
        said = run([*self._command(node), "--wsrep-recover"], user=self.user, cwd=self.directory)
        lines = [line for line in said.splitlines() if "Recovered position:" in line]
        if not lines:
            raise ServerFailed(f"node {node} does not know its position\n{said[-2_000:]}")
        return lines[-1].rpartition("Recovered position:")[2].strip()

    def _temporary(self, node: int) -> str:
        return own_temporary_directory(self, f"tmp{node}")

    def _command(self, node: int) -> list[str]:
        group, (incremental, whole) = self._group_ports[node], self._transfer_ports[node]
        options = f"base_port={group};gmcast.listen_addr=tcp://{HOST}:{group};"
        return [
            program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.directory}/data{node}",
            self._temporary(node),
            f"--port={self.ports[node]}",
            "--socket=socket",
            f"--pid-file={self.directory}/pid{node}",
            *SETTINGS,
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-on=ON",
            f"--wsrep-provider={galera_provider()}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address={HOST}:{whole}",
            f"--wsrep-node-name=node{node}",
            f"--wsrep-node-address={HOST}:{group}",
            f"--wsrep-provider-options={options}ist.recv_addr={HOST}:{incremental};gcache.size=32M",
            "--wsrep-cluster-address=gcomm://" + ",".join(f"{HOST}:{port}" for port in self._group_ports),
        ]
