"""Turns of the writers of one memory store. Turns reduce the number of failed attempts to commit.

Object storage has no queue. The first writer that replaces the manifest wins, and the requests of the others are
wasted. The processes of one host therefore use a lock file, so that one process writes at a time. Writers on different
hosts wait for random times before an attempt. These waits are longer if the latest commit ids show many hosts, or if
attempts take long. The only purpose of turns is to save requests. Because of compare-and-swap, the result is correct
without turns too.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from retentive.errors import RetentiveError
from retentive.storage.backoff import LOCK_TIMEOUT_S
from retentive.storage.lock_file import LockFile

_HOST_BYTES, _PROCESS_BYTES = 3, 2  # at the start of a commit id
_COMMIT_BYTES = 4
_LATEST = 32  # number of latest commits in which active writers are counted
_ALERT = 16  # after this many consecutive commits without other writers, contention has ended
_LONGEST_S = 1.0
_SPREAD = 4  # measured with 16 processes: 1.9 attempts for each commit; with 2 it took 2.7, with 1 it took 6
_LOCK_WAIT_S = 10.0  # 16 processes hold the lock for some 10 ms each, and ten times as long on a busy machine
_DISTRUST_S = 10.0  # after a wait for the lock timed out, the lock is not used for this time, as its holder may hang
_STRIPES = 3  # hexadecimal digits: at most 4,096 empty files, however many stores there are
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class WriterTurns:
    """Decides how long one writer of a memory store waits before a commit. Only one thread at a time may use it.

    The commit ids of the writer start with `host`. All writers that use the lock file at `lock_path` have the same
    `host`; a writer without a lock file has a random `host`. A wait for the lock ends after at most a third of
    `timeout_s`, the timeout of a command.
    """

    def __init__(self, host: str, lock_path: str | None = None, *, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._host = host
        self._writer = host + os.urandom(_PROCESS_BYTES).hex()
        self._lock_path = lock_path
        self._lock_wait_s = min(_LOCK_WAIT_S, timeout_s / 3)
        self._lock: LockFile | None = None
        self._distrusted_until = 0.0
        self._alert = 0
        self._losses = 0
        self._attempt_s = 0.005
        self._began: float | None = None

    @property
    def is_seen(self) -> bool:
        """True if another writer was active recently."""
        return self._alert > 0

    def commit_id(self) -> str:
        """Return a new id for a commit of this writer."""
        return self._writer + os.urandom(_COMMIT_BYTES).hex()

    def begin(self) -> None:
        """Begin a commit. If no other writer was active recently, acquire the lock file, provided that it is free.

        If another writer was active, `wait` acquires the lock instead, after the upload of the texts, so that the lock
        is held for less time.
        """
        if not self.is_seen and self._may_lock() and not self._acquired(wait_s=0.0):
            self.met()

    def end(self) -> None:
        """End a commit, successful or not, and release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock.close()
            self._lock = None

    def met(self) -> None:
        """Record that another writer is active."""
        self._alert = _ALERT

    def lost(self) -> None:
        self.met()
        self._losses += 1

    def won(self) -> None:
        self._alert = max(self._alert - 1, 0)
        self._losses = 0
        if self._began is not None:
            self._attempt_s += (time.monotonic() - self._began - self._attempt_s) / 8
            self._began = None

    def wait(self, commits: Sequence[str]) -> None:
        """Wait until the next attempt to commit should begin. Does not wait if no other writer was active recently.

        `commits` are the commit ids in the latest known manifest.
        """
        if self.is_seen:
            if self._lock is None and self._may_lock() and not self._acquired(wait_s=self._lock_wait_s):
                self._distrusted_until = time.monotonic() + _DISTRUST_S
            others = others_among(commits, self._writer if self._lock is None else self._host)
            if others or self._lock is None:  # with the lock, a host that writes alone need not wait
                longest = window_s(others, self._attempt_s) / (1 + self._losses)
                time.sleep(random.uniform(0, min(longest, _LONGEST_S)))  # noqa: S311 - spreads the waits, not a secret
        self._began = time.monotonic()

    def _may_lock(self) -> bool:
        return self._lock_path is not None and time.monotonic() >= self._distrusted_until

    def _acquired(self, *, wait_s: float) -> bool:
        """Acquire the lock file. Returns False if another process still holds it after `wait_s` seconds.

        If the lock file cannot be opened, the writer continues without a lock, and the result is True.
        """
        try:
            lock = LockFile(str(self._lock_path))
        except OSError:
            self._lock_path = None
            return True
        is_mine = False
        try:
            lock.acquire(deadline=time.monotonic() + wait_s)
            is_mine = True
        except RetentiveError:
            pass
        finally:
            if is_mine:
                self._lock = lock
            else:
                lock.close()
        return is_mine


def others_among(commits: Sequence[str], writer: str) -> int:
    """Return the number of other writers that made the latest commits.

    `commits` has the ids of these commits. The commit ids of this writer start with `writer`. If `writer` is only the
    prefix of the host, the result is the number of other hosts.
    """
    return len({commit[: len(writer)] for commit in commits[-_LATEST:]} - {writer})


def window_s(others: int, attempt_s: float) -> float:
    """Return the upper bound, in seconds, for a random wait before an attempt to commit.

    `others` is the number of other active writers. `attempt_s` is the usual duration of an attempt. With this bound,
    about half of all attempts overlap with another attempt.
    """
    return _SPREAD * attempt_s * max(others, 1)


def turns_on_this_host(*names: str, timeout_s: float = LOCK_TIMEOUT_S, directory: str | None = None) -> WriterTurns:
    """Return the turns of a writer that shares a lock file with all processes of this user on this host.

    If `directory` cannot be used for the lock file, the writer shares no lock. `names` identify the location and the
    memory store.
    """
    directory = _own_directory() if directory is None else directory
    if directory is not None:
        with suppress(OSError):
            about = os.stat(directory)
            token = hashlib.sha256("\0".join(names).encode()).hexdigest()[:_STRIPES]
            identity = f"{_BOOT_ID.read_text('ascii')}{about.st_dev}-{about.st_ino}-{token}"
            host = hashlib.sha256(identity.encode()).hexdigest()[: 2 * _HOST_BYTES]
            return WriterTurns(host, os.path.join(directory, token), timeout_s=timeout_s)
    return turns_alone(timeout_s=timeout_s)


def turns_alone(*, timeout_s: float = LOCK_TIMEOUT_S) -> WriterTurns:
    """Return the turns of a writer that shares no lock file with other processes."""
    return WriterTurns(os.urandom(_HOST_BYTES).hex(), timeout_s=timeout_s)


@cache
def _own_directory() -> str | None:
    """Return the path of the directory for lock files, which only this user can access.

    Returns None if no such directory can be created.
    """
    if not hasattr(os, "geteuid"):
        return None
    with suppress(OSError):
        path = os.path.join(tempfile.gettempdir(), f"retentive-locks-{os.geteuid()}")
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        about = os.lstat(path)  # another user may have planted it
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077:
            return path
    return None
