"""Synchronises the directory of notes in a process that continues after the hook and the session have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import redirect_stderr
from io import StringIO

from retentive.cli.exits import status_of
from retentive.cli.hooks.session import OPTION, log, note_outage, state_of, write_state
from retentive.cli.location import Location
from retentive.storage.disk import make_directory
from retentive.storage.lock_file import LockFile

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses between attempts to synchronise at the end of a session, when nobody waits, if the store is unavailable."""
MAX_TURN_S = 120.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Started processes, which may run longer than the hook. Python would warn if such a process had no reference."""
_MAIN = "from retentive.cli import main; raise SystemExit(main())"


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
    real = os.path.realpath(directory)
    waiting, running = (LockFile(state_of(real, ending)) for ending in (".waiting", ".running"))
    try:
        if not waiting.try_to_acquire():
            return 0
        last = time.monotonic() + MAX_TURN_S
        while not running.try_to_acquire():
            if time.monotonic() > last:
                log("push: another process did not finish in time; the directory was not synchronised")
                return status_of("unavailable")
            time.sleep(0.05)
        waiting.release()
        pauses = PAUSES_S if os.environ.get(f"{OPTION}LAST") else ()
        for pause in (*pauses, None):
            status, said = synchronised(location, directory)
            log(f"push: status {status}: {said}")
            is_out = status == status_of("unavailable")
            note_outage(location.url, is_out=is_out)
            if not is_out or pause is None:
                break
            time.sleep(pause)
        write_state(state_of(real, ".held"), said if " held" in said else None)
        return status
    finally:
        for lock in (waiting, running):
            lock.close()


def synchronised(location: Location, directory: str) -> tuple[int, str]:
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
