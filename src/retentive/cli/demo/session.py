"""Runs one session of the demo, in a process: `python -m retentive.cli.demo.session NAME LOCATION MODEL`.

The process reads its task from standard input and prints its events as JSON lines. It exits with status 1 if the agent
failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from retentive.agent.context import ClearToolUses, Compact, ContextManagement, InputTokens
from retentive.agent.errors import AgentError
from retentive.agent.events import ToolCall, ToolReply
from retentive.agent.prompts import system_prompt
from retentive.agent.turns import Budget
from retentive.cli.demo import story
from retentive.cli.demo.command import memory_of
from retentive.cli.demo.served import ServedMemory
from retentive.integrations.memory import SupportsExecute
from retentive.integrations.messages import TOOL

if TYPE_CHECKING:
    from retentive.agent.loop import Agent

MAX_TOKENS = 4_096
MAX_TURNS = 30  # a scripted session needs fewer; a real model might need many
CLEAR_AT, COMPACT_AT = 25_000, 50_000  # tokens; the API compacts no prompt below 50,000
CONTEXT = ContextManagement(
    ClearToolUses(trigger=InputTokens(CLEAR_AT), keep=3, exclude_tools=["memory"]),
    Compact(trigger=InputTokens(COMPACT_AT)),
)
_NEXT = {"role": "user", "content": "Go on."}  # a request must not end with an answer


def main(name: str, url: str, model: str) -> int:
    """Run the session. Returns the exit status.

    The task is a JSON object on one line of standard input:

    - `url`: the base URL of the API; null for the default of the SDK.
    - `stop_at`: the week after which the session waits to be killed; null to finish the task.
    - `served`: the address and key of the server with the memory; null for a memory without a server.
    """
    from anthropic import Anthropic, beta_tool  # noqa: PLC0415 - slow to import, while the parent starts its server

    from retentive.agent.loop import Agent  # noqa: PLC0415 - as above

    line = sys.stdin.readline()
    if not line:
        return 0  # the parent has ended, or needs no second session
    task = json.loads(line)
    tool = beta_tool(read_week)
    client = Anthropic(base_url=task["url"], api_key="none-needed-for-a-script") if task["url"] else Anthropic()
    actor = f"session:{name}"
    with client, _memory(task.get("served"), url, actor) as store:
        agent = Agent(
            client,
            model=model,
            memory=store,
            tools=[tool],
            context=CONTEXT,
            system=story.SYSTEM,
            actor=actor,
            budget=Budget(max_turns=MAX_TURNS, max_tokens=MAX_TOKENS),
        )
        try:
            has_stopped = _converse(agent, task["stop_at"])
            _print("Whole", tokens=_whole_tokens(agent, model, tool.to_dict()))
        except AgentError as error:
            _print("Failed", text=str(error))
            return 1
        if has_stopped:
            _print("Stopped")
            sys.stdin.read()  # wait until this process is killed or its parent ends
    return 0


@contextmanager
def _memory(served: dict[str, str] | None, url: str, actor: str) -> Iterator[SupportsExecute]:
    with memory_of(url, actor).created() if served is None else closing(ServedMemory(**served)) as memory:
        yield memory


def read_week(week: int) -> str:
    """Read one week's tickets about returned lamps.

    Args:
        week: the number of the week, from 1
    """
    return story.archive(week) if week in story.TICKETS else f"There is no week {week}."


def _converse(agent: Agent, stop_at: int | None) -> bool:
    """Run the agent and print its events. Stop when the agent has read the week `stop_at`.

    Returns True if the agent was stopped, and False if it finished its task.
    """
    weeks: dict[str, object] = {}
    for event in agent.run(story.TASK):
        printed = event
        match event:
            case ToolCall(id=call, name="read_week", input=given):
                weeks[call] = given.get("week")
            case ToolReply(name="read_week", is_error=False):
                printed = replace(event, text="")  # the text is too long to print
        _print(type(event).__name__, **asdict(printed))
        if stop_at is not None and isinstance(event, ToolReply) and weeks.get(event.id) == stop_at:
            return True
    return False


def _print(kind: str, **fields: object) -> None:
    print(json.dumps({"kind": kind, **fields}), flush=True)


def _whole_tokens(agent: Agent, model: str, tool: Mapping[str, Any]) -> int:
    messages = [
        {**message, "content": [block for block in message["content"] if block["type"] != "compaction"]}
        for message in agent.messages
    ]
    request: dict[str, Any] = {"tools": [TOOL, tool], "messages": [*messages, _NEXT]}
    counted = agent.client.beta.messages.count_tokens(model=model, system=system_prompt(story.SYSTEM), **request)
    return counted.input_tokens


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
