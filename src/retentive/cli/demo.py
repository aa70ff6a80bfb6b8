"""`demo`: an agent is killed during a task, and its next session continues from its memory.

The first process serves the scripted Claude. Each session is an agent in a process of its own, so the second session
can know the work of the first one only from the memory. The script is a function that sees only the messages of one
request.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from tempfile import mkdtemp
from urllib.parse import urlencode

import click
from anthropic import Anthropic, beta_tool

import retentive
from retentive.agent import Budget, Text, ToolCall, ToolReply
from retentive.agent.loop import Agent
from retentive.cli import output
from retentive.cli.location import Location, shown
from retentive.cli.options import command
from retentive.cli.server import serve_console
from retentive.opening import DEFAULT_KEY
from retentive.testing.scripted_claude import Call, Prompt, ToolUse, Turn, scripted_claude

OF_CONSOLE = ("jinja2", "markdown_it", "nh3")
TICKETS = {1: 12, 2: 16, 3: 24, 4: 34, 5: 46, 6: 28, 7: 18}
"""Number of tickets of each week."""
LAMPS = ("Aurora", "Borealis", "Corona")
NOTES = "/memories/returns.md"
KILLED_AT = 6  # the first session is killed after it has read this week and before it has saved the counts
SYSTEM = (
    "You help the support team of Brightside, a small shop for lamps. Read one week at a time, and after each week "
    "save your progress and your counts in your memory: your work may be interrupted."
)
TASK = f"How often was each lamp returned in weeks 1 to {len(TICKETS)}? Give each name with its count: {LAMPS[0]} 12."
CODE_S = 3_600  # a newcomer reads first
TOUR = {
    "the note that was recalled": f"m/{NOTES.removeprefix('/memories/')}?at=r{KILLED_AT}",
    "what the second session changed": "by/session:second",
    "undo it: preview and button": "undo?actor=session:second",
}
_RETURNED = re.compile(r"^Returned: (\w+)$", re.MULTILINE)
_PROGRESS = re.compile(r"Weeks done: (\d+)\n[ \d\t]*So far: (.*)\.")  # as written or as viewed


@command()
def demo(location: Location) -> None:
    """Watch an agent learn in one session and remember in the next.

    The location is a new directory, ./memory-demo-NAME, unless --at is given on the command line. RETENTIVE_AT has no
    effect, because it names real memories. On a terminal, the web console of the location is served at the end, until
    Ctrl-C.
    """
    url = location.url if "at" in location.typed else mkdtemp(prefix="memory-demo-", dir=".")
    with retentive.open(url) as opened:
        if opened.store().usage().memories:
            raise click.UsageError(f"{shown(url)} already has memories; the script needs an empty store: omit --at")
    output.write_line(
        "Claude is scripted: no model is used. The agent, the official SDK, HTTP and the memory in\n"
        f"{shown(url)} are real.\n\nuser: {TASK}"
    )
    _run_sessions(url)
    raise click.exceptions.Exit(_show(url))


def _run_sessions(url: str) -> None:
    """Run both sessions, the first until it is killed. Raises `ClickException` if a session or the answer is wrong."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANTHROPIC_")}
    with scripted_claude(answer, threads=False) as claude:
        for name, expected in (("first", -signal.SIGKILL), ("second", 0)):
            output.write_line(f"\n── The {name} session: a new process, an empty conversation")
            sys.stdout.flush()
            command = [sys.executable, "-m", "retentive.cli.demo", url, claude.url, name]
            status = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own module
            if claude.failures or status != expected:
                failed = [f"the {name} session ended with status {status}", *map(str, claude.failures)]
                raise click.ClickException("\n".join(failed))
            if status:
                output.write_line(
                    f"This process is killed (kill -9), and its conversation is lost. It had read week {KILLED_AT}, "
                    "but not saved the counts."
                )
    right = named(counted("\n".join(map(read_week, TICKETS))))
    with retentive.open(url) as opened:
        if right not in opened.store().read(NOTES):
            raise click.ClickException(f"the answer is wrong; the right counts are {right}")
    output.write_line(f"\nThe answer is right: counted without an agent, the returns are {right}.")


def _show(url: str) -> int:
    """Show the history of the notes, and serve the console if there is a terminal. Return the exit status."""
    from retentive.cli.app import run  # noqa: PLC0415 - it imports this module

    options = ["--at", url]
    program = "retentive" if shutil.which("retentive") else sys.argv[0]  # in a checkout, the path can be copied
    in_shell = shlex.join([program, *options])
    for words in (["log", "-n", "3"], ["undo", "--session", "second", "--dry-run"]):
        output.write_line(f"\n$ {in_shell} {shlex.join(words)}")
        sys.stdout.flush()  # the output of the command must follow this line
        if status := run([*options, *words]):
            return status
    output.write_line(f"\nTry also:\n$ {in_shell} diff {NOTES}\n$ {in_shell} console")
    if not (all(map(find_spec, OF_CONSOLE)) and sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    serve_console(Location(url), _show_tour, lasts_s=CODE_S)
    return 0


def _show_tour(address: str, code: str) -> None:
    """Print the pages to click, in the order of the story. The first one signs in."""
    store = f"/console/s/{DEFAULT_KEY}"
    sign_in = f"{address}/console/login?{urlencode({'code': code, 'next': f'{store}/activity'}, safe='/')}"
    rows = [f"  {name:<{max(map(len, TOUR))}}  {address}{store}/{page}" for name, page in TOUR.items()]
    output.write_line(
        "\nSee it in a browser; Ctrl-C stops the console. This page signs you in, and shows the two sessions:\n\n"
        f"  {sign_in}\n\nThen:\n" + "\n".join(rows)
    )


def session(url: str, base_url: str, name: str) -> None:
    """Run one session and print its events. The first session kills its process after it has read `KILLED_AT`."""
    with Anthropic(base_url=base_url, api_key="none") as client, retentive.open(url) as opened:
        runner = Agent(
            client,
            model="claude-sonnet-5-5",
            memory=opened.store(),
            tools=[beta_tool(read_week)],
            system=SYSTEM,
            actor=f"session:{name}",
            budget=Budget(max_turns=30, max_tokens=4_096),
        )
        calls: dict[str, Mapping[str, object]] = {}
        for event in runner.run(TASK):
            match event:
                case Text(text):
                    print("claude:", output.harmless(text))
                case ToolCall(id=call_id, name=tool, input=given):
                    calls[call_id] = given
                    print(f"  {tool}", *(given[key] for key in ("command", "path", "week") if key in given))
                case ToolReply(text=text, is_error=True):
                    print("  error:", output.harmless(text))
                case ToolReply(id=call_id, text=text) if calls[call_id].get("command") == "view":
                    print("   |", output.harmless(text).replace("\n", "\n   | "))
            sys.stdout.flush()
            if name == "first" and isinstance(event, ToolReply) and calls[event.id].get("week") == KILLED_AT:
                os.kill(os.getpid(), signal.SIGKILL)


def read_week(week: int) -> str:
    """Read one week's tickets about returned lamps. Every call returns the same text.

    Args:
        week: the number of the week, from 1
    """
    chance = random.Random(week)  # noqa: S311 - the archive must be reproducible, not secret
    numbers = range(1, TICKETS[week] + 1)
    return "\n".join(f"Ticket {week}{number:02}\nReturned: {chance.choice(LAMPS)}\n" for number in numbers)


def counted(text: str) -> Counter[str]:
    """Count how often each lamp was returned. `text` contains the tickets."""
    return Counter(_RETURNED.findall(text))


def named(counts: Counter[str]) -> str:
    """Return the counts as text, in the format of the memory and the answer: `Aurora 3, Borealis 0, Corona 7`."""
    return ", ".join(f"{lamp} {counts[lamp]}" for lamp in LAMPS)


def answer(prompt: Prompt) -> Turn:
    """Return the next turn of Claude: view the memory, read a week, save its counts, or give the final answer."""
    if not prompt.calls:
        return Turn((Call({"command": "view", "path": NOTES}, name="memory"),))
    found = [match for call in prompt.calls if (match := _PROGRESS.search(_noted(call)))]
    if not found:
        notes = {"command": "create", "path": NOTES, "file_text": f"{_progress(0, Counter())}\n"}
        return Turn((Call(notes, name="memory"), Call({"week": 1}, name="read_week")))
    done, last = int(found[-1][1]), prompt.calls[-1]
    counts = Counter({lamp: int(number) for lamp, number in re.findall(r"(\w+) (\d+)", found[-1][2])})
    if last.name == "read_week" and last.result is not None:
        old, new = _progress(done, counts), _progress(done + 1, counts + counted(last.result.text))
        change = {"command": "str_replace", "path": NOTES, "old_str": old, "new_str": new}
        more = [Call({"week": done + 2}, name="read_week")] if done + 1 < len(TICKETS) else []
        return Turn((Call(change, name="memory"), *more))
    if done < len(TICKETS):
        return Turn(("I have worked on this before.", Call({"week": done + 1}, name="read_week")))
    return Turn((f"I have counted all {done} weeks. Returns: {named(counts)}.",))


def _progress(done: int, counts: Counter[str]) -> str:
    return f"Weeks done: {done}\nSo far: {named(counts)}."


def _noted(call: ToolUse) -> str:
    """Return the text that a call wrote to the memory or read from it."""
    read = "" if call.result is None or call.result.is_error else call.result.text
    return str(call.input.get("new_str") or call.input.get("file_text") or read)


if __name__ == "__main__":
    session(*sys.argv[1:])
