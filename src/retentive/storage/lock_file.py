"""Lock file that lets the processes of one host write one at a time.

SQLite cannot wait for its own lock. A process can only try again after a pause, and other processes overtake it
meanwhile. With `flock`, the kernel wakes a waiting process at once, and releases the lock of a killed process.

`flock` has no timeout. If another process holds the lock, a separate thread, the *waiting thread*, waits for the lock.
The caller can then give up at a deadline. When the waiting thread gets the lock, it also does the work of the caller.
Handing the lock over to the caller would cost one more thread switch while other processes wait. The waiting thread is
kept for the next wait: waking it takes 15 us of processor time, while starting a new thread takes 80 us.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from retentive.errors import Unavailable
from retentive.storage import forking
from retentive.storage.backoff import LOCK_TIMEOUT_S, wait_until
from retentive.storage.disk import FILE_MODE, os_error

if sys.platform != "win32":  # Windows has no flock; SQLite's own lock suffices there
    import fcntl

IDLE_S = 1.0  # after this time without a wait, the thread ends
BUSY = "another process has locked the memory store"


class LockFile:
    """Lock between processes. It uses the file at `path`.

    All threads of a process share the lock, so only one thread at a time may use the object.

    `descriptor` is the open file. It is -1 while a separate thread waits for the lock, and after the file was closed.
    After the file was closed, `call_with_lock` calls the work without a lock.
    """

    if sys.platform != "win32":
        flock = staticmethod(fcntl.flock)  # the queue calls it directly, to save a Python frame
        AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB
        UNLOCK = fcntl.LOCK_UN

    def __init__(self, path: str, *, flags: int = os.O_RDWR | os.O_CREAT, directory: int | None = None) -> None:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the name may have been planted, for example as a pipe
        self._open = partial(os.open, path, flags, FILE_MODE, dir_fd=directory)
        self._renew(self._open())

    def _renew(self, file: int) -> None:
        self._file = self.descriptor = file
        self._mutex = threading.Lock()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._serves = self._waits = self._closed = False
        self._work: Callable[[], object] | None = None

    def renew_after_fork(self) -> None:
        """Open the file again in a forked child, which would otherwise share the lock of its parent."""
        inherited = self._file
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
        if self.descriptor < 0:
            return False
        try:
            fcntl.flock(self.descriptor, _operation(shared=shared) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise os_error(error) from None
        return True

    def acquire(self, *, shared: bool = False) -> None:
        """Acquire the lock, or change it between shared and exclusive. Raises `Unavailable` after `LOCK_TIMEOUT_S`."""
        if self.try_to_acquire(shared=shared):
            return
        granted = threading.Lock()
        granted.acquire()
        try:
            self.call_with_lock(
                granted.release, ended=granted, deadline=time.monotonic() + LOCK_TIMEOUT_S, shared=shared
            )
        except BaseException:  # an interrupt may come when the lock is already acquired
            self.release()
            raise

    def release(self) -> None:
        """Release the lock. Does nothing if the file is closed.

        Does nothing while a thread waits for the lock either: the thread itself releases a lock that nobody wants.
        """
        with suppress(OSError, ValueError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    @contextmanager
    def held(self, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
        """Hold the lock during the context. Raises `Unavailable` if it cannot be acquired within `LOCK_TIMEOUT_S`.

        If `wait` is false, raises `Unavailable` if the lock cannot be acquired at once.
        """
        if wait:
            self.acquire(shared=shared)
        elif not self.try_to_acquire(shared=shared):
            raise Unavailable(BUSY)
        try:
            yield
        finally:
            self.release()

    def call_with_lock(
        self, work: Callable[[], object], *, ended: threading.Lock, deadline: float, shared: bool = False
    ) -> None:
        """Acquire the lock and call `work` in a separate thread. Waits until `work` releases `ended`.

        The lock stays acquired, unless `work` releases it. `deadline` is a time of `time.monotonic`. If `work` has not
        been called by then, this method raises `Unavailable`, and `work` is never called. The separate thread then
        continues to wait, and gets the lock for the next caller. All calls on one object must therefore use the same
        value of `shared`.
        """
        is_over = False
        try:
            self._start_waiting(work, _operation(shared=shared))
            is_over = ended.acquire(timeout=max(deadline - time.monotonic(), 0.0))
        finally:
            while not is_over and not self._withdrawn():
                with suppress(BaseException):  # a second interrupt must not return before `work` ends
                    is_over = ended.acquire()
        if not is_over:
            raise Unavailable(BUSY)

    def _start_waiting(self, work: Callable[[], object], operation: int) -> None:
        with self._mutex:
            self._work = work
            if self._waits:  # the thread still waits for an earlier caller, who gave up
                return
            self._waits, self.descriptor = self._file >= 0, -1
            has_thread, self._serves = self._serves, self._waits
        if not self._waits:  # closed
            self._work = None
            work()
        elif has_thread:
            self._wake.release()
        else:
            try:
                _thread.start_new_thread(self._serve, (operation,))
            except RuntimeError:  # too many threads, or the interpreter is ending
                self._serves = False
                self._stop_waiting(acquired=False)
                wait_until(partial(self.try_to_acquire, shared=operation == fcntl.LOCK_SH), BUSY)
                self._work = None
                work()

    def _serve(self, operation: int) -> None:
        self._wait(operation)
        while not self._closed:
            if self._wake.acquire(timeout=IDLE_S):
                self._wait(operation)
                continue
            with self._mutex:
                if not self._waits:
                    self._serves = False
                    return

    def _wait(self, operation: int) -> None:
        if not self._waits:  # closed
            return
        try:
            fcntl.flock(self._file, operation)
        except OSError:  # no memory for the lock; the caller gives up at its deadline
            self._stop_waiting(acquired=False)
            return
        work = self._stop_waiting(acquired=True)
        if work is not None:
            work()

    def _stop_waiting(self, *, acquired: bool) -> Callable[[], object] | None:
        """End the wait for the lock, and return the function to call while the lock is held.

        `acquired` is true if the thread has the lock. If the caller has given up, the lock is released, and the result
        is None.
        """
        work = None
        with self._mutex:
            self._waits, self.descriptor = False, self._file
            if acquired:
                work, self._work = self._work, None
                if work is None:
                    self.release()
            if self._closed:
                self._close()
        return work

    def _withdrawn(self) -> bool:
        """Cancel the work that waits for the lock. Returns False if the work has already started."""
        with self._mutex:
            work, self._work = self._work, None
            return work is not None

    def close(self) -> None:
        """Close the file. This releases the lock. If a thread waits for the lock, that thread closes the file later."""
        with self._mutex:
            self._closed = True
            if not self._waits:
                self._close()
                if self._serves and self._wake.locked():
                    self._wake.release()

    def _close(self) -> None:
        file, self._file, self.descriptor = self._file, -1, -1
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
