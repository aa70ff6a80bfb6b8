"""`hook`: the command that the hooks of the Claude Code plugin run. An error in a hook never stops a session."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, redirect_stderr, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import click

from retentive.cli import output
from retentive.cli.exits import EXITS, status_of
from retentive.cli.hook_context import best_lines, digest, news_of, recall_block
from retentive.cli.hook_settings import (
    OPTION,
    acting,
    as_id,
    configured,
    log,
    longest_wait_s,
    place_of,
    read_state,
    recall_tokens,
    shares_projects,
    state_file,
    write_state,
)
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.errors import NotFound, Unavailable
from retentive.locations import local_path
from retentive.mounts import StoreOrMounts
from retentive.storage.disk import make_directory
from retentive.storage.lock_file import LockFile

T = TypeVar("T")
MAX_INPUT_BYTES = 64 << 20  # the input of a hook after an edit includes the text of the edited file
CONNECT_S = 1.0
"""Seconds in which a server must accept a connection. There is one attempt."""
MAX_OUTAGE_S = 60.0
"""Seconds for which hooks do not try to reach a memory store again."""
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432, "mariadb": 3306}
PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses between attempts to synchronise at the end of a session, when nobody waits, if the store is unavailable."""
MAX_TURN_S = 120.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Started processes, which may run longer than the hook. Python would warn if such a process had no reference."""
_WAITED_FOR = "answer of the memory store"
_MAIN = "from retentive.cli import main; raise SystemExit(main())"


@dataclass(frozen=True, slots=True)
class Hook:
    """A running hook of a session of Claude Code.

    `session_id` is empty unless the received id is valid. `prompt` is what the user or the model asks. `directory` is
    the directory to synchronise, or None if the user did not configure one.
    """

    session_id: str
    prompt: str
    tool_input: Mapping[str, object]
    location: Location
    directory: str | None

    def synchronise(self) -> int | None:
        """Start a process that synchronises the directory, and wait until it ends, at most `longest_wait_s` seconds.

        Returns the exit status of the process. Returns None if it still runs, if there is no directory, or if the store
        could not be reached within the last minute. The notes are then synchronised later.
        """
        if self.directory is not None and _is_reachable(self.location.url):
            with suppress(subprocess.TimeoutExpired):
                return start(self.location, self.directory).wait(longest_wait_s())
        return None

    def asked(self, question: Callable[[StoreOrMounts], T]) -> T | None:
        """Open the memory store with its mounts, call `question` with it, and return the result.

        Returns None if the store does not exist. Raises `Unavailable` if the store does not answer within
        `longest_wait_s` seconds, or could not be reached within the last minute. Errors of `question` are raised too.
        """
        context, url = click.get_current_context(), self.location.url

        def ask() -> T | None:
            with suppress(NotFound), context.scope(cleanup=False), self.location.tree() as store:
                return question(store)
            return None

        if not _is_reachable(url):
            raise Unavailable("the memory store cannot be reached; the notes are synchronised later")
        try:
            answer = _within(longest_wait_s(), ask)
        except Unavailable:
            _note_outage(url, is_out=True)
            raise
        _note_outage(url, is_out=False)
        return answer

    def recalled(self, *, only_new: bool) -> str:
        """Return the lines of memories that fit the prompt. Empty if the user did not ask for them, or on an error.

        With `only_new`, lines that the session was given before are left out.
        """
        budget, began = recall_tokens(), time.perf_counter()
        is_fork = self.tool_input.get("subagent_type") == "fork"  # such a subagent has the context of the session
        if not budget or not self.prompt.strip() or is_fork:
            return ""
        try:
            found = self.asked(lambda store: best_lines(store, self.prompt, budget))
            text, tokens = recall_block(found or (), self.session_id if only_new else "")
        except Exception as error:  # the prompt goes on without them
            log(f"recall: {type(error).__name__}: {error}")
            return ""
        log(f"recall: {tokens} tokens in {(time.perf_counter() - began) * 1000:.0f} ms")
        return text


def _within(wait_s: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its error. Raises `Unavailable` after some seconds."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # the calling thread raises it
            done.set_exception(error)

    thread = threading.Thread(target=run, name=_WAITED_FOR, daemon=True)
    thread.start()
    thread.join(wait_s)
    if not done.done():
        raise Unavailable(f"the memory store did not answer within {wait_s:g} s")
    return done.result()


def _is_reachable(url: str) -> bool:
    """Return False if the store could not be reached within the last minute, or if its server does not accept a
    connection now. Nothing is tried again, so that no prompt waits twice.
    """
    with suppress(OSError):
        if abs(time.time() - state_file(".down", of=url).stat().st_mtime) < MAX_OUTAGE_S:
            return False
    try:
        _within(CONNECT_S + 0.5, partial(_connect, url))
    except (OSError, Unavailable):
        _note_outage(url, is_out=True)
        return False
    return True


def _connect(url: str) -> None:
    """Connect to the server of a location, and disconnect. Raises OSError if it cannot be reached.

    Does nothing for other locations, for several servers, and if a proxy may be in between.
    """
    with suppress(ValueError):
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
        if host and "," not in host and port is not None and not getproxies_environment().keys() - {"no"}:
            socket.create_connection((host, port), CONNECT_S).close()


def _note_outage(url: str, *, is_out: bool) -> None:
    """Record whether a memory store could be reached, so that other hooks do not wait for one that could not."""
    if local_path(url) is None:
        with suppress(OSError):
            write_state(state_file(".down", of=url), "" if is_out else None)


# -- synchronising in a process that continues after the hook and the session have ended ---------------------------


def start(location: Location, directory: str, *, is_last: bool = False) -> subprocess.Popen[bytes]:
    """Start a process that synchronises the directory, and return it. At the end of a session, it tries repeatedly.

    Claude Code kills the processes that a hook has started. This process is not killed, because it runs in its own
    session (of the operating system) and has no standard streams.
    """
    make_directory(directory)
    settings = {"LOCATION": location.url, "STORE": location.store_key, "DIRECTORY": directory, "LAST": "1" * is_last}
    environment = os.environ | {f"{OPTION}{name}": value for name, value in settings.items()}
    if location.keys is not None:
        environment["RETENTIVE_KEYS_FILE"] = os.path.abspath(location.keys)
    actor = [] if location.actor is None else ["--actor", location.actor]
    process = subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-c", _MAIN, "hook", "push", *actor],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _STARTED.append(process)
    return process


def push(location: Location, directory: str) -> int:
    """Synchronise a directory, and return the exit status.

    Only one process at a time synchronises a directory, and one other process may wait for its turn. If a process
    already waits, this process does nothing: the waiting process will also synchronise the latest edits.
    """
    real, unavailable = os.path.realpath(directory), status_of("unavailable")
    waiting, running = (LockFile(str(state_file(ending, of=real))) for ending in (".waiting", ".running"))
    with closing(waiting), closing(running):
        if not waiting.try_to_acquire():
            return 0
        try:
            running.acquire(deadline=time.monotonic() + MAX_TURN_S)
        except Unavailable:
            log("push: another process did not finish in time; the directory was not synchronised")
            return unavailable
        waiting.release()
        for pause in (*(PAUSES_S if os.environ.get(f"{OPTION}LAST") else ()), None):
            status, said = _synchronised(location, directory)
            log(f"push: status {status}: {said}")
            _note_outage(location.url, is_out=status == unavailable)
            if status != unavailable or pause is None:
                break
            time.sleep(pause)
        write_state(state_file(".held", of=real), said if " held" in said else None)
        return status


def _synchronised(location: Location, directory: str) -> tuple[int, str]:
    """Run `retentive sync` in this process. Returns its exit status and the last line of its messages.

    Lines that name the location or the directory are ignored.
    """
    from retentive.cli.app import run  # noqa: PLC0415 - imports this command

    given = {"--at": location.url, "--store": location.store_key, "--actor": location.actor, "--keys": location.keys}
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    with redirect_stderr(StringIO()) as messages:
        status = run([*options, "sync", directory])
    lines = [line for line in messages.getvalue().splitlines() if not line.startswith(("Directory: ", "Location: "))]
    return status, lines[-1] if lines else ""


# -- the answers to hooks ------------------------------------------------------------------------------------------

EVENTS = ("session-start", "prompt", "agent", "edited", "stop", "pre-compact", "session-end")


def _answer(event: str, hook: Hook) -> dict[str, object]:
    match event:
        case "session-start":
            return _session_start(hook)
        case "prompt":
            if news := hook.asked(lambda store: news_of(store, hook.session_id)):
                hook.synchronise()
            text = "\n\n".join(filter(None, [news, hook.recalled(only_new=True)]))
            return _context("UserPromptSubmit", additionalContext=text)
        case "agent":
            text = hook.recalled(only_new=False)
            updated = {**hook.tool_input, "prompt": f"{hook.prompt}\n\n{text}"} if text else None
            return _context("PreToolUse", updatedInput=updated)
        case "session-end":
            if hook.directory is not None:
                start(hook.location, hook.directory, is_last=True)
            for name in (".seen", ".recalled") if hook.session_id else ():
                write_state(state_file(f"{hook.session_id}{name}"), None)
        case "edited":
            above, is_below = os.path.realpath(hook.directory or ""), False
            with suppress(ValueError):  # the path is not absolute or has a NUL character
                is_below = os.path.commonpath([above, os.path.realpath(str(hook.tool_input.get("file_path")))]) == above
            if is_below:
                hook.synchronise()
        case _:
            hook.synchronise()
    return {}


def _context(event: str, **given: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **given}} if any(given.values()) else {}


def _session_start(hook: Hook) -> dict[str, object]:
    before = ""  # the session has this text in its context: Claude Code reads the file before it runs hooks
    if hook.directory is not None:
        path = os.path.join(hook.directory, "MEMORY.md")
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            before = file.read(1 << 20)
    write_state(state_file(f"{hook.session_id}.recalled"), None)  # a compacted session lost the lines
    status, key = hook.synchronise(), hook.location.store_key
    digested = hook.asked(lambda store: digest(store, hook.session_id, key, before))
    answer = _context("SessionStart", additionalContext=digested)
    said = _not_shared(hook)
    if status not in {None, 0, 6}:
        said = f"the notes were not synchronised. {EXITS[status][0] if status in EXITS else f'exit status {status}'}"
    elif hook.directory is not None and (held := read_state(state_file(".held", of=os.path.realpath(hook.directory)))):
        command = f"retentive --at {hook.location.shown} --store {hook.location.store_key} sync {hook.directory}"
        said = f"{said} changes of notes wait for you: {held} `{command}` shows them.".lstrip()
    return answer | ({"systemMessage": f"retentive: {said}"} if said else {})


def _not_shared(hook: Hook) -> str:
    """Return what the settings do not share, once for the same settings. Otherwise, return an empty string."""
    url, is_local, has_projects = hook.location.url, local_path(hook.location.url) is not None, shares_projects()
    path = state_file(".told", of=f"{url}\n{hook.directory}\n{has_projects}")
    if (not is_local and hook.directory is not None) or read_state(path) is not None:
        return ""
    write_state(path, "")
    store = f"the memory store is on this machine only ({url}). To share it, set Location to the URL of a server."
    notes = "Claude Code's own notes are not shared: turn on Share projects, or set Directory of notes."
    if has_projects:
        notes = "The notes of this project are not shared, since it has no Git remote that other machines know."
    said = [*([store] if is_local else []), *([notes] if hook.directory is None else [])]
    return " ".join([*said, "`/plugin configure retentive@retentive` changes the settings."])


@command("hook")
@click.argument("event", type=click.Choice([*EVENTS, "push", "mcp"]))
def hook(location: Location, event: str) -> None:
    """Answer a hook of Claude Code. The plugin runs this command and passes JSON on standard input.

    The settings of the plugin name the memory store, and its directory of notes; see docs/claude-code.md.
    All changes are recorded with the session as actor.

    \b
    session-start  synchronise, and print a digest of the memory store
    prompt         print what others changed since the last prompt, and recall
    agent          recall for a subagent, if the settings ask for it
    edited         synchronise, if the edited file is in the directory
    stop, pre-compact, session-end  synchronise
    push           synchronise; the other hooks start a process for this
    mcp            serve the tools, like `retentive mcp`

    A hook prints JSON or nothing, and always exits with status 0. Errors are written to
    $XDG_STATE_HOME/retentive/hooks/hook.log.
    """
    if token := os.environ.get(f"{OPTION}TOKEN"):
        os.environ["RETENTIVE_API_KEY"] = token
    if event == "mcp":
        from retentive.cli.server import mcp  # noqa: PLC0415 - only the server needs it

        session_id = as_id(os.environ.get("CLAUDE_CODE_SESSION_ID"))
        project_key, _ = place_of(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
        location = replace(location, store_key=project_key or location.store_key)
        click.get_current_context().obj = acting(location, session_id)  # `location` comes from RETENTIVE_AT
        click.get_current_context().invoke(mcp, one_tool=False)
        return
    try:
        if event == "push":
            _, directory = place_of("")
            click.get_current_context().exit(0 if directory is None else push(configured(location, ""), directory))
        if answer := _answer(event, _given(location)):
            output.write_line(output.to_json(answer))
    except click.exceptions.Exit:
        raise
    except Exception as error:  # an error must not stop the session
        said = str(error).partition("\n")[0]
        log(f"{event}: {type(error).__name__}: {said}")
        if event == "session-start":
            output.write_line(output.to_json({"systemMessage": f"retentive: {said}"}))
    if any(thread.name == _WAITED_FOR for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(0)  # a thread that still works, such as on a large store, can crash an interpreter that ends


def _given(location: Location) -> Hook:
    """Return the hook that standard input describes. Anything but the expected JSON counts as no input."""
    given: object = None
    with suppress(ValueError, OSError):
        given = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES))
    fields = given if isinstance(given, dict) else {}
    tool_input = fields.get("tool_input")
    tool_input = tool_input if isinstance(tool_input, dict) else {}
    prompt = fields.get("prompt") or tool_input.get("prompt")
    session_id, cwd = as_id(fields.get("session_id")), fields.get("cwd")
    project_key, directory = place_of(os.environ.get("CLAUDE_PROJECT_DIR") or (cwd if isinstance(cwd, str) else ""))
    location = configured(location, session_id, project_key)
    return Hook(session_id, prompt if isinstance(prompt, str) else "", tool_input, location, directory)
