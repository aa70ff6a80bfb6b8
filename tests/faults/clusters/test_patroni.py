"""PostgreSQL under Patroni: the leader is killed while six processes write."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support import servers
from support.network_load import judge, prepare
from support.places import name_of

from .writers import Writers, outage

WRITERS = 6
BACK_S = 30.0  # limit from the recovery of the engine to the first acknowledged edit of every client

pytestmark = pytest.mark.clusters


def test_clients_continue_after_the_leader_was_killed(tmp_path: Path) -> None:
    cluster = servers.patroni()
    place = cluster.new_database(name_of(tmp_path)) + "&timeout_s=15"
    writers = Writers([place] * WRITERS, tmp_path, name="patroni")
    prepare(place, writers.load)
    with writers:
        writers.wait_for(20)
        lost = cluster.kill_leader()
        killed = time.monotonic()
        cluster.leader()
        back = time.monotonic()
        writers.wait_for(20, since=killed)
        cluster.restart(lost)
        writers.wait_for(20, since=time.monotonic())
    felt = outage("Patroni, leader killed", writers.load, killed=killed, back=back)
    print(felt)
    assert judge(place, writers.load)[:20] == []
    assert felt.every_s - felt.engine_s < BACK_S
