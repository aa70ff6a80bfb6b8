"""`demo`: an agent works on a long task in two sessions, which share only their memory.

The parent process serves the scripted Claude, shows the events, and kills the first session during its work. Each
session is an agent in a process of its own. The second session can therefore know the work of the first one only from
the memory.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.demo import story
from retentive.cli.demo.figures import Figures, Steps
from retentive.cli.demo.served import Service, server
from retentive.cli.demo.show import Screen
from retentive.cli.location import Location, shown
from retentive.errors import InvalidInput
from retentive.opening import DEFAULT_KEY
from retentive.values.extras import pip_install

if TYPE_CHECKING:
    from retentive.testing.scripted_claude import ScriptedClaude

Process = subprocess.Popen[str]

MODEL = "claude-sonnet-5-5"
REQUIRED = ("anthropic", "starlette", "uvicorn")  # packages of the agent and of the server for the scripted Claude
SERVED = ("httptools", "starlette", "uvicorn")  # packages of `retentive serve`
SESSIONS = ("first", "second")
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
WINDOW = 64_000  # tokens; the scripted Claude rejects a larger prompt


@output.command()
@click.option("--served", is_flag=True, help="Start a server; the agent reaches its memory over HTTP only.")
@click.option("--live", is_flag=True, help="Use the real API instead of the script; needs ANTHROPIC_API_KEY.")
@click.option("--model", default=MODEL, help="Model to use with --live.")
def demo(location: Location, *, served: bool, live: bool, model: str) -> None:
    """Watch an agent learn in one session and remember in the next.

    The location is a new directory, ./memory-demo, unless --at is given on the command line. RETENTIVE_AT has no
    effect, because it names real memories. With --served, the location is a SQLite database in that directory, and
    `retentive serve` serves it. On a terminal, the server keeps running after the sessions until Ctrl-C.
    """
    url = location.url if "at" in location.typed else None
    _check_requirements(live=live, served=served)
    if url is None:
        url = f"sqlite:///{_new_directory()}/memory.db" if served else _new_directory()
    elif not live:
        _check_empty(url)
    raise click.exceptions.Exit(run_demo(Screen(), url, model, live=live, is_served=served))


def _check_requirements(*, live: bool, served: bool) -> None:
    required = (*(REQUIRED[:1] if live else REQUIRED), *(SERVED if served else ()))
    missing = [module for module in required if find_spec(module) is None]
    if missing:
        extras = ("anthropic", "server" if served else "testing")
        raise InvalidInput(f"`retentive demo` needs {', '.join(missing)}: {pip_install(*extras)}")
    if live and not any(os.environ.get(key) for key in KEYS):
        raise click.UsageError("--live uses the real API: set ANTHROPIC_API_KEY, or omit --live to use the script")


def _check_empty(url: str) -> None:
    with memory_of(url).created() as store:
        if store.usage().memories:
            given = f"{shown(url)} already has memories"
            raise click.UsageError(f"{given}; the script needs an empty memory store: omit --at")


def _new_directory() -> str:
    """Create a new directory and return its path: ./memory-demo, or ./memory-demo-2 if that exists, and so on."""
    for number in count(1):
        path = "./memory-demo" if number == 1 else f"./memory-demo-{number}"
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            break
    return path


def run_demo(screen: Screen, url: str, model: str, *, live: bool, is_served: bool = False) -> int:
    """Run both sessions, and show their events and results. Returns the exit status."""
    _introduce(screen, url, model, live=live)
    with ExitStack() as running:
        # Start all processes now, because importing the SDK takes most of the time. They wait for their tasks.
        processes = [running.enter_context(_process(name, url, model, live=live)) for name in SESSIONS]
        service = running.enter_context(server(url, memory_of(url).store_key)) if is_served else None
        claude = None if live else running.enter_context(_claude())
        status = _run_sessions(screen, url, processes, claude, service)
        if service is not None and status == 0:
            _show_server(screen, service)
        return status


def _run_sessions(
    screen: Screen, url: str, processes: Sequence[Process], claude: ScriptedClaude | None, service: Service | None
) -> int:
    figures, window = Figures(), None if claude is None else WINDOW
    fixed = {"url": claude and claude.url, "served": service and service.for_agent()}
    answer: str | None = ""
    for number, process in enumerate(processes, 1):
        screen.title(f"Session {number} of {len(processes)}: process {process.pid}, an empty conversation")
        screen.say("user", story.TASK if number == 1 else "(the same question)", label_style="bold green")
        task = {**fixed, "stop_at": None if number == len(processes) else story.KILLED_AT}
        answer = _run_session(screen, figures, process, task, window)
        if answer is None:
            return _ended_early(screen, claude, SESSIONS[number - 1], process.returncode)
    right = sum((story.counted(story.archive(week)) for week in story.TICKETS), Counter[str]())
    if claude is not None and story.named(right) not in (answer or ""):
        screen.failed(f"the answer is wrong; the right counts are {story.named(right)}")
        return 1
    _show_figures(screen, figures, url, window, right)
    return _inspect(screen, url)


def _show_server(screen: Screen, service: Service) -> None:
    """Print commands that use the server. On a terminal, wait until Ctrl-C."""
    path = f"{service.url}/v1/memory_stores/{service.store_id}"
    screen.title("The server")
    screen.plain(f"{service.url} serves the memory to every program that has a key, in any language:")
    screen.command(f"export KEY={service.agent_key}")
    for call in ("/memories?view=full", "/memory_versions", "/events"):
        screen.command(f'curl -N -H "x-api-key: $KEY" "{path}{call}"')
    screen.plain(f"Key for administrators: {service.admin_key}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    screen.plain("Ctrl-C stops the server.", style="bold")
    with suppress(KeyboardInterrupt):
        service.process.wait()


def memory_of(url: str, actor: str | None = None) -> Location:
    """Return the memory at a location. As in other commands, the environment names the memory store and the keys."""
    return Location(url=url, store_key=os.environ.get("RETENTIVE_STORE") or DEFAULT_KEY, actor=actor)


def _run_session(
    screen: Screen, figures: Figures, process: Process, task: Mapping[str, object], window: int | None
) -> str | None:
    """Give a session its task. Follow the session until it ends or reports that it can be killed.

    Returns the last text of Claude. Returns None if the session failed.
    """
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the process has ended; its exit status shows why
        os.write(process.stdin.fileno(), json.dumps(task).encode() + b"\n")
    figures.reads.append([])
    text = _follow(screen, figures, process, window)
    return text if process.wait() in (0, -signal.SIGKILL) else None


def _follow(screen: Screen, figures: Figures, process: Process, window: int | None) -> str | None:
    """Show and count the events of a session. Kill the session after the event `Stopped`.

    Returns the last text of Claude. Returns None if the session failed.
    """
    assert process.stdout is not None
    steps, text, has_ended = Steps(), "", False
    for line in process.stdout:
        event = json.loads(line)
        match event["kind"]:
            case "ToolReply":
                screen.reply(event["name"], event["text"], is_error=event["is_error"])
            case "Whole":
                figures.whole += event["tokens"]
            case "Stopped":
                process.kill()
                _show_kill(screen, figures, process)
                has_ended = True
            case "Failed":
                screen.failed(event["text"])
            case "Finished":
                has_ended = event["reason"] == "end_turn"
                if not has_ended:
                    screen.failed(f"the session ended early: {event['reason']} {event['detail']}".rstrip())
            case _ if (step := steps.add(event)) is not None:
                figures.add(step)
                screen.step(step, window)
                text = step.texts[-1] if step.texts else text
    return text if has_ended else None


def _show_kill(screen: Screen, figures: Figures, process: Process) -> None:
    screen.plain(
        f"Process {process.pid} is killed (kill -9). Its conversation of {figures.whole:,} tokens is lost. It had read "
        f"week {figures.reads[-1][-1]}, but not saved the counts.",
        style="bold red",
    )


def _introduce(screen: Screen, url: str, model: str, *, live: bool) -> None:
    if live:
        screen.plain(f"Claude is real: {model}. Its actions may differ from run to run.", style="bold")
        screen.plain("It will read about 400,000 tokens.")
    else:
        scripted = "Claude is scripted: no model is used, and token counts are estimates. --live uses the real API."
        sees = "The script sees only what each request contains."
        screen.plain(scripted, style="bold")
        screen.plain(f"{sees} The task is larger than its window of {WINDOW:,} tokens.")
    screen.plain(f"The agent, the official SDK, HTTP and the memory in {shown(url)} are real.")


@contextmanager
def _process(name: str, url: str, model: str, *, live: bool) -> Iterator[Process]:
    """Context manager that starts the process of a session and kills it at the end. The process waits for its task."""
    command = [sys.executable, "-m", "retentive.cli.demo.session", name, url, model]
    kept = {key: value for key, value in os.environ.items() if live or key not in KEYS}
    with subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        env=kept,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # so that Ctrl-C reaches only the parent
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # no effect if the process has ended


def _claude() -> AbstractContextManager[ScriptedClaude]:
    from retentive.testing.scripted_claude import scripted_claude  # noqa: PLC0415 - imports the server

    def summarize(_seen: object) -> str:
        return story.SUMMARY

    return scripted_claude(story.answer, context_window=WINDOW, summarize=summarize, threads=False, keep_requests=False)


def _ended_early(screen: Screen, claude: ScriptedClaude | None, name: str, code: int) -> int:
    for failure in claude.failures if claude is not None else ():
        screen.failed(str(failure))
    ended = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    screen.failed(f"the {name} session ended early, with {ended}")
    return 1


def _show_figures(screen: Screen, figures: Figures, url: str, window: int | None, right: Counter[str]) -> None:
    with memory_of(url).created() as store:
        versions = store.history.log(actor="session:*")
    of_window = f"tokens; the window has {window:,}" if window is not None else "tokens"
    first, second = (", ".join(map(str, session)) or "none" for session in figures.reads)
    rows = [
        ("largest prompt", figures.largest_prompt, of_window),
        ("whole history", figures.whole, "tokens of both conversations, without clearing and compaction"),
        ("cleared", figures.cleared_tokens, f"tokens in {figures.cleared_results} tool results"),
        ("compactions", figures.compactions, "each replaces the conversation by a summary"),
        ("memory calls", figures.memory_calls, f"which wrote {len(versions)} versions"),
        ("weeks read", sum(map(len, figures.reads)), f"{first} in session 1, and {second} in session 2"),
        ("returned", right.total(), f"lamps, counted without an agent: {story.named(right)}"),
    ]
    screen.title("Totals")
    screen.table([(name, f"{number:,}", text) for name, number, text in rows])


def _inspect(screen: Screen, url: str) -> int:
    from retentive.cli.app import run  # noqa: PLC0415 - it imports this module

    program, options = program_in_shell(), ["--at", url]
    screen.title("Inspecting and undoing")
    for command in (["log", "-n", "2"], ["undo", "--session", SESSIONS[-1], "--dry-run"]):
        screen.plain(f"$ {shlex.join([program, *options, *command])}", style="bold")
        sys.stdout.flush()  # the output of the command must follow this line
        if status := run([*options, *command]):
            return status
    screen.plain("Try also:")
    for command in (["ls"], ["view", story.NOTES], ["diff", story.NOTES]):
        screen.command(shlex.join([program, *options, *command]))
    return 0


def program_in_shell() -> str:
    """Return the word that starts this program in a shell: its name, or its path if the name would not start it."""
    given, found = sys.argv[0], shutil.which("retentive")
    if os.path.basename(given) != "retentive" or (found is not None and os.path.samefile(found, given)):
        return "retentive"
    return given
