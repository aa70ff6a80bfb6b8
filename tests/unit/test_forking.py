"""Locks of objects and modules that are watched for forks are replaced in the child process."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retentive.storage import forking
from retentive.storage.files.backend import DirectoryBackend
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import exit_status, fork_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


class _Counter:
    """Object with a lock. It records whether it was quiet at the fork."""

    def __init__(self) -> None:
        self.renew_after_fork()
        self.is_quiet = self.was_quiet = False
        forking.watch(self)

    def renew_after_fork(self) -> None:
        self.lock = threading.Lock()
        self.was_quiet = getattr(self, "is_quiet", False)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self.is_quiet = True
        yield
        self.is_quiet = False


class _OnlyLock:
    """Object that cannot be made quiet, so that its lock may be held at the fork."""

    def __init__(self) -> None:
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        self.lock = threading.Lock()


def test_a_forked_child_has_new_locks() -> None:
    """The child gets new locks, even for locks that were held at the fork."""
    counter, only_lock = _Counter(), _OnlyLock()
    with only_lock.lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if not child:
            free = only_lock.lock.acquire(blocking=False)
            os._exit(0 if free and counter.was_quiet else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not counter.is_quiet


def test_a_fork_after_closing_keeps_other_files_open(tmp_path: Path) -> None:
    """Their numbers may be those of the closed descriptors."""
    backend = DirectoryBackend(str(tmp_path / "memory"))
    Opened(backend).create({A: b"0"})
    backend.close()
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    try:
        child = fork_child(lambda: [os.fstat(descriptor) for descriptor in files])
        assert exit_status(child) == 0
    finally:
        for descriptor in files:
            os.close(descriptor)
