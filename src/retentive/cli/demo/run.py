"""The parent process of the demo: starts the sessions, serves the scripted Claude and shows the events."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

from retentive.cli.demo import story
from retentive.cli.demo.figures import Figures, Steps
from retentive.cli.demo.show import Screen
from retentive.cli.location import Location, shown
from retentive.opening import DEFAULT_KEY

if TYPE_CHECKING:
    from retentive.testing.scripted_claude import ScriptedClaude

Process = subprocess.Popen[str]

SESSIONS = ("first", "second")
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
WINDOW = 64_000  # tokens; the scripted Claude refuses a larger prompt


def run_demo(screen: Screen, url: str, model: str, *, live: bool) -> int:
    """Run both sessions, and show their events and results; the exit status."""
    _introduce(screen, url, model, live=live)
    figures = Figures()
    with ExitStack() as running:
        # Both at once, and before the server: importing the SDK takes most of the time.
        processes = [running.enter_context(_process(name, url, model, live=live)) for name in SESSIONS]
        claude = running.enter_context(_claude(live=live))
        answer = ""
        for number, process in enumerate(processes, 1):
            last = number == len(processes)
            screen.title(f"Session {number} of {len(processes)}: process {process.pid}, an empty conversation")
            screen.say("user", story.TASK if number == 1 else "(the same question)", label_style="bold green")
            session = _Session(screen, figures, process, None if claude is None else WINDOW)
            answer = session.run(None if claude is None else claude.url, None if last else story.KILLED_AT)
            if session.failed:
                return _ended_early(screen, claude, SESSIONS[number - 1], process)
    if claude is not None and not _is_right(screen, answer):
        return 1
    _show_figures(screen, figures, url, None if claude is None else WINDOW)
    return _inspect(screen, url)


def memory_of(url: str, actor: str | None = None) -> Location:
    """The memory at a location, with the memory store and keys from the environment, as for other commands."""
    return Location(url=url, store_key=os.environ.get("RETENTIVE_STORE") or DEFAULT_KEY, actor=actor)


class _Session:
    """One session: shows and counts the events of its process."""

    def __init__(self, screen: Screen, figures: Figures, process: Process, window: int | None) -> None:
        self.failed = False
        self._screen = screen
        self._figures = figures
        self._process = process
        self._window = window

    def run(self, url: str | None, stop_at: int | None) -> str:
        """Run the session to its end, or kill it after the week `stop_at`; the last text of Claude."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(BrokenPipeError):  # the process has ended; its exit status has the reason
            os.write(stdin.fileno(), json.dumps({"url": url, "stop_at": stop_at}).encode() + b"\n")
        self._figures.reads.append([])
        text = self._follow(stdout)
        code = self._process.wait()
        self.failed = self.failed or code not in (0, -signal.SIGKILL)
        return text

    def _follow(self, stdout: IO[str]) -> str:
        steps, text, ended = Steps(), "", False
        for line in stdout:
            event = json.loads(line)
            match event["kind"]:
                case "ToolReply":
                    self._screen.reply(event["name"], event["text"], is_error=event["is_error"])
                case "Whole":
                    self._figures.whole += event["tokens"]
                case "Stopped":
                    self._kill()
                    ended = True
                case "Failed":
                    self._screen.failed(event["text"])
                case "Finished":
                    ended = event["reason"] == "end_turn"
                    if not ended:
                        self._screen.failed(f"the session ended early: {event['reason']} {event['detail']}".rstrip())
                case _ if (step := steps.add(event)) is not None:
                    self._figures.add(step)
                    self._screen.step(step, self._window)
                    text = step.texts[-1] if step.texts else text
        self.failed = not ended
        return text

    def _kill(self) -> None:
        self._process.kill()
        week = self._figures.reads[-1][-1]
        self._screen.plain(
            f"Process {self._process.pid} is killed (kill -9). Its conversation of {self._figures.whole:,} tokens is "
            f"lost. It had read week {week}, but not saved the counts.",
            style="bold red",
        )


def _introduce(screen: Screen, url: str, model: str, *, live: bool) -> None:
    if live:
        screen.plain(f"Claude is real: {model}. Its actions may differ from run to run.", style="bold")
        screen.plain("It will read about 400,000 tokens.")
    else:
        screen.plain(
            "Claude is scripted: no model is used, and token counts are estimates. --live uses the real API.",
            style="bold",
        )
        screen.plain(
            f"The script sees only what each request contains. The task is larger than its window of {WINDOW:,} tokens."
        )
    screen.plain(f"The agent, the official SDK, HTTP and the memory in {shown(url)} are real.")


@contextmanager
def _process(name: str, url: str, model: str, *, live: bool) -> Iterator[Process]:
    """A process that waits for its task; killed at the end of the block."""
    command = [sys.executable, "-m", "retentive.cli.demo.session", name, url, model]
    kept = {key: value for key, value in os.environ.items() if live or key not in KEYS}
    with subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        env=kept,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C reaches only the parent
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # no effect on an ended process


@contextmanager
def _claude(*, live: bool) -> Iterator[ScriptedClaude | None]:
    if live:
        yield None
        return
    from retentive.testing.scripted_claude import scripted_claude  # noqa: PLC0415 - imports the server

    def summarize(_seen: object) -> str:
        return story.SUMMARY

    with scripted_claude(
        story.answer, context_window=WINDOW, summarize=summarize, threads=False, keep_requests=False
    ) as claude:
        yield claude


def _ended_early(screen: Screen, claude: ScriptedClaude | None, name: str, process: Process) -> int:
    """Show why a session ended early; the exit status."""
    for failure in claude.failures if claude is not None else ():
        screen.failed(str(failure))
    code = process.returncode
    screen.failed(f"the {name} session ended early, with {_ended(code)}")
    return 1


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _right() -> Counter[str]:
    """The right answer, counted from the archive."""
    return sum((story.counted(story.archive(week)) for week in story.TICKETS), Counter[str]())


def _is_right(screen: Screen, answer: str) -> bool:
    if story.named(_right()) in answer:
        return True
    screen.failed(f"the answer is wrong; the right counts are {story.named(_right())}")
    return False


def _show_figures(screen: Screen, figures: Figures, url: str, window: int | None) -> None:
    """Show the totals as a table."""
    with memory_of(url).created() as store:
        versions = store.history.log(actor="session:*")
    of_window = f"tokens; the window has {window:,}" if window is not None else "tokens"
    weeks = [", ".join(map(str, session)) or "none" for session in figures.reads]
    right = _right()
    screen.title("Totals")
    screen.table(
        [
            ("largest prompt", f"{figures.largest_prompt:,}", of_window),
            ("whole history", f"{figures.whole:,}", "tokens of both conversations, without clearing and compaction"),
            ("cleared", f"{figures.cleared_tokens:,}", f"tokens in {figures.cleared_results} tool results"),
            ("compactions", f"{figures.compactions:,}", "each replaces the conversation by a summary"),
            ("memory calls", f"{figures.memory_calls:,}", f"which wrote {len(versions)} versions"),
            (
                "weeks read",
                f"{sum(map(len, figures.reads)):,}",
                f"{weeks[0]} in session 1, and {weeks[1]} in session 2",
            ),
            ("returned", f"{sum(right.values()):,}", f"lamps, counted without an agent: {story.named(right)}"),
        ]
    )


def _inspect(screen: Screen, url: str) -> int:
    """Run two commands that inspect the work of the agent, and list more; the exit status."""
    from retentive.cli.app import run  # noqa: PLC0415 - it imports this module

    options = ["--at", url]
    screen.title("Inspecting and undoing")
    for command in (["log", "-n", "2"], ["undo", "--session", SESSIONS[-1], "--dry-run"]):
        screen.plain(f"$ {shlex.join(['retentive', *options, *command])}", style="bold")
        screen.flush()
        if status := run([*options, *command]):
            return status
    screen.plain(f"Try also: retentive {shlex.join(options)} ls | view {story.NOTES} | diff {story.NOTES}")
    return 0
