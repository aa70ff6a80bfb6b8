"""Refactoring over many sessions. Each run of this program is one session and continues from the earlier ones.

    python examples/refactoring_agent.py ./code --goal "Split shop.py into small modules" --test "python -m pytest -q"

Needs `pip install 'anthropic>=2.11,<3'` and an API key in ANTHROPIC_API_KEY. The first run writes a plan to the
memory. Every run reads the current status, lets Claude do one step with its tools, and records the result. You can stop
it at any time: unrecorded work counts as not done, and the next run repeats it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from anthropic import beta_tool
from anthropic.lib.tools import ToolError

import retentive
from retentive import MemoryStore, NotFound
from retentive.agent import Agent, AgentError, Budget, Finished, Text, ToolCall, memory_context

SYSTEM = """You refactor a code base in small steps that keep its tests green. Do one feature of the checklist in this
session, and call feature_done when it is. Your last message lists the work done and the next steps."""
STEPS = ["The tests pass before anything is changed", "The code is split as the goal says, and the tests pass"]
PROGRESS, CHECKLIST = "/memories/project/progress.md", "/memories/project/features.json"
MAX_CHARS = 20_000  # limit for the text of a file or the output of the tests


def file_tools(code: Path) -> list[Any]:
    """Create the tools to list, read and write files below the directory `code`."""

    def path_of(name: str) -> Path:
        path = (code / name).resolve()
        if not path.is_relative_to(code):
            raise ToolError(f"Error: {name} is outside the code directory")
        return path

    @beta_tool
    def list_files() -> str:
        """List all files of the code with their sizes."""
        files = [path for path in sorted(code.rglob("*")) if path.is_file() and ".git" not in path.parts]
        return "\n".join(f"{path.stat().st_size:>8}  {path.relative_to(code)}" for path in files)

    @beta_tool
    def read_file(name: str) -> str:
        """Read a file of the code."""
        path = path_of(name)
        if not path.is_file():
            raise ToolError(f"Error: file {name} does not exist")
        return path.read_text("utf-8")[:MAX_CHARS]

    @beta_tool
    def write_file(name: str, text: str) -> str:
        """Create or overwrite a file of the code."""
        path = path_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return f"{len(text)} characters written to {name}"

    return [list_files, read_file, write_file]


def testing_tools(code: Path, test: str, known_ids: Callable[[], list[str]], passed: list[str]) -> list[Any]:
    """Create the tools to run the tests and to finish a feature. Finished features are appended to `passed`.

    `known_ids` returns the current ids of the checklist, because Claude can add features.
    """

    def test_result() -> tuple[int, str]:
        result = subprocess.run(test, shell=True, cwd=code, capture_output=True, text=True, timeout=600, check=False)
        return result.returncode, f"exit code {result.returncode}\n{(result.stdout + result.stderr)[-MAX_CHARS:]}"

    @beta_tool
    def run_tests() -> str:
        """Run the tests of the code."""
        return test_result()[1]

    @beta_tool
    def feature_done(feature: str) -> str:
        """Report that the feature with this id is done. Runs the tests; the feature passes if they pass."""
        if feature not in (ids := known_ids()):
            raise ToolError(f"Error: unknown feature {feature!r}; known ids: {', '.join(ids) or 'none'}")
        status, output = test_result()
        if status == 0:
            passed.append(feature)
        return f"{'It passes.' if status == 0 else 'The tests fail, so it does not pass yet.'}\n{output}"

    return [run_tests, feature_done]


def start_project(memory: MemoryStore, goal: str, test: str) -> None:
    """Write the record that all sessions share: the progress, and a checklist. Models rewrite JSON less than prose."""
    checklist = [{"id": f"f{number}", "description": step, "passes": False} for number, step in enumerate(STEPS, 1)]
    memory.write(CHECKLIST, json.dumps({"features": checklist}, indent=2) + "\n")
    memory.write(PROGRESS, f"# Progress\nGoal: {goal}\nThe tool run_tests runs: {test}\n")


def features_of(memory: MemoryStore) -> list[dict[str, Any]]:
    """Return the features on the checklist, or an empty list if it is missing or invalid: Claude can edit it."""
    try:
        return [{**feature, "id": str(feature["id"])} for feature in json.loads(memory.read(CHECKLIST))["features"]]
    except (NotFound, ValueError, LookupError, TypeError):
        return []


def feature_ids(memory: MemoryStore) -> list[str]:
    """Return the ids on the checklist."""
    return [feature["id"] for feature in features_of(memory)]


def first_prompt(memory: MemoryStore) -> str:
    """Return the prompt that begins a session: the record, and what does not pass yet."""
    waiting = [f"- not yet: {each['id']}: {each['description']}" for each in features_of(memory) if not each["passes"]]
    rules = "Work on one feature that does not pass. Before you end, record the work done and the next steps."
    record = memory.read(PROGRESS)
    return "\n".join([f"You continue a project. Its record is in {PROGRESS}.", record[-MAX_CHARS:], *waiting, rules])


def close_session(memory: MemoryStore, *, done: str, passed: list[str], actor: retentive.Actor) -> None:
    """Record a session: what was done, and the features that pass now."""
    day = datetime.now(UTC).date().isoformat()
    memory.append(PROGRESS, f"\n## Session of {day}\nDone: {' '.join(done.split())}\n", actor=actor)
    if passed and (features := features_of(memory)):
        marked = [{**each, "passes": each["passes"] or each["id"] in passed} for each in features]
        memory.write(CHECKLIST, json.dumps({"features": marked}, indent=2) + "\n", actor=actor)


def session(code: Path, *, goal: str, test: str, location: str, model: str) -> None:
    """Run one session: read the record, let Claude work, update the record."""
    with retentive.open(location) as connection:
        memory = connection.store(f"refactoring-{code.name}")
        if not any(entry.path.endswith("/progress.md") for entry in memory.memories()):
            start_project(memory, goal, test)
        passed: list[str] = []
        known_ids = partial(feature_ids, memory)
        agent = Agent(
            memory=memory,
            model=model,
            system=SYSTEM,
            tools=[*file_tools(code), *testing_tools(code, test, known_ids, passed)],
            context=memory_context(clear_over=60_000),
            budget=Budget(max_turns=60),
        )
        with agent:
            try:
                last = work(agent, first_prompt(memory))
            except AgentError as error:  # the changes so far are in the code; the next session must check them
                last = f"The session was interrupted ({error.code}). Look at the code and run the tests first."
                print(last)
        close_session(memory, done=last, passed=passed, actor=agent.actor)


def work(agent: Agent, prompt: str) -> str:
    """Let Claude work until it is done or the budget is used up. Returns its last text."""
    for event in agent.run(prompt):
        if isinstance(event, Text):
            print(event.text)
        elif isinstance(event, ToolCall):
            print(f"[{event.name}] {event.input.get('command', '')} {event.input.get('path', '')}".rstrip())
        elif isinstance(event, Finished):
            return event.text or f"The session ended without a text: {event.reason}."
    return ""


def main() -> None:
    """Run one session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path, help="directory with the code")
    parser.add_argument("--goal", default="Make the code easier to read")
    parser.add_argument("--test", default="python -m pytest -q", help="command that tests the code")
    parser.add_argument("--at", default="./memory", help="location of the memory, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    session(options.code.resolve(), goal=options.goal, test=options.test, location=options.at, model=options.model)


if __name__ == "__main__":
    main()
