"""A long refactoring survives five kills because its progress is in the memory. Without a memory it fails.

The tool results together are 20 times as long as the limit that triggers clearing, so no conversation can contain them.
The agent is a separate process. It is killed with SIGKILL at the most critical moments and restarted with an empty
conversation. A stateless server computes the replies of Claude from the messages of each request after clearing. Each
conversation has a new server.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude
from retentive.testing.scripted_claude.tokens import text_tokens
from support.profiles import sized
from support.waiting import until

from .refactoring_agent import TRIGGER
from .refactoring_claude import DONE, PROGRESS, Progress, answer, path_of

HERE = Path(__file__).parent
FEW = 40
FILES = sized(quick=FEW, long=60, full=200)
KILLS_WITHOUT_MEMORY = sized(quick=1, long=2, full=5)
CONTEXT_WINDOW = 2 * TRIGGER
TIMES_TRIGGER = 20
TIMEOUT_S = 300


@dataclass
class Run:
    """Directory of files, and the server's counts for each conversation about these files."""

    directory: Path
    count: int
    states: list[dict[str, Any]] = field(default_factory=list)

    def edits(self) -> list[int]:
        """Return the number of edits of each file."""
        return [int(self._lines(number)[0]) for number in range(self.count)]

    def calls(self) -> list[str]:
        """Return the text of each file."""
        return [self._lines(number)[-1] for number in range(self.count)]

    def _lines(self, number: int) -> list[str]:
        return (self.directory / path_of(number)).read_text("utf-8").splitlines()


def words(number: int) -> tuple[str, str]:
    """Return two random arguments for `combine`. Only the file tells their order."""
    chance = random.Random(number)
    return f"x{chance.getrandbits(64):016x}", f"x{chance.getrandbits(64):016x}"


def create_files(directory: Path, count: int) -> Run:
    """Create files whose total length is 20 times the trigger."""
    directory.mkdir()
    bulk = "\n".join("# " + "filler " * 10 for _ in range(4 * TIMES_TRIGGER * TRIGGER // count // 72 + 1))
    for number in range(count):
        first, second = words(number)
        (directory / path_of(number)).write_text(f"0\n{bulk}\ncombine({first}, {second})", "utf-8")
    assert text_tokens(bulk) * count >= TIMES_TRIGGER * TRIGGER
    return Run(directory, count)


@contextmanager
def claude(run: Run) -> Iterator[ScriptedClaude]:
    """Start a new server. Its counts are recorded at the end."""
    with scripted_claude(answer, context_window=CONTEXT_WINDOW, keep_requests=False) as server:
        yield server
        run.states.append(server.state())


@pytest.fixture(scope="module")
def agent() -> Iterator[subprocess.Popen[str]]:
    """The agent program, which forks a process for each conversation."""
    command = [sys.executable, str(HERE / "refactoring_agent.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(TIMEOUT_S) == 0


def converse(
    agent: subprocess.Popen[str], run: Run, *, memory: str | None, stop_at: str | None = None, stop_after: int = 0
) -> str:
    """Run one conversation in a process, and kill it at a moment or after a number of requests.

    Returns its last line.
    """
    assert agent.stdin is not None
    assert agent.stdout is not None
    with claude(run) as server:
        task = {
            "url": server.url,
            "files": str(run.directory),
            "total": run.count,
            "memory": memory,
            "stop_at": stop_at,
        }
        print(json.dumps(task), file=agent.stdin, flush=True)
        pid, line = int(agent.stdout.readline()), ""
        if stop_after:
            until(partial(has_received, server, stop_after))
        else:
            line = agent.stdout.readline().strip()
        if stop_after or line == stop_at:
            os.kill(pid, signal.SIGKILL)
        assert int(agent.stdout.readline()) == (-signal.SIGKILL if stop_at or stop_after else 0)
    return line


def has_received(server: ScriptedClaude, requests: int) -> bool:
    return int(str(server.state()["requests"])) >= requests


def moments(count: int) -> list[str]:
    """Return five moments spread over the files, each at a different step of an edit."""
    steps = ["doing", "edited", "writing", "read", "done"]
    return [f"{step} {count * (n + 1) // 6}" for n, step in enumerate(steps)]


def assert_within_the_window(run: Run) -> None:
    """Check that every prompt fits the window, and that results were cleared."""
    assert [state["failures"] for state in run.states] == [[]] * len(run.states)
    assert max(state["largest_prompt"] for state in run.states) <= CONTEXT_WINDOW
    assert all(state["cleared_tool_uses"] > 0 for state in run.states)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "directory"])
def test_every_file_is_edited_once_though_the_agent_is_killed_five_times(
    agent: subprocess.Popen[str], kind: str, tmp_path: Path
) -> None:
    run = create_files(tmp_path / "files", FILES)
    memory = f"sqlite:///{tmp_path}/memory.db" if kind == "sqlite" else str(tmp_path / "memory")
    for moment in moments(FILES):
        assert converse(agent, run, memory=memory, stop_at=moment) == moment
    assert converse(agent, run, memory=memory) == DONE
    assert run.edits() == [1] * FILES
    assert run.calls() == [f"combine({second}, {first})" for first, second in map(words, range(FILES))]
    with retentive.open(memory) as opened:
        assert str(Progress(FILES)) in opened.store().read(PROGRESS)
    assert_within_the_window(run)


@pytest.mark.long
def test_the_agent_can_be_killed_at_any_request(agent: subprocess.Popen[str], tmp_path: Path) -> None:
    """The process is killed at arbitrary moments: during a tool, during a request or during a write to the memory."""
    run = create_files(tmp_path / "files", FEW)
    memory = f"sqlite:///{tmp_path}/memory.db"
    for n in range(5):
        converse(agent, run, memory=memory, stop_after=20 + n)
    assert converse(agent, run, memory=memory) == DONE
    assert run.edits() == [1] * FEW
    assert_within_the_window(run)


@pytest.mark.long
def test_without_a_memory_the_work_is_repeated(agent: subprocess.Popen[str], tmp_path: Path) -> None:
    """Each conversation starts at the first file. An even number of edits leaves a file in its original state."""
    run = create_files(tmp_path / "files", FEW)
    killed = [FEW * (n + 1) // 6 for n in range(5)][-KILLS_WITHOUT_MEMORY:]
    for number in killed:
        assert converse(agent, run, memory=None, stop_at=f"edited {number}") == f"edited {number}"
    assert converse(agent, run, memory=None) == DONE
    assert run.edits() == [1 + sum(number <= last for last in killed) for number in range(FEW)]
    turned = [f"combine({first}, {second})" for first, second in map(words, range(FEW))]
    assert [number for number in range(FEW) if run.calls()[number] == turned[number]] != []
    assert_within_the_window(run)
