"""Galera: clients write to all three nodes, and one node is killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import retentive
from support import servers
from support.linearizability.explanation import why_not
from support.linearizability.history import record
from support.network_load import Load, judge, prepare
from support.places import name_of
from support.servers import ServerFailed
from support.waiting import until

WORKERS = 6
COUNT = 2_000  # edits of a worker that nothing stops
PACE_S = 0.02  # pause between two edits: in an outage, a steady rate shows more than a flood
BACK_S = 30.0  # limit from the recovery of the cluster to 20 acknowledged edits of every client
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
    load, stop = Load([], WORKERS, COUNT, name="galera"), threading.Event()
    load.go_on = lambda: not stop.wait(PACE_S)
    prepare(places[0], load)

    def answers() -> bool:
        with suppress(ServerFailed):
            cluster.ask(1, "CREATE DATABASE IF NOT EXISTS probe")
            return True
        return False

    with ExitStack() as stack:
        load.opened = [stack.enter_context(retentive.open(places[worker % 3])) for worker in range(WORKERS)]
        running = threading.Thread(target=load.run, kwargs={"deadline_s": 600.0})
        running.start()
        try:
            wait_for_edits(load)
            cluster.kill(0)
            until(answers)
            back = time.monotonic()
            wait_for_edits(load)
            assert time.monotonic() - back < BACK_S, Counter(each.code for each in load.outcomes)
            cluster.restart(0)
            wait_for_edits(load)
        finally:
            stop.set()
            running.join()
    for place in places:
        assert judge(place, load)[:20] == []


def wait_for_edits(load: Load) -> None:
    """Wait until every worker has 20 acknowledged edits that began after this call."""
    since = time.monotonic()

    def done() -> bool:
        found = [each for each in load.outcomes if each.code is None and each.began >= since]
        edits = Counter(each.token.split("-")[-2] for each in found)
        return len(edits) == load.workers and min(edits.values()) >= 20

    until(done, pause_s=0.2)


@pytest.mark.parametrize("scene", ["memories", "tree"])
def test_replies_of_three_nodes_are_linearizable(scene: str, tmp_path: Path) -> None:
    places = places_of(tmp_path)
    history = record(places, tmp_path / "out", processes=6, threads=2, count=25, seed=7, scene=scene)
    assert sum(each.known and not each.did_nothing for each in history) > 0.9 * len(history)
    assert why_not(history) == ""
