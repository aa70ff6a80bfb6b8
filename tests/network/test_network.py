"""Whatever the network does, no acknowledged edit is lost, none is made twice, and no client waits for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import commonplace
import servers
from backends.places import name_of
from commonplace import Commonplace
from commonplace.backends.postgresql import open_postgresql
from commonplace.backends.server import ServerBackend
from commonplace.limits import Limits
from commonplace.replies import EN

from .load import Load, faults, prepare
from .protocols import Mariadb, Postgresql, Protocol
from .proxy import Fault, Proxy, every, random_faults

LONG = os.environ.get("CI") == "true"
TIMEOUT_S = 3.0
HANGS_S = 2 * TIMEOUT_S + 5  # for the tries, for settling a commit, and for a machine that has other things to do
SEEDS = 4 if LONG else 1
EDITS = 2_500 // SEEDS if LONG else 152  # of all workers, per backend and seed
WORKERS = 4  # in two backends
DEADLINE_S = 600.0


@dataclass(frozen=True)
class Network:
    """A database: straight at its server, and the place that clients open, through a proxy."""

    direct: str
    place: str
    proxy: Proxy


@contextmanager
def postgresql(name: str) -> Iterator[Network]:
    server = servers.postgresql()
    direct = server.new_database(name)
    with Proxy(server.port, Postgresql) as proxy:
        yield network(direct, direct, proxy)


@contextmanager
def pgbouncer(name: str) -> Iterator[Network]:
    direct = servers.postgresql().new_database(name)
    bouncer = servers.pgbouncer()
    with Proxy(bouncer.port, Postgresql) as proxy:
        yield network(direct, bouncer.url(name), proxy)


@contextmanager
def mariadb(name: str) -> Iterator[Network]:
    server = servers.mariadb()
    direct = server.new_database(name)
    with Proxy(server.port, Mariadb) as proxy:
        yield network(direct, direct, proxy)


def network(direct: str, front: str, proxy: Proxy) -> Network:
    return Network(direct, f"{proxy.through(front)}?timeout_s={TIMEOUT_S}", proxy)


NETWORKS = {"postgresql": postgresql, "pgbouncer": pgbouncer, "mariadb": mariadb}
MESSAGES: dict[type[Protocol], int] = {Postgresql: 200, Mariadb: 50}
"""How many a client sends in some fifteen commands."""


@pytest.fixture(params=NETWORKS)
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    with NETWORKS[request.param](name_of(tmp_path)) as made:
        yield made


def judge(net: Network, load: Load) -> list[str]:
    """What is wrong, looking past the proxy."""
    with commonplace.open(net.direct) as opened:
        return faults(opened.store(), load)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_edits_through_a_bad_network_are_made_once_or_not_at_all(net: Network, seed: int) -> None:
    """What was acknowledged is there, what was refused is not, and nothing is there twice."""
    prepare(net.direct, load := Load([], WORKERS, EDITS // WORKERS, name=f"seed{seed}"))
    with commonplace.open(net.place) as one, commonplace.open(net.place) as other:
        load.opened = [one, other]
        messages = MESSAGES[net.proxy.protocol]
        net.proxy.plan = random_faults(seed, messages=messages, commits=10, late_s=TIMEOUT_S)
        net.proxy.cut_all()
        load.run(deadline_s=DEADLINE_S)
        net.proxy.heal()
    print(dict(net.proxy.done), dict(load.codes), f"slowest {load.slowest_s:.1f} s")
    assert judge(net, load) == []
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
def test_a_wrong_client_is_found_out(wrong: type[ServerBackend], moment: str, said: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        net = stack.enter_context(postgresql(name_of(tmp_path)))
        prepare(net.direct, load := Load([], 2, 20))
        rest = net.place.removeprefix("postgresql://")
        backend = open_postgresql(rest, clock=lambda: 1_800_000_000.0, new_id=commonplace.backends.base.sortable_id)
        backend.__class__ = wrong
        opened = stack.enter_context(Commonplace(backend, limits=Limits(), replies=EN, actor=None))
        load.opened = [opened]
        net.proxy.plan = every(Fault("commit", 3, "answer" if moment == "answer" else "before", "reset"))
        net.proxy.cut_all()
        load.run(deadline_s=DEADLINE_S)
        net.proxy.heal()
        assert any(said in each for each in judge(net, load))
