"""`retentive demo`: long work in two sessions, in two processes, with one memory.

The parent process serves the scripted Claude, shows what happens, and kills the first session in the middle of its
work. Each session is an agent in a process of its own that talks over HTTP, so nothing but the memory can pass from one
to the other.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from retentive import opening
from retentive.agent.context import ClearToolUses, Compact, ContextManagement, InputTokens
from retentive.agent.errors import AgentError
from retentive.agent.events import ToolCall, ToolReply
from retentive.agent.prompts import system_prompt
from retentive.agent.turns import Budget
from retentive.cli import output
from retentive.cli.demo import story
from retentive.cli.demo.run import KEYS, SESSIONS, memory_of, run_demo
from retentive.cli.demo.show import Screen
from retentive.integrations.messages import TOOL
from retentive.values.extras import pip_install

if TYPE_CHECKING:
    from retentive.agent.loop import Agent

MODEL = "claude-sonnet-5-5"
MAX_TOKENS = 4_096
MAX_TURNS = 30  # only a real model could need so many
CLEAR_AT, COMPACT_AT = 25_000, 50_000  # tokens; a compaction takes no less than 50,000


@click.command(cls=output.Command)
@click.option("--live", is_flag=True, help="Ask the real API instead of the script; needs ANTHROPIC_API_KEY.")
@click.option("--at", "place", metavar="PLACE", help="Where the memory lies; without it a new ./memory-demo.")
@click.option("--model", default=MODEL, show_default=True, help="The model, with --live.")
@click.option("--session", type=click.Choice(SESSIONS), hidden=True)
@click.pass_context
def demo(context: click.Context, *, live: bool, place: str | None, model: str, session: str | None) -> None:
    """Watch an agent learn in one session and remember in the next."""
    place = place or _place_of_the_group(context)
    _check_requirements(live=live)
    if session is not None:
        context.exit(_play(session, place or opening.DEFAULT_LOCATION, model))
    if place is None:
        place = _new_directory()
    elif not live:
        _check_empty(place)
    context.exit(run_demo(Screen(), place, model, live=live))


def _play(name: str, place: str, model: str) -> int:
    """One session, in this process, told as lines of JSON on standard output; the exit status.

    What it is to do comes as a line of JSON on standard input: `url`, where Claude is, None for where the SDK finds it,
    and `stop_at`, the week after whose reading it waits to be killed.
    """
    from anthropic import Anthropic, beta_tool  # noqa: PLC0415 - seconds to import, while the parent starts its server

    from retentive.agent.loop import Agent  # noqa: PLC0415 - as above

    line = sys.stdin.readline()
    if not line:
        return 0  # the parent is gone, or needs no second session
    asked = json.loads(line)
    tool = beta_tool(read_week)
    client = Anthropic(base_url=asked["url"], api_key="none-needed-for-a-script") if asked["url"] else Anthropic()
    actor = f"session:{name}"
    with client, memory_of(place, actor).made() as store:
        agent = Agent(
            client,
            model=model,
            memory=store,
            tools=[tool],
            context=_context(),
            system=story.SYSTEM,
            actor=actor,
            budget=Budget(max_turns=MAX_TURNS, max_tokens=MAX_TOKENS),
        )
        try:
            stopped = _converse(agent, asked["stop_at"])
            _tell("Whole", tokens=_whole(agent, model, tool.to_dict()))
        except AgentError as error:
            _tell("Failed", text=str(error))
            return 1
        if stopped:
            _tell("Stopped")
            sys.stdin.read()  # until we are killed, or our parent is gone
    return 0


def _context() -> ContextManagement:
    clearing = ClearToolUses(trigger=InputTokens(CLEAR_AT), keep=3, exclude_tools=["memory"])
    return ContextManagement(clearing, Compact(trigger=InputTokens(COMPACT_AT)))


def read_week(week: int) -> str:
    """Read the tickets about returned lamps of one week.

    Args:
        week: the number of the week, from 1
    """
    return story.archive(week) if week in story.TICKETS else f"There is no week {week}."


def _converse(agent: Agent, stop_at: int | None) -> bool:
    """Tell what the agent does, until it is done, or has read the week to stop at: then the answer is True."""
    weeks: dict[str, object] = {}
    for event in agent.run(story.TASK):
        told = event
        match event:
            case ToolCall(id=call, name="read_week", input=given):
                weeks[call] = given.get("week")
            case ToolReply(name="read_week", is_error=False):
                told = replace(event, text="")  # nobody looks at these ten thousands of characters
        _tell(type(event).__name__, **asdict(told))
        if stop_at is not None and isinstance(event, ToolReply) and weeks.get(event.id) == stop_at:
            return True
    return False


def _tell(kind: str, **fields: object) -> None:
    print(json.dumps({"kind": kind, **fields}), flush=True)


def _whole(agent: Agent, model: str, tool: Any) -> int:
    """The tokens of all that was said and read, had nothing been cleared or compacted."""
    from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

    messages: list[Any] = [
        {**message, "content": [block for block in message["content"] if block["type"] != "compaction"]}
        for message in agent.messages
    ]
    if messages[-1]["role"] == "assistant":  # with which a conversation that is sent may not end
        messages.append({"role": "user", "content": "?"})
    with sdk.api_errors():
        counted = agent.client.beta.messages.count_tokens(
            model=model, messages=messages, tools=[{**TOOL}, tool], system=system_prompt(story.SYSTEM)
        )
    return counted.input_tokens


def _check_requirements(*, live: bool) -> None:
    modules = ["anthropic"] if live else ["anthropic", "starlette", "uvicorn"]
    from importlib.util import find_spec  # noqa: PLC0415 - only here

    if missing := [module for module in modules if find_spec(module) is None]:
        raise click.ClickException(f"the demo needs {', '.join(missing)}: {pip_install('anthropic', 'testing')}")
    if live and not any(os.environ.get(key) for key in KEYS):
        raise click.UsageError("--live asks the real API: set ANTHROPIC_API_KEY, or leave --live out for the script")


def _check_empty(place: str) -> None:
    with memory_of(place).made() as store:
        if store.usage().memories:
            raise click.UsageError(f"{place} holds memories; the script needs an empty place, try without --at")


def _new_directory() -> str:
    """A directory that was not there before: ./memory-demo, ./memory-demo-2, ..."""
    number = 1
    while True:
        place = "./memory-demo" if number == 1 else f"./memory-demo-{number}"
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            number += 1
        else:
            return place


def _place_of_the_group(context: click.Context) -> str | None:
    """The place in `retentive --at PLACE demo`; one from the environment is someone's own memory, so not that."""
    group = context.parent
    if group is None or group.get_parameter_source("at") is not ParameterSource.COMMANDLINE:
        return None
    return str(group.params["at"])


if __name__ == "__main__":
    demo()
