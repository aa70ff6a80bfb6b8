"""Agents are killed at random moments of a task of 20 edits. Each edit is made once, and every task is finished."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic

import retentive
from features.agent.runs import play
from retentive.agent import AsyncAgent, Finished
from retentive.testing.scripted_claude import Call, Disconnect, Prompt, ScriptedClaude, scripted_claude
from support.commands import create, edit, insert
from support.profiles import sized

from .agent_forks import ACTOR, RUNS, TASK

NOTES = "/memories/notes.md"
STEPS = 20
KILLS = sized(quick=2, long=30, full=500)
LONGEST_S = 0.5
FINISHED = 0


def next_edit(prompt: Prompt) -> Call | str:
    """The next of 20 edits, from the number of results in the conversation: inserts, each followed by a replacement."""
    done = sum(call.result is not None for call in prompt.calls)
    assert all(call.result is None or not call.result.is_error for call in prompt.calls), prompt.calls[-1]
    if done == 0:
        return Call(create(NOTES, ""))
    if done > STEPS:
        return "All lines are written."
    if done % 2:
        return Call(insert(0, f"line {done} is new\n", NOTES))
    line = f"line {done - 1} is"
    return Call(edit(f"{line} new", f"{line} done", NOTES))


EXPECTED = "".join(f"line {done} is done\n" for done in range(STEPS - 1, 0, -2))


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "faults.process.agent_forks"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(60) == 0


@pytest.fixture(scope="module")
def claude() -> Iterator[ScriptedClaude]:
    with scripted_claude(next_edit) as started:
        yield started


def run(forks: subprocess.Popen[str], **task: object) -> int:
    """Run a process and return its exit status."""
    assert forks.stdin is not None
    assert forks.stdout is not None
    print(json.dumps(task), file=forks.stdin, flush=True)
    return int(forks.stdout.readline())


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "run_tools" else pytest.mark.long) for kind in RUNS]
)
def test_each_edit_is_made_once_however_often_the_agent_is_killed(
    kind: str, forks: subprocess.Popen[str], claude: ScriptedClaude, tmp_path: Path
) -> None:
    chance, killed, finished = random.Random(kind), 0, 0
    while killed < KILLS or not finished:
        place = f"sqlite:///{tmp_path}/{finished}.db"
        saved = tmp_path / f"{finished}.json"
        delay_s = chance.uniform(0.01, LONGEST_S) if killed < KILLS else 60.0
        status = run(forks, kind=kind, url=claude.url, place=place, saved=str(saved), delay_s=delay_s)
        assert status in {FINISHED, -signal.SIGKILL}, status
        killed += status != FINISHED
        if status == FINISHED:
            with retentive.open(place) as opened:
                assert opened.store().read(NOTES) == EXPECTED
                assert len(list(opened.store().versions())) == STEPS + 1
            assert_counted(saved)
            finished += 1
    assert claude.failures == []


@pytest.mark.parametrize(
    ("kind", "stream"),
    [
        pytest.param("sync", False, marks=pytest.mark.long),
        ("async", True),
        pytest.param("sync", True, marks=pytest.mark.long),
        pytest.param("async", False, marks=pytest.mark.long),
    ],
)
def test_each_edit_is_made_once_although_the_server_drops_its_answers(kind: str, stream: bool, tmp_path: Path) -> None:
    """Half of the answers end early: before their first byte, or anywhere in the stream or the body."""
    chance = random.Random(kind)

    def dropped(_number: int) -> Disconnect | None:
        return Disconnect(chance.choice([None, *range(1, 12)])) if chance.random() < 0.5 else None

    saved = tmp_path / "saved.json"
    with scripted_claude(next_edit, faults=dropped) as claude, retentive.open("sqlite://") as opened:
        conversation: Any = ()
        error: object = True
        while error:
            message = None if conversation else TASK
            options: dict[str, Any] = {"messages": conversation, "stream": stream, "actor": ACTOR}
            played = play(kind, claude.url, message, memory=opened.store(), **options)
            conversation, error = played.saved, played.error
            assert error is None or error.code == "connection_lost", error
        assert claude.failures == []
        assert opened.store().read(NOTES) == EXPECTED
        assert len(list(opened.store().versions())) == STEPS + 1
    saved.write_text(json.dumps(conversation))
    assert_counted(saved)


@pytest.mark.long
@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.long)])
def test_each_edit_is_made_once_although_the_task_is_cancelled(stream: bool, tmp_path: Path) -> None:
    """The task is cancelled a moment after an event, again and again; each time, a new task continues."""
    chance, saved = random.Random(stream), tmp_path / "saved.json"
    with scripted_claude(next_edit) as claude, retentive.open(f"sqlite:///{tmp_path}/m.db") as opened:
        conversation: Any = ()

        async def go_on(delay_s: float | None) -> None:
            nonlocal conversation
            http = httpx2.AsyncClient(verify=False)
            options: dict[str, Any] = {"memory": opened.store(), "actor": ACTOR, "stream": stream}
            async with AsyncAnthropic(base_url=claude.url, api_key="none", http_client=http) as client:
                agent = AsyncAgent(client, messages=conversation, **options)
                try:
                    async with aclosing(agent.run(None if conversation else TASK)) as events:
                        async for event in events:
                            task = asyncio.current_task()
                            assert task is not None
                            if delay_s is not None and not isinstance(event, Finished):
                                asyncio.get_running_loop().call_later(delay_s, task.cancel)
                finally:
                    conversation = json.loads(json.dumps(agent.saved()))

        for _ in range(sized(quick=10, long=40, full=40)):
            with suppress(asyncio.CancelledError):
                asyncio.run(go_on(chance.uniform(0, 0.02)))
        asyncio.run(go_on(None))
        assert claude.failures == []
        assert opened.store().read(NOTES) == EXPECTED
        assert len(list(opened.store().versions())) == STEPS + 1
    saved.write_text(json.dumps(conversation))
    assert_counted(saved)


def assert_counted(saved: Path) -> None:
    """Each response of the conversation is counted once, however often the agent was killed."""
    if not saved.read_bytes().startswith(b'{"messages"'):
        return  # the kinds without an agent save no counts
    conversation = json.loads(saved.read_bytes())
    responses = [message for message in conversation["messages"] if message["role"] == "assistant"]
    assert len(responses) == STEPS + 2 == conversation["used"]["turns"]
    assert conversation["used"]["output_tokens"] >= STEPS + 2
