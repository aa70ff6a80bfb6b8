"""Galera: clients write to all three nodes, and one node is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import retentive
from support import servers
from support.linearizability.explanation import why_not
from support.linearizability.history import record
from support.network_load import judge, prepare
from support.places import name_of

from .writers import Writers, outage, until

WRITERS = 6
BACK_S = 30.0  # limit from the recovery of the engine to the first acknowledged edit of every client
ROUNDS = 60

pytestmark = pytest.mark.clusters


def places_of(directory: Path) -> list[str]:
    """Return three URLs of a new database. Each URL lists another node first."""
    cluster = servers.galera()
    name = name_of(directory)
    cluster.new_database(name)
    hosts = [f"127.0.0.1:{port}" for port in cluster.ports]
    rotated = [hosts[node:] + hosts[:node] for node in range(len(hosts))]
    return [f"mariadb://root@{','.join(each)}/{name}?timeout_s=15" for each in rotated]


def test_a_write_to_one_node_is_read_from_the_others_at_once(tmp_path: Path) -> None:
    first, *others = [retentive.open(place) for place in places_of(tmp_path)]
    store, path = first.store(), "/memories/a.md"
    stores = [store, *(each.store() for each in others)]
    assert not store.execute({"command": "create", "path": path, "file_text": "state 0;\n"}).is_error
    for number in range(ROUNDS):
        writer, reader = stores[number % 3], stores[(number + 1) % 3]
        change = {"command": "str_replace", "path": path, "old_str": f"e {number};", "new_str": f"e {number + 1};"}
        reply = writer.execute(change)
        assert not reply.is_error, reply.text
        assert f"state {number + 1};" in reader.execute({"command": "view", "path": path}).text
    for each in (first, *others):
        each.close()


def test_clients_of_all_nodes_continue_after_one_was_killed(tmp_path: Path) -> None:
    cluster, places = servers.galera(), places_of(tmp_path)
    writers = Writers([places[worker % 3] for worker in range(WRITERS)], tmp_path, name="galera")
    prepare(places[0], writers.load)
    with writers:
        writers.wait_for(20)
        cluster.kill(0)
        killed = time.monotonic()
        back = until(lambda: cluster.ask(1, "CREATE DATABASE IF NOT EXISTS probe"))
        writers.wait_for(20, since=killed)
        cluster.restart(0)
        writers.wait_for(20, since=time.monotonic())
    felt = outage("Galera, a node killed", writers.load, killed=killed, back=back)
    print(felt)
    for place in places:
        assert judge(place, writers.load)[:20] == []
    assert felt.every_s - felt.engine_s < BACK_S


@pytest.mark.parametrize("scene", ["memories", "tree"])
def test_replies_of_three_nodes_are_linearizable(scene: str, tmp_path: Path) -> None:
    places = places_of(tmp_path)
    history = record(places, tmp_path / "out", processes=6, threads=2, count=25, seed=7, scene=scene)
    assert sum(each.known and not each.did_nothing for each in history) > 0.9 * len(history)
    assert why_not(history) == ""
