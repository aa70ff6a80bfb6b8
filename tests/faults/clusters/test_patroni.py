"""PostgreSQL under Patroni: the leader is killed while clients write."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import servers
from support.places import name_of

from .writers import continue_after, wait_for_edits, writing

pytestmark = pytest.mark.clusters


def test_clients_continue_after_the_leader_was_killed(tmp_path: Path) -> None:
    cluster = servers.patroni()
    place = cluster.new_database(name_of(tmp_path)) + "&timeout_s=15"
    with writing([place], "patroni") as load:
        lost = cluster.kill_leader()
        continue_after(lambda: cluster.leader() is not None, load)
        cluster.restart(lost)
        wait_for_edits(load)
