"""A refactoring that takes many sessions: each run of this program is one, and knows what the earlier ones left.

    python examples/refactoring_agent.py ./code --goal "Split shop.py into small modules" --test "python -m pytest -q"

It needs `pip install 'retentive[anthropic]'` and a key in ANTHROPIC_API_KEY. The first run writes a plan into the
memory; every run reads where things stand, lets Claude do one step with its tools, and records what was done. Stop it
whenever you like: what is not in the record was not done, and the next run sees that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from anthropic import beta_tool
from anthropic.lib.tools import ToolError

import retentive
from retentive import InvalidInput, MemoryStore, NotFound
from retentive.agent import (
    Agent,
    AgentError,
    Budget,
    Finished,
    Text,
    ToolCall,
    close_session,
    memory_context,
    open_session,
    start_project,
)
from retentive.agent.context import InputTokens

SYSTEM = """You refactor a code base in small steps that keep its tests green. Do one feature of the checklist in this
session, and call feature_done when it is. Your last message says what you did, and what comes next."""
STEPS = ["The tests pass before anything is changed", "The code is split as the goal says, and the tests pass"]
CHECKLIST = "/memories/project/features.json"
MAX_CHARS = 20_000  # of a file or of the output of the tests, shown at once


def file_tools(code: Path) -> list[Any]:
    """What Claude may do with the code: list, read and write files below one directory."""

    def inside(name: str) -> Path:
        path = (code / name).resolve()
        if not path.is_relative_to(code):
            raise ToolError(f"Error: {name} is outside the code")
        return path

    @beta_tool
    def list_files() -> str:
        """List all files of the code with their sizes."""
        files = [path for path in sorted(code.rglob("*")) if path.is_file() and ".git" not in path.parts]
        return "\n".join(f"{path.stat().st_size:>8}  {path.relative_to(code)}" for path in files)

    @beta_tool
    def read_file(name: str) -> str:
        """Read a file of the code."""
        path = inside(name)
        if not path.is_file():
            raise ToolError(f"Error: there is no file {name}")
        return path.read_text("utf-8")[:MAX_CHARS]

    @beta_tool
    def write_file(name: str, text: str) -> str:
        """Write a file of the code, whole."""
        path = inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return f"{len(text)} characters written to {name}"

    return [list_files, read_file, write_file]


def testing_tools(code: Path, test: str, known: Callable[[], list[str]], passed: list[str]) -> list[Any]:
    """How Claude tries the code. Features it calls done while the tests are green come into `passed`.

    `known` are the ids of the checklist as it is by then: Claude may have added some.
    """

    def tested() -> tuple[int, str]:
        done = subprocess.run(test, shell=True, cwd=code, capture_output=True, text=True, timeout=600, check=False)
        return done.returncode, f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-MAX_CHARS:]}"

    @beta_tool
    def run_tests() -> str:
        """Run the tests of the code."""
        return tested()[1]

    @beta_tool
    def feature_done(feature: str) -> str:
        """Say that the feature with this id of the checklist is done. The tests are run: it counts if they pass."""
        if feature not in (listed := known()):
            raise ToolError(
                f"Error: there is no feature {feature!r}; the ids are {', '.join(listed) or 'not readable'}"
            )
        status, said = tested()
        if status == 0:
            passed.append(feature)
        return f"{'It passes.' if status == 0 else 'The tests fail, so it does not pass yet.'}\n{said}"

    return [run_tests, feature_done]


def feature_ids(memory: MemoryStore) -> list[str]:
    """The ids on the checklist; none if it cannot be read."""
    try:
        return [str(feature["id"]) for feature in json.loads(memory.text(CHECKLIST))["features"]]
    except (NotFound, ValueError, LookupError, TypeError):
        return []


def session(code: Path, *, goal: str, test: str, at: str, model: str) -> None:
    """One session: read the record, let Claude work, write the record."""
    with retentive.open(at) as place:
        memory = place.store(f"refactoring-{code.name}")
        if not any(found.path.endswith("/progress.md") for found in memory.memories()):
            start_project(memory, goal=goal, features=STEPS, setup=f"The tool run_tests runs: {test}")
        passed: list[str] = []
        known = partial(feature_ids, memory)
        agent = Agent(
            memory=memory,
            model=model,
            system=SYSTEM,
            tools=[*file_tools(code), *testing_tools(code, test, known, passed)],
            context=memory_context(trigger=InputTokens(60_000)),
            budget=Budget(max_turns=60),
        )
        with agent:
            try:
                last = work(agent, open_session(memory))
            except AgentError as error:  # what was done until now is in the code; the record says where to look
                last = f"The session broke off ({error.code}). Look at the code and run the tests first."
                print(last)
        try:
            close_session(memory, done=last, verified=passed, actor=agent.actor)
        except InvalidInput as error:  # the checklist cannot be read any more; what was done is recorded
            print(error)


def work(agent: Agent, told: str) -> str:
    """Let Claude work until it is done or the budget is used up; its last words."""
    for event in agent.run(told):
        if isinstance(event, Text):
            print(event.text)
        elif isinstance(event, ToolCall):
            print(f"[{event.name}] {event.input.get('command', '')} {event.input.get('path', '')}".rstrip())
        elif isinstance(event, Finished):
            return event.text or f"Ended without a word: {event.reason}."
    return ""


def main() -> None:
    """Run one session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path, help="the directory with the code")
    parser.add_argument("--goal", default="Make the code easier to read")
    parser.add_argument("--test", default="python -m pytest -q", help="the command that tests the code")
    parser.add_argument("--at", default="./memory", help="where the memory lies, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    session(options.code.resolve(), goal=options.goal, test=options.test, at=options.at, model=options.model)


if __name__ == "__main__":
    main()
