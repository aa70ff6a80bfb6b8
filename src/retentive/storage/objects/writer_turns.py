"""Fair contention between processes that write the same memory store, by random waits.

Object storage has no queue: the first writer to replace the manifest wins, and the attempts of the others fail. The
ids of the latest commits in the manifest show how many processes are writing, and each writer measures how long an
attempt takes. All writers derive their waits from the same two figures, so none starves.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence

WRITER_BYTES = 3
_LATEST = 32  # latest commits by which active writers are counted
_ALERT = 16  # commits in a row without a lost race that end contention
_LONGEST_S = 1.0
_SPREAD = 4  # measured with 16 processes: 1.9 attempts for a commit; with 2 it took 2.7, with 1 it took 6


class WriterTurns:
    """One writer's view of the other writers of a memory store."""

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._alert = 0
        self._losses = 0
        self._attempt_s = 0.005
        self._began: float | None = None

    def new_commit(self) -> str:
        """New commit id that starts with the id of the writer."""
        return self._writer + os.urandom(6).hex()

    @property
    def is_seen(self) -> bool:
        """True if this writer lost a race recently."""
        return self._alert > 0

    def lost(self) -> None:
        """Record a lost race."""
        self._alert = _ALERT
        self._losses += 1

    def won(self) -> None:
        """Record a won race."""
        self._alert = max(self._alert - 1, 0)
        self._losses = 0
        if self._began is not None:
            self._attempt_s += (time.monotonic() - self._began - self._attempt_s) / 8
            self._began = None

    def wait(self, commits: Sequence[str]) -> None:
        """Wait before the next attempt, which begins on return. `commits` are those of the latest manifest."""
        if self.is_seen:
            longest = window_s(commits, self._writer, self._attempt_s) / (1 + self._losses)
            time.sleep(random.uniform(0, min(longest, _LONGEST_S)))  # noqa: S311 - spreads the waits, not a secret
        self._began = time.monotonic()


def window_s(commits: Sequence[str], writer: str, attempt_s: float) -> float:
    """Upper bound of the wait: long enough that another attempt starts during about half of all attempts."""
    others = {commit[: 2 * WRITER_BYTES] for commit in commits[-_LATEST:]} - {writer}
    return _SPREAD * attempt_s * max(len(others), 1)
