"""Galera: clients write to all three nodes, and one node is killed."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import retentive
from support import servers
from support.linearizability.checker import why_not
from support.linearizability.history import Run, record
from support.places import name_of
from support.servers import ServerFailed

from .writers import continue_after, wait_for_edits, writing

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
    with ExitStack() as stack:
        stores = [stack.enter_context(retentive.open(place)).store() for place in places_of(tmp_path)]
        stores[0].create("/memories/a.md", "state 0;\n")
        for number in range(ROUNDS):
            writer, reader = stores[number % 3], stores[(number + 1) % 3]
            writer.edit("/memories/a.md", f"e {number};", f"e {number + 1};")
            assert reader.read("/memories/a.md") == f"state {number + 1};\n"


def test_clients_of_all_nodes_continue_after_one_was_killed(tmp_path: Path) -> None:
    cluster, places = servers.galera(), places_of(tmp_path)

    def recovered() -> bool:
        with suppress(ServerFailed):
            cluster.ask(1, "CREATE DATABASE IF NOT EXISTS probe")
            return True
        return False

    with writing(places, "galera") as load:
        cluster.kill("node0")
        continue_after(recovered, load)
        cluster.restart(0)
        wait_for_edits(load)


@pytest.mark.parametrize("scene", ["memories", "tree"])
def test_replies_of_three_nodes_are_linearizable(scene: str, tmp_path: Path) -> None:
    places = places_of(tmp_path)
    history = record(Run(places, str(tmp_path / "out"), processes=6, threads=2, count=25, seed=7, scene=scene))
    assert sum(each.known and not each.did_nothing for each in history) > 0.9 * len(history)
    assert why_not(history) == ""
