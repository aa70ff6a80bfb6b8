"""Hints that files of a directory changed, from the operating system if `watchfiles` is installed.

A hint may be missing (a renamed root, a network file system), so the caller scans from time to time anyway.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from retentive.sync.folder import ASIDE, MARKER, NEW


class Hints:
    """Waits for changes in a directory. Without `watchfiles` it only waits, and changes are found by the scans."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether a file changed since the last call."""
        found = self._changed.wait(seconds)
        self._changed.clear()
        return found

    def _watch(self) -> None:
        try:
            from watchfiles import watch  # noqa: PLC0415 - an extra, and only needed here
        except ModuleNotFoundError:
            return
        begun = False
        for changes in watch(
            self._path,
            stop_event=self._ended,
            debounce=200,
            rust_timeout=500,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if not begun:  # what changed before the system watched is found by a scan now
                begun = True
                self._changed.set()
            if any(not path.rpartition("/")[2].startswith((NEW, ASIDE, MARKER)) for _, path in changes):
                self._changed.set()
