"""Ceph: an OSD or a gateway is killed while four processes write. Clients reach the gateways through a balancer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import servers
from support.linearizability.explanation import why_not
from support.linearizability.history import record
from support.network_load import judge, prepare
from support.places import name_of
from support.protocols import S3
from support.proxy import HOST, Proxy

from .writers import Outage, Writers, outage, until

WRITERS = 4
BACK_S = 30.0  # limit from the recovery of the engine to the first acknowledged edit of every client

pytestmark = pytest.mark.clusters


class Balancer(Proxy):
    """Proxy that forwards each connection to the next gateway that accepts it."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(ports[0], S3)
        self._ports = ports

    def reach(self) -> socket.socket:
        self._ports.append(self._ports.pop(0))
        for port in self._ports[:-1]:
            try:
                return socket.create_connection((HOST, port), timeout=5)
            except OSError:
                continue
        return socket.create_connection((HOST, self._ports[-1]), timeout=5)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.CephCluster.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.CephCluster.secret_key)


@pytest.fixture
def cluster(keys: None) -> servers.CephCluster:
    return servers.ceph_cluster()


@pytest.fixture
def balancer(cluster: servers.CephCluster) -> Iterator[Balancer]:
    with Balancer(list(cluster.ports)) as made:
        yield made


def place_at(cluster: servers.CephCluster, port: int, bucket: str) -> str:
    return f"s3://{bucket}/p?endpoint=http://{HOST}:{port}&allow_http=true&region={cluster.region}&timeout_s=15"


def test_clients_continue_after_a_gateway_was_killed(
    cluster: servers.CephCluster, balancer: Balancer, tmp_path: Path
) -> None:
    place = place_at(cluster, balancer.port, cluster.new_bucket(name_of(tmp_path)))
    writers = Writers([place] * WRITERS, tmp_path, name="gateway")
    prepare(place, writers.load)
    with writers:
        writers.wait_for(10)
        cluster.kill_gateway(0)
        killed = time.monotonic()
        back = until(lambda: put(cluster, gateway=1, bucket=name_of(tmp_path)))
        writers.wait_for(10, since=killed)
        cluster.restart_gateway(0)
        writers.wait_for(10, since=time.monotonic())
    check(outage("Ceph, a gateway killed", writers.load, killed=killed, back=back), place, writers)


@pytest.mark.usefixtures("keys")
def test_clients_continue_after_an_osd_was_killed(tmp_path: Path) -> None:
    """The test uses a cluster of its own that stays degraded, because refilling an OSD takes minutes."""
    servers.required(servers.CephCluster)
    with servers.CephCluster() as cluster, Balancer(list(cluster.ports)) as balancer:
        place = place_at(cluster, balancer.port, cluster.new_bucket(name_of(tmp_path)))
        writers = Writers([place] * WRITERS, tmp_path, name="storage")
        prepare(place, writers.load)
        with writers:
            writers.wait_for(10)
            cluster.kill_osd(1)
            killed = time.monotonic()
            back = until(lambda: put_many(cluster, bucket=name_of(tmp_path)))
            writers.wait_for(10, since=killed)
        check(outage("Ceph, a storage killed", writers.load, killed=killed, back=back), place, writers)


def put(cluster: servers.CephCluster, *, gateway: int, bucket: str, name: str = "probe") -> None:
    answer = cluster.request("PUT", f"/{bucket}/{name}", body=b"1", gateway=gateway)
    assert answer.status == 200


def put_many(cluster: servers.CephCluster, *, bucket: str) -> None:
    """Write objects to many placement groups, so that each OSD is the primary of some."""
    for number in range(16):
        put(cluster, gateway=number % 2, bucket=bucket, name=f"probe{number}")


def check(felt: Outage, place: str, writers: Writers) -> None:
    print(felt)
    assert judge(place, writers.load)[:20] == []
    assert felt.every_s - felt.engine_s < BACK_S


@pytest.mark.parametrize("scene", ["memories", "tree"])
def test_replies_through_two_gateways_are_linearizable(
    scene: str, cluster: servers.CephCluster, tmp_path: Path
) -> None:
    bucket = cluster.new_bucket(name_of(tmp_path))
    places = [place_at(cluster, port, bucket) for port in cluster.ports]
    history = record(places, tmp_path / "out", processes=4, threads=2, count=15, seed=7, scene=scene)
    assert sum(each.known and not each.did_nothing for each in history) > 0.9 * len(history)
    assert why_not(history) == ""
