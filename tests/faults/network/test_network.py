"""Under any network fault, no acknowledged edit is lost, no edit is applied twice, and no client waits forever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import retentive
from retentive.storage.server.postgresql import PostgresqlBackend
from support.network_load import Load, judge, prepare
from support.profiles import sized

from .faults import Fault, Moment, Once, Plan, every_kind
from .networks import HANGS_S, TIMEOUT_S, Network, postgresql

SEEDS = sized(quick=1, long=1, full=5)
EDITS = sized(quick=50, long=300, full=600)  # of all workers; they continue until all faults have occurred
MOST_EDITS = 4 * EDITS
TIMES = sized(quick=1, long=2, full=4)  # number of faults of each kind
WORKERS = 4  # threads, which share two backends
DEADLINE_S = 600.0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_edits_are_applied_at_most_once_under_faults(net: Network, seed: int) -> None:
    """Acknowledged edits are stored, refused edits are not stored, and no edit is stored twice."""
    faults = every_kind(seed, messages=net.messages // 5, commits=3, late_s=TIMEOUT_S, times=TIMES)
    plan = Plan(faults)
    load = Load([], WORKERS, MOST_EDITS // WORKERS, name=f"seed{seed}")
    load.go_on = lambda: len(load.outcomes) < EDITS or plan.pending
    prepare(net.direct, load)
    with retentive.open(net.place) as one, retentive.open(net.place) as other:
        load.opened = [one, other]
        net.proxy.plan = plan
        net.proxy.cut_all()
        load.run(deadline_s=DEADLINE_S)
        net.proxy.heal()
    print(dict(net.proxy.done), dict(load.codes), f"slowest {load.slowest_s:.1f} s")
    assert judge(net.direct, load) == []
    assert load.slowest_s < HANGS_S
    assert net.proxy.done == Counter(map(str, faults))
    assert load.codes[None] > 0  # how many depends on the load of the machine


# -- controls: the judge detects incorrect clients ---------------------------------------------------------------


class RepeatingClient(PostgresqlBackend):
    """Incorrect client that treats every commit without a response as failed."""

    def _landed(self, *_: object) -> bool:
        return False


class TrustingClient(PostgresqlBackend):
    """Incorrect client that treats every commit without a response as successful."""

    def _landed(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("wrong", "moment", "problem"),
    [(RepeatingClient, "answer", "was applied 2 times"), (TrustingClient, "before", "is lost")],
)
def test_an_incorrect_client_is_detected(
    wrong: type[PostgresqlBackend], moment: Moment, problem: str, tmp_path: Path
) -> None:
    with postgresql(tmp_path) as net:
        prepare(net.direct, load := Load([], 2, 20))
        with retentive.open(net.place) as opened:
            opened.backend.__class__ = wrong
            load.opened = [opened]
            net.proxy.plan = Once(Fault("commit", 3, moment, "reset"))
            net.proxy.cut_all()
            load.run(deadline_s=DEADLINE_S)
            net.proxy.heal()
        assert any(problem in each for each in judge(net.direct, load))
