"""`commonplace demo`: two sessions of a customer-service agent, in two processes, with one memory.

The parent process serves the scripted Claude and shows what is left in the end. Each session is a process of its
own that talks to it through the official SDK over HTTP, so nothing but the memory can pass from one to the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from commonplace import opening
from commonplace.cli import output
from commonplace.cli.demo_show import Screen
from commonplace.cli.demo_story import SESSIONS, SYSTEM

if TYPE_CHECKING:
    from commonplace.testing.scripted_claude import ScriptedClaude

MODEL = "claude-sonnet-5-5"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
MAX_TOKENS = 4096
MAX_REPLIES = 30  # for one message, and only a real model could need them


@click.command(cls=output.Command)
@click.option("--live", is_flag=True, help="Ask the real API instead of the script; needs ANTHROPIC_API_KEY.")
@click.option("--at", "place", metavar="PLACE", help="Where the memory lies; without it a new ./memory-demo.")
@click.option("--model", default=MODEL, show_default=True, help="The model, with --live.")
@click.option("--session", type=click.Choice(list(SESSIONS)), hidden=True)
@click.pass_context
def demo(context: click.Context, *, live: bool, place: str | None, model: str, session: str | None) -> None:
    """Watch an agent learn in one session and remember in the next."""
    place = place or _place_of_the_group(context)
    _check_requirements(live=live)
    if session is not None:
        context.exit(_play(session, place or opening.DEFAULT_PLACE, model))
    if place is None:
        place = _new_directory()
    elif not live:
        _check_empty(place)
    context.exit(_demo(Screen(), place, model, live=live))


def _demo(screen: Screen, place: str, model: str, *, live: bool) -> int:
    """Run both sessions and show what they left; the exit code."""
    _introduce(screen, place, model, live=live)
    with _claude(live=live) as claude:
        for number, name in enumerate(SESSIONS, 1):
            screen.title(f"Session {number} of {len(SESSIONS)}")
            code, process = _run_session(name, place, model, claude)
            if code:
                screen.failed(f"the {name} session ended with exit code {code}")
                return 1
            screen.plain(f"\nProcess {process} has ended; nothing of it is left but the memory.", style="dim")
        if claude is not None and not _played(screen, claude):
            return 1
    _show_what_is_left(screen, place)
    return 0


def _introduce(screen: Screen, place: str, model: str, *, live: bool) -> None:
    if live:
        screen.plain(f"Claude is real here: {model}. What it does may differ from run to run.", style="bold")
    else:
        screen.plain("Claude is scripted here: its part was written beforehand and no model is asked.", style="bold")
        screen.plain("Use --live with an API key to ask the real one.")
    screen.plain(f"The official SDK and its tool runner, HTTP, and the memory in {place} are real.")


def _run_session(name: str, place: str, model: str, claude: ScriptedClaude | None) -> tuple[int, int]:
    """Play one session in a process of its own; its exit code and process id."""
    command = [sys.executable, "-m", "commonplace.cli.demo", "--session", name, "--at", place, "--model", model]
    environment = dict(os.environ)
    if claude is not None:
        for key in KEYS:
            environment.pop(key, None)
        environment |= {"ANTHROPIC_BASE_URL": claude.url, "ANTHROPIC_API_KEY": "none-needed-for-a-script"}
    sys.stdout.flush()  # the session writes to the same place, and after us
    with subprocess.Popen(command, env=environment) as process:  # noqa: S603 - our own module, no shell
        return process.wait(), process.pid


def _play(name: str, place: str, model: str) -> int:
    """One session, in this process: the SDK's tool runner, a message of the user at a time."""
    from anthropic import Anthropic, AnthropicError  # noqa: PLC0415 - a second to import

    from commonplace.doors.anthropic import MemoryTool  # noqa: PLC0415 - imports the SDK

    screen = Screen()
    screen.plain(f"A new process, {os.getpid()}, with an empty conversation.", style="dim")
    tool = MemoryTool(place, actor=f"session:{name}")
    messages: list[Any] = []
    try:
        with Anthropic(max_retries=2) as client:
            for text in SESSIONS[name].messages:
                messages.append({"role": "user", "content": text})
                screen.plain("")
                screen.say("user", text, label_style="bold yellow")
                _converse(screen, client, model, tool, messages)
    except AnthropicError as error:
        screen.failed(getattr(error, "api_message", None) or str(error))
        return 1
    finally:
        tool.close()
    return 0


def _converse(screen: Screen, client: Any, model: str, tool: Any, messages: list[Any]) -> None:
    """Let Claude answer the last of `messages`, with as many tool calls as it likes; all is shown and appended."""
    runner = client.beta.messages.tool_runner(
        model=model,
        max_tokens=MAX_TOKENS,
        system=SYSTEM,
        messages=list(messages),
        tools=[tool],
        max_iterations=MAX_REPLIES,
    )
    for message in runner:
        cut_off = message.stop_reason != "tool_use"  # then a call may be incomplete, and the runner runs none
        answers = None if cut_off else runner.generate_tool_call_response()
        results = {} if answers is None else {block["tool_use_id"]: block for block in answers["content"]}
        for block in message.content:
            if block.type == "text":
                screen.say("claude", block.text, label_style="bold magenta")
            elif block.type == "tool_use":
                screen.call(block.name, block.input)
                result = results.get(block.id, {})
                screen.reply(str(result.get("content", "")), is_error=bool(result.get("is_error")))
        messages += [message.to_param(), *([] if answers is None else [answers])]


@contextmanager
def _claude(*, live: bool) -> Iterator[ScriptedClaude | None]:
    if live:
        yield None
        return
    from commonplace.testing.scripted_claude import scripted_claude  # noqa: PLC0415 - imports the server

    with scripted_claude(*(session.script for session in SESSIONS.values())) as claude:
        yield claude


def _played(screen: Screen, claude: ScriptedClaude) -> bool:
    """Whether the whole script was played without a failure; what is missing is shown."""
    for failure in claude.failures:
        screen.failed(str(failure))
    turns = sum(len(session.script.turns) for session in SESSIONS.values())
    if len(claude.requests) != turns:
        screen.failed(f"{len(claude.requests)} of {turns} turns were played")
    return not claude.failures and len(claude.requests) == turns


def _show_what_is_left(screen: Screen, place: str) -> None:
    files = Path(place)
    if files.is_dir():  # before it is opened: an open memory has files of the moment beside those that stay
        screen.title("What lies on disk")
        screen.files(files)
    with opening.open(place) as memory:
        store = memory.store()
        if not files.is_dir():
            screen.title("What lies in the memory")
            screen.memories(store)
        screen.title("Its history")
        screen.history(store)
    screen.plain(f"\nLook around: commonplace --at {place} ls", style="bold")


def _check_requirements(*, live: bool) -> None:
    modules = ["anthropic"] if live else ["anthropic", "starlette", "uvicorn"]
    from importlib.util import find_spec  # noqa: PLC0415 - only here

    if missing := [module for module in modules if find_spec(module) is None]:
        raise click.ClickException(f"the demo needs {', '.join(missing)}: pip install 'commonplace[anthropic,testing]'")
    if live and not any(os.environ.get(key) for key in KEYS):
        raise click.UsageError("--live asks the real API: set ANTHROPIC_API_KEY, or leave --live out for the script")


def _check_empty(place: str) -> None:
    with opening.open(place) as memory:
        if memory.store().usage().memories:
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
    """The place in `commonplace --at PLACE demo`; one from the environment is someone's own memory, so not that."""
    group = context.parent
    if group is None or group.get_parameter_source("at") is not ParameterSource.COMMANDLINE:
        return None
    return str(group.params["at"])


if __name__ == "__main__":
    demo()
