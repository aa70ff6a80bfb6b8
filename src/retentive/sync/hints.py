"""Detects changed files with the package `watchfiles`, if the package is installed.

Some changes are not detected, for example on a network file system or after the directory was renamed. The caller must
therefore also scan the directory regularly.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from retentive.sync.folder import ASIDE, MARKER, NEW


class Hints:
    """Waits for changes of files in a directory. Detects no changes if the package `watchfiles` is not installed."""

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
        """Wait up to `seconds` for a change. Return whether a file has changed since the last call."""
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
            if not begun:  # changes made before this moment were not noticed, so the caller must scan now
                begun = True
                self._changed.set()
            if any(not path.rpartition("/")[2].startswith((NEW, ASIDE, MARKER)) for _, path in changes):
                self._changed.set()
