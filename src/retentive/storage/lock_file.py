"""Lock file that lets the processes of one host write one at a time.

SQLite cannot wait for its own lock. A process can only try again after a pause, and other processes overtake it
meanwhile. With `flock`, the kernel wakes a waiting process at once, and releases the lock of a killed process.

`flock` has no timeout. If another process holds the lock, a separate thread waits for it, so that the caller can give
up at a deadline. A thread that nobody waits for any more releases the lock as soon as it gets it.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from retentive.errors import Unavailable
from retentive.storage import forking
from retentive.storage.backoff import LOCK_TIMEOUT_S, wait_until
from retentive.storage.disk import FILE_MODE, os_error

if sys.platform != "win32":  # Windows has no flock; SQLite's own lock suffices there
    import fcntl

BUSY = "another process has locked the memory store"


class LockFile:
    """Lock between processes. It uses the file at `path`.

    All threads of a process share the lock, so only one thread at a time may use the object. All calls of `acquire` on
    one object must use the same value of `shared`. `descriptor` is the open file, or -1 after `close`.
    """

    def __init__(self, path: str, *, flags: int = os.O_RDWR | os.O_CREAT, directory: int | None = None) -> None:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the name may have been planted, for example as a pipe
        self._open = partial(os.open, path, flags, FILE_MODE, dir_fd=directory)
        self._renew(self._open())

    def _renew(self, file: int) -> None:
        self.descriptor = file
        self._mutex = threading.Lock()
        self._has_thread, self._closed = False, file < 0
        self._granted: threading.Lock | None = None  # released when the caller that waits gets the lock

    def renew_after_fork(self) -> None:
        """Open the file again in a forked child, which would otherwise share the lock of its parent."""
        inherited = self.descriptor
        try:
            self._renew(-1 if self._closed else self._open())
        except OSError:
            self._renew(-1)
        with suppress(OSError):
            os.close(inherited)

    def try_to_acquire(self, *, shared: bool = False) -> bool:
        """Acquire the lock, or change it between shared and exclusive, without waiting.

        Returns False if this is not possible at once.
        """
        with self._mutex:
            if self.descriptor < 0 or self._has_thread:
                return False
            try:
                fcntl.flock(self.descriptor, _operation(shared=shared) | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise os_error(error) from None
            return True

    def acquire(self, *, shared: bool = False, deadline: float | None = None) -> None:
        """Acquire the lock, or change it between shared and exclusive. Does nothing if the file is closed.

        Raises `Unavailable` at `deadline`, a time of `time.monotonic`. The default is `LOCK_TIMEOUT_S` from now.
        """
        is_mine = False
        try:
            is_mine = self.try_to_acquire(shared=shared) or self._closed
            if not is_mine:
                self._wait_for(time.monotonic() + LOCK_TIMEOUT_S if deadline is None else deadline, shared=shared)
                is_mine = True
        finally:
            if not is_mine:  # also after an interrupt
                self._give_up()

    def _wait_for(self, deadline: float, *, shared: bool) -> None:
        if time.monotonic() >= deadline:
            raise Unavailable(BUSY)
        granted = threading.Lock()
        granted.acquire()
        with self._mutex:
            self._granted = granted
            if not self._has_thread:  # otherwise a thread still waits for a caller who gave up
                with suppress(RuntimeError):  # too many threads, or the interpreter is ending
                    _thread.start_new_thread(self._wait, (_operation(shared=shared),))
                    self._has_thread = True
            has_thread = self._has_thread
        if not has_thread:
            wait_until(partial(self.try_to_acquire, shared=shared), BUSY, deadline=deadline)
        elif not granted.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise Unavailable(BUSY)

    def _wait(self, operation: int) -> None:
        try:
            fcntl.flock(self.descriptor, operation)
            is_locked = True
        except OSError:  # no memory for the lock; the caller gives up at the deadline
            is_locked = False
        with self._mutex:
            self._has_thread = False
            if is_locked and self._granted is not None:
                self._granted.release()
                self._granted = None
            elif is_locked:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            if self._closed:
                self._close()

    def _give_up(self) -> None:
        with self._mutex:
            if self._granted is None and not self._has_thread:  # the lock was granted meanwhile
                self.release()
            self._granted = None

    def release(self) -> None:
        """Release the lock. Does nothing if the file is closed."""
        with suppress(OSError, ValueError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the lock during the context. Raises `Unavailable` if it cannot be acquired within `LOCK_TIMEOUT_S`."""
        self.acquire(shared=shared)
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        """Close the file. This releases the lock. If a thread waits for the lock, that thread closes the file later."""
        with self._mutex:
            self._closed = True
            if not self._has_thread:
                self._close()

    def _close(self) -> None:
        file, self.descriptor = self.descriptor, -1
        with suppress(OSError):
            os.close(file)


def _operation(*, shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX


def writers_lock(path: str) -> LockFile | None:
    """Return a lock for the writers of a database. It uses the existing file at `path`.

    Returns None on Windows, or if the file cannot be opened.
    """
    if sys.platform == "win32":
        return None
    for flags in (os.O_RDWR, os.O_RDONLY):  # a file that is only readable can be locked too
        with suppress(OSError):
            lock = LockFile(path, flags=flags)
            forking.watch(lock)
            return lock
    return None
