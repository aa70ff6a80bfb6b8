"""Ceph: a gateway or an OSD is killed while clients write. They reach the gateways through a balancer."""

from __future__ import annotations

import socket
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from support import servers
from support.linearizability.checker import why_not
from support.linearizability.history import Run, record
from support.places import name_of
from support.protocols import S3
from support.proxy import HOST, Proxy

from .writers import continue_after, wait_for_edits, writing

pytestmark = pytest.mark.clusters


class Balancer(Proxy):
    """Proxy that forwards each connection to the next gateway that accepts it."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(ports[0], S3)
        self._ports = list(ports)

    def reach(self) -> socket.socket:
        for _ in self._ports:
            self.server_port = self._ports[0]
            self._ports.append(self._ports.pop(0))
            with suppress(OSError):
                return super().reach()
        raise ConnectionRefusedError("no gateway accepts connections")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> servers.CephCluster:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.CephCluster.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.CephCluster.secret_key)
    return servers.ceph()


def place_at(port: int, bucket: str) -> str:
    return f"s3://{bucket}/p?endpoint=http://{HOST}:{port}&allow_http=true&region=default&timeout_s=15"


@pytest.mark.parametrize("scene", ["memories", "tree"])
def test_replies_through_two_gateways_are_linearizable(
    scene: str, cluster: servers.CephCluster, tmp_path: Path
) -> None:
    bucket = cluster.new_bucket(name_of(tmp_path))
    places = [place_at(port, bucket) for port in cluster.ports]
    history = record(Run(places, str(tmp_path / "out"), processes=4, threads=2, count=15, seed=7, scene=scene))
    assert sum(each.known and not each.did_nothing for each in history) > 0.9 * len(history)
    assert why_not(history) == ""


def test_clients_continue_after_a_gateway_and_an_osd_were_killed(cluster: servers.CephCluster, tmp_path: Path) -> None:
    """The OSD stays away, because to refill it takes minutes. The other two have everything."""
    bucket = cluster.new_bucket(name_of(tmp_path))

    def recovered() -> bool:
        """Return whether objects of many placement groups can be written, so that each OSD is the primary of some."""
        try:
            return all(cluster.put(f"/{bucket}/probe{number}", b"1", gateway=1).status == 200 for number in range(16))
        except (OSError, HTTPException):
            return False

    with Balancer(cluster.ports) as balancer, writing([place_at(balancer.port, bucket)], "ceph") as load:
        cluster.kill("gateway0")
        continue_after(recovered, load)
        cluster.restart_gateway(0)
        wait_for_edits(load)
        cluster.kill("osd1")
        continue_after(recovered, load)
