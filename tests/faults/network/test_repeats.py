"""A command is repeated after the connection was lost at its commit. It is applied once and gets the same reply."""

from __future__ import annotations

from typing import Any

import pytest

import retentive
from support.profiles import LONG

from .faults import ACTIONS, MOMENTS, Fault, Moment, Once
from .networks import TIMEOUT_S, Network

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
