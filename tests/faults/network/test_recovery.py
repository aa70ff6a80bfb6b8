"""Single network faults: connections lost while idle, silence at a commit, and an unavailable server."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import RetentiveError
from support import servers
from support.network_load import Load, edit, judge, prepare
from support.profiles import LONG
from support.proxy import Proxy
from support.waiting import until

from .faults import ACTIONS, MOMENTS, NO_FAULTS, Fault, Moment, Once
from .networks import HANGS_S, TIMEOUT_S, Network, mariadb, pgbouncer, postgresql

FREES_S = 2 * HANGS_S  # time after which a server releases the locks of a silent client
SECRET = "s3cr3t-w0rd"


@pytest.mark.long
@pytest.mark.parametrize("lose", [Proxy.cut_all, Proxy.silence_all], ids=["cut", "silent"])
def test_a_command_works_after_idle_connections_were_lost(net: Network, lose: Callable[[Proxy], None]) -> None:
    prepare(net.direct, load := Load([], 1, 6))
    with retentive.open(net.place) as opened:
        store = opened.store()
        for number in range(0, 6, 2):
            load.outcomes.append(edit(store, load.name, 0, number))
            lose(net.proxy)
            load.outcomes.append(edit(store, load.name, 0, number + 1))
    assert load.codes == {None: 6}
    assert judge(net.direct, load) == []


@pytest.mark.long
@pytest.mark.parametrize("is_down", [True, False], ids=["down", "silent"])
def test_commands_fail_in_time_without_a_server(net: Network, is_down: bool) -> None:
    """The replies contain neither host nor password. The failed commands change nothing later."""
    prepare(net.direct, load := Load([], 1, 2))
    with retentive.open(net.place.replace("postgres@", f"postgres:{SECRET}@")) as opened:
        store = opened.store()
        net.proxy.down = is_down
        net.proxy.plan = Once(Fault("message", 1, "before", "silent"))
        net.proxy.cut_all()
        load.outcomes.append(edit(store, load.name, 0, 0))
        began = time.monotonic()
        view = store.execute({"command": "view", "path": "/memories"})
        took_s = time.monotonic() - began
        net.proxy.heal()
        load.outcomes.append(edit(store, load.name, 0, 1))
    assert {load.outcomes[0].text, view.text} == {"Error: The memory store is unavailable; try again later"}
    assert view.code == "unavailable"
    assert load.codes == {"unavailable": 1, None: 1}
    assert judge(net.direct, load) == []
    assert max(took_s, load.slowest_s) < HANGS_S


@pytest.mark.parametrize(
    "network", [postgresql, *(pytest.param(each, marks=pytest.mark.long) for each in (pgbouncer, mariadb))]
)
def test_a_server_releases_the_locks_of_a_silent_client(network: Callable[..., object], tmp_path: Path) -> None:
    """The client's transaction locks the row of the store, and no FIN arrives.

    Other clients can still write after a while.
    """
    with network(tmp_path) as net:  # type: ignore[attr-defined]
        prepare(net.direct, load := Load([], 2, 3))
        with retentive.open(net.place) as opened, retentive.open(net.direct) as others:
            store, other = opened.store(), others.store()
            net.proxy.plan = Once(Fault("commit", 1, "before", "silent"))
            net.proxy.cut_all()
            silent = threading.Thread(target=lambda: load.outcomes.append(edit(store, load.name, 0, 0)), daemon=True)
            silent.start()
            until(lambda: net.proxy.done.total() > 0)
            load.outcomes.append(edit(other, load.name, 1, 0))
            net.proxy.plan = NO_FAULTS
            silent.join(HANGS_S)
        assert not silent.is_alive()
        assert [each.code for each in load.outcomes if "-1-" in each.token] == [None]
        assert load.slowest_s < FREES_S
        assert judge(net.direct, load) == []


# -- errors without secrets ----------------------------------------------------------------------------------------


def test_errors_contain_neither_password_nor_host() -> None:
    """Neither the message nor the traceback of the error contains the password or the host."""
    with Proxy(1, type("Any", (), {})) as away:  # no server listens on this port, so every connection is refused
        away.down = True
        hidden = [SECRET, f":{away.port}", "127.0.0.1"]
        for place in (
            f"postgresql://ann:{SECRET}@127.0.0.1:{away.port}/memories?timeout_s=1",
            f"mariadb://ann:{SECRET}@127.0.0.1:{away.port}/memories?timeout_s=1",
            f"s3://bucket/prefix?endpoint=http://127.0.0.1:{away.port}&allow_http=true&region=x&timeout_s=1",
        ):
            assert secrets_in_error(place, hidden) == []


def test_a_rejected_login_contains_neither_password_nor_host() -> None:
    server = servers.mariadb()
    place = server.url("mysql").replace("root@", f"root:{SECRET}@")
    with pytest.raises(RetentiveError) as caught:
        retentive.open(place)
    assert caught.value.code == "permission_denied"
    assert shown(caught.value, [SECRET, f":{server.port}", "127.0.0.1"]) == []


def secrets_in_error(place: str, hidden: list[str]) -> list[str]:
    """Return the secret words that appear in the error of opening or using a location."""
    with pytest.raises(RetentiveError) as caught, retentive.open(place) as opened:
        opened.store()
    assert caught.value.code == "unavailable"
    return shown(caught.value, hidden)


def shown(error: BaseException, hidden: list[str]) -> list[str]:
    trace = "".join(traceback.format_exception(error))
    return [word for word in hidden if word in trace or word in repr(error)]


PATH = "/memories/a.md"
COMMANDS: list[dict[str, Any]] = [
    {"command": "create", "path": PATH, "file_text": "a\n"},
    {"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "x"},
    {"command": "str_replace", "path": PATH, "old_str": "gone", "new_str": "b"},
    {"command": "str_replace", "path": PATH, "old_str": "a", "new_str": "a"},
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_command_with_a_lost_commit_is_applied_once(net: Network, moment: Moment) -> None:
    """The commands include refused ones and ones without effect, which store only their reply."""
    with retentive.open(net.place, audit=True) as opened:
        store = opened.store()
        done = 0
        for action in ACTIONS if LONG else ACTIONS[:1]:
            for number, command in enumerate(COMMANDS):
                name = f"toolu_{action.encode().hex()}{number:020}"
                net.proxy.plan = Once(Fault("commit", 1, moment, action, TIMEOUT_S / 2))
                done += 1
                net.proxy.at_most = done
                net.proxy.cut_all()
                told = store.execute(command, tool_use_id=name)
                assert told.code in {None, "no_match"}
                before = list(store.versions())
                assert store.execute(command, tool_use_id=name) == told
                assert list(store.versions()) == before
            assert store.read(PATH) == "x\na\n"
            assert not store.execute({"command": "delete", "path": PATH}).is_error
        assert net.proxy.done.total() == done
        found = store.audit.verify()
        assert (found.problem, found.unaudited) == (None, ())
