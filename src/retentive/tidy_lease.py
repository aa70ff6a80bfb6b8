"""Excludes two tidiers of one memory store: a lease in the location, and Claude Code's own lock in a directory."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from retentive.errors import Conflict, RetentiveError, Unavailable
from retentive.storage.disk import CLOSE_ON_EXEC, NO_FOLLOW
from retentive.store import MemoryStore, core_of
from retentive.store.location_records import LocationRecords
from retentive.sync.state import directories_of, state_folder

LEASE, LEASE_S = "tidying", 60.0
"""Kind of the records of leases, whose keys are the ids of memory stores, and the seconds for which a lease holds."""
LOCK, FRESH_S = ".consolidate-lock", 3_600.0
"""File with the id of the process of Claude Code that tidies a directory. It counts for an hour, while that lives."""
_FLAGS = NO_FOLLOW | CLOSE_ON_EXEC | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not stop a run


def is_tidied(records: LocationRecords, store_id: str) -> bool:
    """Return whether a run holds the lease of a memory store."""
    return _holds(records.get(LEASE, store_id))


def _holds(text: str | None) -> bool:
    return text is not None and json.loads(text)["until"] > time.time()


@contextmanager
def tidy_lease(store: MemoryStore, seconds: float = LEASE_S) -> Iterator[Callable[[], None]]:
    """Hold the lease of a memory store, and Claude Code's lock in each directory that is synchronised with it here.

    Yields a function to call regularly, which renews the lease if a third of it is over, and the locks. Raises
    `Unavailable` if another run or Claude Code tidies the memory store. If storage fails at the end, the lease ends by
    itself.
    """
    records, key, due = LocationRecords(core_of(store).backend), store.id, 0.0
    present = records.get(LEASE, key)
    if _holds(present):
        present = None  # a conflict, unless the other run has just ended

    def renew() -> None:
        nonlocal due, present
        if time.monotonic() < due:
            return
        text = json.dumps({"holder": secrets.token_hex(8), "until": time.time() + seconds})
        try:
            records.put(LEASE, key, text, expected=present)
        except Conflict:
            raise Unavailable("another run is tidying this memory store; try again when it has ended") from None
        due, present = time.monotonic() + seconds / 3, text

    def renew_all() -> None:
        renew()
        for directory in directories:
            with suppress(OSError):
                os.utime(os.path.join(directory, LOCK))

    renew()
    try:
        directories = directories_of(state_folder(os.environ), key)
        with ExitStack() as stack:
            for directory in directories:
                stack.enter_context(_claude_code_held_off(directory))
            yield renew_all
    finally:
        with suppress(RetentiveError):
            records.put(LEASE, key, None, expected=present)


@contextmanager
def _claude_code_held_off(directory: str) -> Iterator[None]:
    """Hold the lock of Claude Code. It is put back as it was, because its time says when Claude Code tidied."""
    path, changed_at = os.path.join(directory, LOCK), None
    with suppress(OSError, ValueError, OverflowError):
        with open(os.open(path, os.O_RDONLY | _FLAGS), encoding="utf-8") as file:
            changed_at, holder = os.fstat(file.fileno()).st_mtime, file.read(20).partition("\n")[0]
        if time.time() - changed_at < FRESH_S and _lives(int(holder)):
            raise Unavailable("Claude Code is tidying a directory that is synchronised with this memory store")
    _write(path, str(os.getpid()))
    try:
        yield
    finally:
        with suppress(OSError):
            if changed_at is None:
                os.unlink(path)
            else:
                _write(path, "")
                os.utime(path, (changed_at, changed_at))


def _write(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS
    with suppress(OSError), open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _lives(process_id: int) -> bool:
    with suppress(PermissionError):  # it belongs to another user
        os.kill(process_id, 0)  # raises OSError if there is no such process
    return process_id > 0
