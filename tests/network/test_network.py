"""Whatever the network does, no acknowledged edit is lost, none is made twice, and no client waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import retentive
from profiles import LONG
from retentive.storage.server.backend import ServerBackend

from .load import Load, judge, prepare
from .networks import HANGS_S, TIMEOUT_S, Network, postgresql
from .proxy import Fault, Moment, every, random_faults

SEEDS = 2 if LONG else 1
EDITS = 1_200 // SEEDS if LONG else 80  # of all workers, per backend and seed
WORKERS = 4  # in two backends
DEADLINE_S = 600.0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_edits_through_a_bad_network_are_made_once_or_not_at_all(net: Network, seed: int) -> None:
    """What was acknowledged is there, what was refused is not, and nothing is there twice."""
    prepare(net.direct, load := Load([], WORKERS, EDITS // WORKERS, name=f"seed{seed}"))
    with retentive.open(net.place) as one, retentive.open(net.place) as other:
        load.opened = [one, other]
        net.proxy.plan = random_faults(seed, messages=net.messages, commits=10, late_s=TIMEOUT_S)
        net.proxy.cut_all()
        load.run(deadline_s=DEADLINE_S)
        net.proxy.heal()
    print(dict(net.proxy.done), dict(load.codes), f"slowest {load.slowest_s:.1f} s")
    assert judge(net.direct, load) == []
    assert load.slowest_s < HANGS_S
    assert len(net.proxy.done) >= 4, "few faults were met"
    assert load.codes[None] > EDITS * 0.5


# -- the judge, judged -------------------------------------------------------------------------------------------


class Repeats(ServerBackend):
    """Wrong: takes every commit without an answer for one that was not made."""

    def _landed(self, *_: object) -> bool:
        return False


class Believes(ServerBackend):
    """Wrong: takes every commit without an answer for one that was made."""

    def _landed(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("wrong", "moment", "said"), [(Repeats, "answer", "was applied 2 times"), (Believes, "before", "is lost")]
)
def test_a_wrong_client_is_found_out(wrong: type[ServerBackend], moment: Moment, said: str, tmp_path: Path) -> None:
    with postgresql(tmp_path) as net:
        prepare(net.direct, load := Load([], 2, 20))
        with retentive.open(net.place) as opened:
            opened.backend.__class__ = wrong
            load.opened = [opened]
            net.proxy.plan = every(Fault("commit", 3, moment, "reset"))
            net.proxy.cut_all()
            load.run(deadline_s=DEADLINE_S)
            net.proxy.heal()
        assert any(said in each for each in judge(net.direct, load))
