"""Excludes two tidiers of one memory store: a lease in the location, and Claude Code's own lock in a directory."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
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


class TidyLease:
    """Record that says who tidies a memory store, and until when. Another run takes it when its time is over."""

    def __init__(self, store: MemoryStore, seconds: float = LEASE_S) -> None:
        self._records, self._key = LocationRecords(core_of(store).backend), store.id
        self._seconds, self._text, self._renewed_at = seconds, "", 0.0

    @property
    def is_held(self) -> bool:
        """True if a run holds the lease."""
        present = self._records.get(LEASE, self._key)
        return present is not None and json.loads(present)["until"] > time.time()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease, and Claude Code's lock in each directory that this machine synchronises with the store.

        Raises `Unavailable` if another run or Claude Code tidies it. If storage fails, the lease ends by itself.
        """
        self._put(None if self.is_held else self._records.get(LEASE, self._key))
        with ExitStack() as stack:
            stack.callback(self._release)
            for directory in directories_of(state_folder(os.environ), self._key):
                stack.enter_context(_claude_code_held_off(directory))
            yield

    def renew(self) -> None:
        """Renew the lease if a third of it is over. Raises `Unavailable` if another run took it meanwhile."""
        if time.monotonic() - self._renewed_at >= self._seconds / 3:
            self._put(self._text)

    def _release(self) -> None:
        with suppress(RetentiveError):
            self._records.put(LEASE, self._key, None, expected=self._text)

    def _put(self, expected: str | None) -> None:
        self._renewed_at = time.monotonic()
        text = json.dumps({"holder": secrets.token_hex(8), "until": time.time() + self._seconds})
        try:
            self._records.put(LEASE, self._key, text, expected=expected)
        except Conflict:
            raise Unavailable("another run is tidying this memory store; try again when it has ended") from None
        self._text = text


@contextmanager
def _claude_code_held_off(directory: str) -> Iterator[None]:
    """Hold the lock of Claude Code. It is put back as it was, because its time says when Claude Code tidied."""
    path, changed_at = os.path.join(directory, LOCK), None
    with suppress(OSError, ValueError, OverflowError):
        with open(os.open(path, os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC), encoding="utf-8") as file:
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
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_FOLLOW | CLOSE_ON_EXEC
    with suppress(OSError), open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _lives(process_id: int) -> bool:
    with suppress(PermissionError):  # it belongs to another user
        os.kill(process_id, 0)  # raises OSError if there is no such process
    return process_id > 0
