"""What single faults come to: connections lost while idle, silence at a commit, a server that is away."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
import servers
from retentive import RetentiveError

from .faults import ACTIONS, MOMENTS, NO_FAULTS, Fault, Moment, Once
from .load import Load, edit, judge, prepare
from .networks import HANGS_S, TIMEOUT_S, Network, mariadb, pgbouncer, postgresql
from .proxy import Proxy

FREES_S = 2 * HANGS_S  # until a server has given up the locks of a client that is silent
SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize("lose", [Proxy.cut_all, Proxy.silence_all], ids=["cut", "silent"])
def test_after_idle_connections_were_lost_the_next_command_just_works(
    net: Network, lose: Callable[[Proxy], None]
) -> None:
    prepare(net.direct, load := Load([], 1, 6))
    with retentive.open(net.place) as opened:
        store = opened.store()
        for number in range(0, 6, 2):
            load.told.append(edit(store, load.name, 0, number))
            lose(net.proxy)
            load.told.append(edit(store, load.name, 0, number + 1))
    assert load.codes == {None: 6}
    assert judge(net.direct, load) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_commit_that_was_lost_is_settled(net: Network, moment: Moment) -> None:
    """The client hears nothing of its commit, looks, and says what is so: done, and done once."""
    prepare(net.direct, load := Load([], 1, len(ACTIONS)))
    with retentive.open(net.place) as opened:
        store = opened.store()
        for number, action in enumerate(ACTIONS):
            net.proxy.plan = Once(Fault("commit", 1, moment, action, TIMEOUT_S / 2))
            net.proxy.at_most = number + 1
            net.proxy.cut_all()
            load.told.append(edit(store, load.name, 0, number))
    assert net.proxy.done.total() == len(ACTIONS)
    assert load.codes == {None: len(ACTIONS)}
    assert judge(net.direct, load) == []
    assert load.slowest_s < HANGS_S


@pytest.mark.long
def test_while_the_server_is_away_commands_are_told_so_in_time_and_leave_nothing(net: Network) -> None:
    """What they are told names neither host nor password."""
    prepare(net.direct, load := Load([], 1, 2))
    with retentive.open(net.place.replace("postgres@", f"postgres:{SECRET}@")) as opened:
        store = opened.store()
        net.proxy.down = True
        net.proxy.cut_all()
        load.told.append(edit(store, load.name, 0, 0))
        began = time.monotonic()
        view = store.execute({"command": "view", "path": "/memories"})
        took_s = time.monotonic() - began
        net.proxy.heal()
        load.told.append(edit(store, load.name, 0, 1))
    assert {load.told[0].text, view.text} == {"Error: The memory store is unavailable; try again later"}
    assert view.code == "unavailable"
    assert load.codes == {"unavailable": 1, None: 1}
    assert judge(net.direct, load) == []
    assert max(took_s, load.slowest_s) < HANGS_S


@pytest.mark.long
def test_a_server_that_takes_connections_and_never_answers_is_left_in_time(net: Network) -> None:
    prepare(net.direct, load := Load([], 1, 2))
    with retentive.open(net.place) as opened:
        store = opened.store()
        net.proxy.plan = Once(Fault("message", 1, "before", "silent"))
        net.proxy.cut_all()
        load.told.append(edit(store, load.name, 0, 0))
        net.proxy.heal()
        load.told.append(edit(store, load.name, 0, 1))
    assert load.codes == {"unavailable": 1, None: 1}
    assert judge(net.direct, load) == []
    assert load.slowest_s < HANGS_S


@pytest.mark.parametrize("network", [postgresql, pytest.param(pgbouncer, marks=pytest.mark.long), mariadb])
def test_a_server_takes_the_locks_from_a_client_that_went_silent(
    network: Callable[..., object], tmp_path: Path
) -> None:
    """Its transaction holds the row of the store, and no FIN ever comes; the others get their turn all the same."""
    with network(tmp_path) as net:  # type: ignore[attr-defined]
        prepare(net.direct, load := Load([], 2, 3))
        with retentive.open(net.place) as opened, retentive.open(net.direct) as others:
            store, other = opened.store(), others.store()
            net.proxy.plan = Once(Fault("commit", 1, "before", "silent"))
            net.proxy.cut_all()
            silent = threading.Thread(target=lambda: load.told.append(edit(store, load.name, 0, 0)), daemon=True)
            silent.start()
            wait_until(lambda: net.proxy.done.total() > 0)
            load.told.append(edit(other, load.name, 1, 0))
            net.proxy.plan = NO_FAULTS
            silent.join(HANGS_S)
        assert not silent.is_alive()
        assert [each.code for each in load.told if "-1-" in each.token] == [None]
        assert load.slowest_s < FREES_S
        assert judge(net.direct, load) == []


def wait_until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- what errors say -----------------------------------------------------------------------------------------------


def test_errors_say_neither_password_nor_host() -> None:
    """Not in their words, nor in a trace of them."""
    with Proxy(1, type("Any", (), {})) as away:  # nothing listens there: every connection is refused
        away.down = True
        hidden = [SECRET, f":{away.port}", "127.0.0.1"]
        for place in (
            f"postgresql://ann:{SECRET}@127.0.0.1:{away.port}/memories?timeout_s=1",
            f"mariadb://ann:{SECRET}@127.0.0.1:{away.port}/memories?timeout_s=1",
            f"s3://bucket/prefix?endpoint=http://127.0.0.1:{away.port}&allow_http=true&region=x&timeout_s=1",
        ):
            assert said_by_failure(place, hidden) == []


def test_a_refused_login_says_neither_password_nor_host() -> None:
    server = servers.mariadb()
    place = server.url("mysql").replace("root@", f"root:{SECRET}@")
    with pytest.raises(RetentiveError) as caught:
        retentive.open(place)
    assert caught.value.code == "permission_denied"
    assert shown(caught.value, [SECRET, f":{server.port}", "127.0.0.1"]) == []


def said_by_failure(place: str, hidden: list[str]) -> list[str]:
    """Which of the hidden words stand in what opening or using a place raises."""
    with pytest.raises(RetentiveError) as caught, retentive.open(place) as opened:
        opened.store()
    assert caught.value.code == "unavailable"
    return shown(caught.value, hidden)


def shown(error: BaseException, hidden: list[str]) -> list[str]:
    trace = "".join(traceback.format_exception(error))
    return [word for word in hidden if word in trace or word in repr(error)]
