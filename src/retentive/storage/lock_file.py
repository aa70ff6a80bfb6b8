"""Lock file that lets the processes of one host write one at a time.

SQLite cannot wait for its own lock. A process can only try again after a pause, and other processes overtake it
meanwhile. With `flock`, the kernel wakes a waiting process at once, and releases the lock of a killed process.

`flock` has no timeout. If another process holds the lock, a separate thread, the *waiting thread*, waits for the lock.
The caller can then give up at a deadline. When the waiting thread gets the lock, it also does the work of the caller.
Handing the lock over to the caller would cost one more thread switch while other processes wait. The waiting thread is
kept for the next wait: waking it takes 15 us of processor time, while starting a new thread takes 80 us.

A sleeping process needs 70 to 100 us to wake up, and then runs slower for a while, because its processor core was idle.
If only one process waits for the lock of the writers, it therefore *spins*: for up to 2 ms it tries again and again,
and lets other processes use its core between the attempts. It does not spin if recent waits were longer. It would
overtake processes that sleep, so it stops spinning as soon as another process sleeps. Locks on two bytes of the same
file show which processes spin and sleep.
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
# Bytes far behind the contents of the file. A process that spins locks the first one; those that sleep share the other.
_SPINNING = 1 << 40
_SLEEPING = _SPINNING + 1
# File systems of Linux on which locks of bytes and `flock` do not affect each other. On NFS and 9p, they do.
_SPINS_ON = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
BUSY = "another process has locked the memory store"


class LockFile:
    """Lock between processes. It uses the file at `path`.

    All threads of a process share the lock, so only one thread at a time may use the object. Waiters spin only after
    `spin_on`, and only in `acquire_soon`.

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
        self._may_spin = False
        self._usual_wait_s = self._spun_s = 0.0
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

    def spin_on(self, file_system: str) -> None:
        """Let waiters spin, if this is possible on a file system of the type `file_system`."""
        self._may_spin = file_system in _SPINS_ON and hasattr(fcntl, "F_OFD_SETLK")  # not in Pythons for old systems

    def acquire_soon(self) -> bool:
        """Acquire the lock if no other process waits for it and it becomes free within `SPIN_S`.

        Returns False otherwise. Also returns False if waiters do not spin, or if recent waits were longer than
        `SPIN_S`.
        """
        if not self._may_spin or self.descriptor < 0 or self._usual_wait_s >= SPIN_S:
            return False
        try:
            return self._mark(_SPINNING, fcntl.F_WRLCK) and self._spin()
        except OSError:  # no memory for the lock
            return False
        finally:
            self._mark(_SPINNING, fcntl.F_UNLCK)

    def _spin(self) -> bool:
        began, self._spun_s = time.monotonic(), 0.0
        while self._spun_s < SPIN_S and not self._another_sleeps():
            os.sched_yield()
            with suppress(BlockingIOError):
                fcntl.flock(self._file, self.AT_ONCE)
                self._note_wait()
                return True
            self._spun_s = time.monotonic() - began
        return False

    def _note_wait(self, waited_s: float = 0.0) -> None:
        """Include a wait in the usual duration of waits. The wait began with spinning, and then took `waited_s`."""
        self._usual_wait_s = (self._usual_wait_s + self._spun_s + waited_s) / 2
        self._spun_s = 0.0

    def _mark(self, byte: int, kind: int) -> bool:
        """Lock or unlock a byte of the file. Returns False if this fails or another process has locked the byte.

        `kind` is `F_WRLCK` (exclusive), `F_RDLCK` (shared) or `F_UNLCK`.
        """
        if sys.platform != "linux":
            return False
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock_of(byte, kind))
        except (OSError, ValueError):  # locked by another process, or the file was closed
            return False
        return True

    def _another_sleeps(self) -> bool:
        if sys.platform != "linux":
            return False
        found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _lock_of(_SLEEPING, fcntl.F_WRLCK))
        kind: int = _FLOCK.unpack(found)[0]
        return kind != fcntl.F_UNLCK

    def release(self) -> None:
        """Release the lock. Does nothing if the file is closed."""
        with suppress(OSError, ValueError):
            fcntl.flock(self._file, fcntl.LOCK_UN)

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
            self._acquire_asleep(operation)
        except OSError:  # no memory for the lock; the caller gives up at its deadline
            self._stop_waiting(acquired=False)
            return
        work = self._stop_waiting(acquired=True)
        if work is not None:
            work()

    def _acquire_asleep(self, operation: int) -> None:
        """Sleep until the lock is acquired. Meanwhile, no other process spins."""
        began = time.monotonic()
        if self._may_spin:
            self._mark(_SLEEPING, fcntl.F_RDLCK)
        try:
            fcntl.flock(self._file, operation)
            self._note_wait(time.monotonic() - began)
        finally:
            if self._may_spin:
                self._mark(_SLEEPING, fcntl.F_UNLCK)

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


_FLOCK = struct.Struct("hhqqi4x")  # `struct flock` of Linux: kind, start, length and process


def _lock_of(byte: int, kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


def _operation(*, shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX


def writers_lock(path: str) -> LockFile | None:
    """Return a lock for the writers of a database. It uses the existing file at `path`.

    Returns None on Windows, or if the file cannot be opened.
    """
    if sys.platform == "win32":
        return None
    for flags in (os.O_RDWR, os.O_RDONLY):  # a file that is only readable can be locked, but waiters cannot spin
        with suppress(OSError):
            lock = LockFile(path, flags=flags)
            forking.watch(lock)
            return lock
    return None
