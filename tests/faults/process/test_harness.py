"""Tests of the harness itself: it detects planted losses, and it counts every call of SQLite and Python."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from support.oracle import Outcome, following
from support.targets import CONTROL

from .cases import Case
from .client import FaultServer, all_cases
from .injector import build, why_not
from .rounds import Story, judge
from .stream import Writer, commands

WRITER = Writer("default", "/memories/a", 7)


def history(count: int) -> list[Outcome]:
    """Return the states of one writer's store after 0, 1, ... commands."""
    states = [Outcome({})]
    for command, _ in islice(commands(WRITER, {}), count):
        states.append(following(states[-1], command))
    return states


def verdict(found: Outcome, story: Story) -> list[str]:
    return judge({"default": Outcome({})}, [WRITER], [story], {"default": found})


@pytest.mark.long
def test_the_judge_detects_lost_and_extra_changes() -> None:
    """The judge detects a lost change, two extra changes, a refused change that was applied, and a lost version."""
    states = history(60)
    for count in range(1, 58, 8):
        assert verdict(states[count - 1], Story(count)) != []
        assert verdict(states[count + 2], Story(count)) != []
        assert verdict(states[count + 1], Story(count, error="Error: The memory store is full")) != []
        assert verdict(states[count + 1], Story(count, error="Error: The outcome of this command is unknown")) == []
        assert verdict(Outcome(states[count].tree), Story(count)) != []
        assert verdict(states[count + 1], Story(count - 1, doubtful=1)) == []
        assert verdict(states[count + 2], Story(count - 1, doubtful=1)) != []


def test_the_judge_detects_a_partial_directory_command() -> None:
    """The judge detects a stray memory, and a command on a directory that changed only some of its memories."""
    state = history(30)[30]
    some = next(iter(state.tree))
    assert verdict(Outcome(state.tree | {"/memories/a/stray": ""}, state.versions), Story(30)) != []
    assert verdict(Outcome({path: text for path, text in state.tree.items() if path != some}), Story(30)) != []
    assert verdict(Outcome(state.tree | {"/memories/x": ""}, state.versions), Story(30)) != []


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_harness_detects_losses(tmp_path: Path) -> None:
    """Under the same faults, the harness finds broken promises of every kind in the SDK's local tool."""
    (tmp_path / "library").mkdir()
    with FaultServer(build(tmp_path / "library")) as server:
        names = server.prepare(CONTROL, "create large", tmp_path / "store")
        clean = server.run(Case(CONTROL, "create large"), tmp_path / "store", names, None)
        results = [server.run(case, tmp_path / "store", names, clean.reply) for case in all_cases(clean)]
    problems = {problem for result in results for problem in result.problems}
    assert any(problem.startswith("builtins.OSError") for problem in problems)
    assert "after reopening: other text in /memories/new.md" in problems
    assert "after reopening: extra /memories/new.md" in problems
