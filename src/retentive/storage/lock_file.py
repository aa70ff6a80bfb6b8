"""Lock file that lets the processes of one host write one at a time.

SQLite cannot wait for its own lock. A process can only try again after a pause, and other processes overtake it
meanwhile. With `flock`, the kernel wakes a waiting process at once, and releases the lock of a killed process.

`flock` has no timeout. If another process holds the lock, a separate thread, the *waiting thread*, waits for the lock.
The caller can then give up at a deadline. When the waiting thread gets the lock, it also does the work of the caller.
Handing the lock over to the caller would cost one more thread switch while other processes wait. The waiting thread is
kept for the next wait: waking it takes 15 us of processor time, while starting a new thread takes 80 us.

A sleeping process needs 70 to 100 us to wake up, and then runs slower for a while, because its processor core was idle.
If only one process waits for a writers' lock, it therefore *spins*: for up to 2 ms it tries again and again, and lets
other processes use its core between the attempts. It does not spin if the lock was usually held longer. A second lock,
on one byte of the same file, makes sure that no process spins while another one sleeps: it would overtake the other.
"""

from __future__ import annotations

import _thread
import os
import struct
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
SPIN_S = 0.002  # a batch on a local disk usually takes 0.2 to 1 ms
_PAUSE_S = 0.0001  # between looks whether another process still spins
_WAITERS = 1 << 40  # byte behind the contents of the file: a spinning waiter locks it, and sleeping waiters share it
BUSY = "another process has locked the memory store"


class LockFile:
    """Lock between processes. It uses the file at `path`.

    All threads of a process share the lock, so only one thread at a time may use the object. If `may_spin` is true, a
    single waiter spins. On systems other than Linux, no waiter spins.

    `descriptor` is the open file. It is -1 while a separate thread waits for the lock, and after the file was closed.
    After the file was closed, `call_with_lock` calls the work without a lock.
    """

    if sys.platform != "win32":
        flock = staticmethod(fcntl.flock)  # the queue calls it directly, to save a Python frame
        AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB
        UNLOCK = fcntl.LOCK_UN

    def __init__(
        self,
        path: str,
        *,
        flags: int = os.O_RDWR | os.O_CREAT,
        directory: int | None = None,
        may_spin: bool = False,
    ) -> None:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the name may have been planted, for example as a pipe
        self._open = partial(os.open, path, flags, FILE_MODE, dir_fd=directory)
        self._may_spin = may_spin and sys.platform == "linux"
        self._usual_wait_s = 0.0
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

    def acquire_soon(self) -> bool:
        """Acquire the lock if no other process waits for it and it becomes free within `SPIN_S`.

        Returns False otherwise.
        """
        if self.descriptor < 0 or not self._join_waiters(alone=True):
            return False
        try:
            return self._spin()
        except OSError:  # no memory for the lock
            return False
        finally:
            self._leave_waiters()

    def _join_waiters(self, *, alone: bool) -> bool:
        """Join the waiters that sleep, or, if `alone` is true, be the only waiter.

        Returns False if another process spins, if there is another waiter and `alone` is true, or if waiters do not
        spin here.
        """
        if sys.platform != "linux" or not self._may_spin:
            return False
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _on_waiters(fcntl.F_WRLCK if alone else fcntl.F_RDLCK))
        except (BlockingIOError, PermissionError):  # POSIX allows both errors
            return False
        except OSError:  # for example, the file system has no such locks
            self._may_spin = False
            return False
        return True

    def _leave_waiters(self) -> None:
        if sys.platform == "linux":
            with suppress(OSError):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _on_waiters(fcntl.F_UNLCK))

    def _spin(self) -> bool:
        """Try to acquire the lock for up to `SPIN_S`. Returns False if it was not acquired."""
        if self._usual_wait_s >= SPIN_S:
            return False
        began, waited_s = time.monotonic(), 0.0
        while waited_s < SPIN_S:
            os.sched_yield()
            with suppress(BlockingIOError):
                fcntl.flock(self._file, self.AT_ONCE)
                self._note_wait(waited_s)
                return True
            waited_s = time.monotonic() - began
        self._note_wait(2 * SPIN_S)  # at least half of it, so that the next wait does not spin
        return False

    def _note_wait(self, waited_s: float) -> None:
        self._usual_wait_s = (self._usual_wait_s + waited_s) / 2

    def release(self) -> None:
        """Release the lock. Does nothing if the file is closed."""
        with suppress(OSError, ValueError):
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the lock during the context. Raises `Unavailable` if it cannot be acquired within `LOCK_TIMEOUT_S`."""
        self.acquire(shared=shared)
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
            self._sleep(operation)
        except OSError:  # no memory for the lock; the caller gives up at its deadline
            self._stop_waiting(acquired=False)
            return
        work = self._stop_waiting(acquired=True)
        if work is not None:
            work()

    def _sleep(self, operation: int) -> None:
        """Acquire the lock. Meanwhile, no other process spins, unless a process was stopped while it did."""
        began = time.monotonic()
        has_joined = self._join_waiters(alone=False)
        while self._may_spin and not has_joined and time.monotonic() - began < 2 * SPIN_S:
            time.sleep(_PAUSE_S)
            has_joined = self._join_waiters(alone=False)
        try:
            fcntl.flock(self._file, operation)
            self._note_wait(time.monotonic() - began)
        finally:
            if has_joined:
                self._leave_waiters()

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


def _on_waiters(kind: int) -> bytes:
    """Return the argument of `fcntl` that locks or unlocks the byte `_WAITERS`. It is the `struct flock` of Linux."""
    return struct.pack("hhqqi", kind, os.SEEK_SET, _WAITERS, 1, 0)


def _operation(*, shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX


def writers_lock(path: str) -> LockFile | None:
    """Return a lock for the writers of a database. It uses the existing file at `path`.

    Returns None on Windows, or if the file cannot be opened.
    """
    if sys.platform == "win32":
        return None
    try:
        lock = LockFile(path, flags=os.O_RDWR, may_spin=True)
    except OSError:
        return None
    forking.watch(lock)
    return lock
