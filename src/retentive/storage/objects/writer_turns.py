"""WriterTurns between the writers of one memory store in several processes: the waits that give each its turn.

Nothing hands out turns in object storage: the first to replace the manifest wins, and the attempts of the others fail.
The ids of the latest commits in a manifest tell how many processes write at present, and each writer knows how long an
attempt takes. As all know both, all wait alike, and none starves.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence

_WRITER_CHARS = 6
_LATEST = 32  # commits that tell who writes at present
_ALERT = 16  # commits without a rival after which there is no contention
_LONGEST_S = 1.0
_SPREAD = 4  # measured with 16 processes: 1.9 attempts for a commit; with 2 it took 2.7, with 1 it took 6


class WriterTurns:
    """One writer's view of the others that write the same memory store."""

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._alert = 0
        self._losses = 0
        self._attempt_s = 0.005
        self._began: float | None = None

    def new_commit(self) -> str:
        """An id for a commit, that tells the writers apart."""
        return self._writer + os.urandom(6).hex()

    @property
    def is_seen(self) -> bool:
        """Whether others wrote lately."""
        return self._alert > 0

    def lost(self) -> None:
        """Another writer was first."""
        self._alert = _ALERT
        self._losses += 1

    def won(self) -> None:
        """This writer was first."""
        self._alert = max(self._alert - 1, 0)
        self._losses = 0
        if self._began is not None:
            self._attempt_s += (time.monotonic() - self._began - self._attempt_s) / 8
            self._began = None

    def wait(self, commits: Sequence[str]) -> None:
        """Wait for the others; an attempt begins when this returns. `commits` are those of the latest manifest."""
        if self.is_seen:
            longest = window_s(commits, self._writer, self._attempt_s) / (1 + self._losses)
            time.sleep(random.uniform(0, min(longest, _LONGEST_S)))  # noqa: S311 - spreads those who wait
        self._began = time.monotonic()


def window_s(commits: Sequence[str], writer: str, attempt_s: float) -> float:
    """How long the longest wait is: so that while an attempt lasts, about every second time another begins."""
    others = {commit[:_WRITER_CHARS] for commit in commits[-_LATEST:]} - {writer}
    return _SPREAD * attempt_s * max(len(others), 1)


def new_writer() -> str:
    """An id for a writer."""
    return os.urandom(_WRITER_CHARS // 2).hex()
