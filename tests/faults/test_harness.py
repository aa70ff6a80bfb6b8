"""The tests of the tests: planted losses are found, and every call of SQLite and Python is seen."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from .cases import Case
from .client import FaultServer, all_cases
from .injector import build, why_not
from .oracle import Outcome, RefusedError, Tree, apply, following
from .rounds import Story, judge
from .stream import Writer, commands
from .targets import CONTROL

if TYPE_CHECKING:
    from pathlib import Path

WRITER = Writer("default", "/memories/a", 7)


def history(count: int) -> list[Outcome]:
    """The states of one writer's store after 0, 1, ... commands."""
    states = [Outcome({})]
    for command, _ in islice(commands(WRITER, {}), count):
        states.append(following(states[-1], command))
    return states


def verdict(found: Outcome, story: Story) -> list[str]:
    return judge({"default": Outcome({})}, [WRITER], [story], {"default": found})


def test_the_judge_takes_the_state_before_and_after_the_one_in_flight() -> None:
    """For every length of a history: acknowledged, or one more."""
    states = history(60)
    for count in range(59):
        assert verdict(states[count], Story(count)) == []
        assert verdict(states[count + 1], Story(count)) == []


@pytest.mark.long
def test_the_judge_finds_what_is_lost_or_comes_back() -> None:
    """A lost change, two changes too many, a refused one that came back, a lost version."""
    states = history(60)
    for count in range(1, 58):
        assert verdict(states[count - 1], Story(count)) != []
        assert verdict(states[count + 2], Story(count)) != []
        assert verdict(states[count + 1], Story(count, error="Error: The memory store is full")) != []
        assert verdict(states[count + 1], Story(count, error="Error: The outcome of this command is unknown")) == []
        assert verdict(Outcome(states[count].tree), Story(count)) != []
        assert verdict(states[count + 1], Story(count - 1, doubtful=1)) == []
        assert verdict(states[count + 2], Story(count - 1, doubtful=1)) != []


def test_the_judge_finds_a_half_done_directory() -> None:
    """A stray memory, or half of what a command on a directory moves."""
    state = history(30)[30]
    some = next(iter(state.tree))
    assert verdict(Outcome(state.tree | {"/memories/a/stray": ""}, state.versions), Story(30)) != []
    assert verdict(Outcome({path: text for path, text in state.tree.items() if path != some}), Story(30)) != []
    assert verdict(Outcome(state.tree | {"/memories/x": ""}, state.versions), Story(30)) != []


def test_streams_hold_every_kind_of_command() -> None:
    """In a long stream each command succeeds, and each of the six kinds of change occurs."""
    kinds: set[str] = set()
    tree: Tree = {}
    for command, after in islice(commands(WRITER, tree), 500):
        path = str(command.get("old_path", command.get("path")))
        kinds.add(f"{command['command']} {'directory' if path not in tree else 'memory'}")
        apply(tree, command)
        tree = after
    edits = {"str_replace memory", "insert memory", "delete memory", "rename memory"}
    assert kinds == edits | {"create directory", "delete directory", "rename directory"}


def test_a_model_refuses_what_the_tool_refuses() -> None:
    with pytest.raises(RefusedError):
        apply({"/memories/a": ""}, {"command": "create", "path": "/memories/a/b", "file_text": ""})


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_harness_finds_losses(tmp_path: Path) -> None:
    """The SDK's local tool, put under the same faults, is found to break promises of every kind."""
    (tmp_path / "library").mkdir()
    with FaultServer(build(tmp_path / "library")) as server:
        names = server.prepare(CONTROL, "create large", tmp_path / "store")
        clean = server.run(Case(CONTROL, "create large"), tmp_path / "store", names, None)
        results = [server.run(case, tmp_path / "store", names, clean.reply) for case in all_cases(clean)]
    problems = {problem for result in results for problem in result.problems}
    assert any(problem.startswith("builtins.OSError") for problem in problems)
    assert "after reopening: other text in /memories/new.md" in problems
    assert "after reopening: extra /memories/new.md" in problems
