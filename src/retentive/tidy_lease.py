"""Excludes two tidiers of one memory store: a lease in the location, and Claude Code's own lock in a directory.

Claude Code tidies the notes in a directory by itself, and holds `.consolidate-lock` there: a file with its process id,
which counts for an hour, while the process lives. A run of ours takes the lock of each directory that this machine
synchronises with the memory store, and `retentive sync --watch` carries both between machines: while the lease of the
memory store is held, it holds the lock, and while Claude Code has the lock, it holds the lease.
"""

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
_OURS = "retentive"
_BUSY = "another run is tidying this memory store; try again when it has ended"


class TidyLease:
    """Record that says who tidies a memory store, and until when. Another run takes it when its time is over."""

    def __init__(self, store: MemoryStore, seconds: float = LEASE_S) -> None:
        self._records, self._key = LocationRecords(core_of(store).backend), store.id
        self._seconds, self._holder = seconds, secrets.token_hex(8)
        self._text, self._renewed_at = "", 0.0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease. Raises `Unavailable` if another run holds it."""
        self.take()
        try:
            yield
        finally:
            self.release()

    def is_held(self) -> bool:
        """Return whether somebody else holds the lease."""
        present = self._records.get(LEASE, self._key)
        return present not in {None, self._text} and json.loads(present or "{}")["until"] > time.time()

    @property
    def is_own(self) -> bool:
        """True if this object has taken the lease."""
        return self._text != ""

    def take(self) -> None:
        """Take the lease. Raises `Unavailable`."""
        if self.is_held():
            raise Unavailable(_BUSY)
        self._put(self._records.get(LEASE, self._key))

    def renew(self) -> None:
        """Renew the lease if a third of it is over. Raises `Unavailable` if another run took it meanwhile."""
        if time.monotonic() - self._renewed_at >= self._seconds / 3:
            self._put(self._text)

    def release(self) -> None:
        """Release the lease, unless another run has it. If storage fails, it ends by itself."""
        with suppress(RetentiveError):
            self._records.put(LEASE, self._key, None, expected=self._text)
        self._text = ""

    def _put(self, expected: str | None) -> None:
        self._renewed_at = time.monotonic()
        text = json.dumps({"holder": self._holder, "until": time.time() + self._seconds})
        try:
            self._records.put(LEASE, self._key, text, expected=expected)
        except Conflict:
            raise Unavailable(_BUSY) from None
        self._text = text


class ClaudeCodeLock:
    """Lock of Claude Code in one directory. It is put back as it was, because its time says when Claude Code tidied."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, LOCK)
        self._before: float | None = None
        self.is_own = False

    def is_held(self) -> bool:
        """Return whether Claude Code holds the lock."""
        return self._holder() == "claude"

    def take(self) -> None:
        """Take the lock, unless another process of ours has it. Raises `Unavailable` if Claude Code holds it."""
        holder = self._holder()
        if holder == "claude":
            raise Unavailable("Claude Code is tidying a directory that is synchronised with this memory store")
        if not holder:
            self._write(f"{os.getpid()}\n{_OURS}\n")
            self.is_own = True

    def release(self) -> None:
        """Put the lock back as it was, if it was taken."""
        if self.is_own:
            self.is_own = False
            with suppress(OSError):
                if self._before is None:
                    os.unlink(self._path)
                else:
                    self._write("")
                    os.utime(self._path, (self._before, self._before))

    def _holder(self) -> str:
        """Return who holds the lock: `claude`, `retentive` for another process of ours, or nobody."""
        self._before = None
        try:
            with open(os.open(self._path, os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC), encoding="utf-8") as file:
                self._before = os.fstat(file.fileno()).st_mtime
                process_id, _, name = file.read(100).strip().partition("\n")
            is_live = time.time() - self._before < FRESH_S and _lives(int(process_id))
        except (OSError, ValueError):
            return ""
        return "" if not is_live else name if name == _OURS else "claude"

    def _write(self, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_FOLLOW | CLOSE_ON_EXEC
        with suppress(OSError), open(os.open(self._path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


class Apart:
    """Carries the lease of a memory store to the lock of Claude Code in a directory, and back, at each look."""

    def __init__(self, store: MemoryStore, directory: str) -> None:
        self._lease, self._lock = TidyLease(store), ClaudeCodeLock(directory)

    def look(self) -> None:
        """Take or release the lock or the lease, as the other of them is held. If storage fails, the next look will."""
        with suppress(RetentiveError):
            if self._lock.is_own:
                if not self._lease.is_held():
                    self._lock.release()
            elif self._lock.is_held():
                (self._lease.renew if self._lease.is_own else self._lease.take)()
            elif self._lease.is_own:
                self._lease.release()
            elif self._lease.is_held():
                self._lock.take()

    def close(self) -> None:
        """Release what is held."""
        self._lock.release()
        if self._lease.is_own:
            self._lease.release()


@contextmanager
def claude_code_held_off(store: MemoryStore) -> Iterator[None]:
    """Hold the locks of Claude Code in all directories that this machine synchronises with a memory store.

    Raises `Unavailable` if Claude Code tidies one of them.
    """
    with ExitStack() as stack:
        for directory in directories_of(state_folder(os.environ), store.id):
            lock = ClaudeCodeLock(directory)
            lock.take()
            stack.callback(lock.release)
        yield


def _lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user
        return True
    return True
