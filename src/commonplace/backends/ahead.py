"""Files written while the commit that leads to them is being synced.

A commit waits some 0.2 ms for the disk. In that time a thread writes the new texts to scratch files, so that after the
commit only their names are left to be changed; a commit that fails throws them away.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from commonplace.backends.scratch import Scratch

Key = tuple[str, str]
"""Memory store and path."""


class Ahead:
    """One thread, started at the first use. Between `start` and `finish` nobody else uses the scratch files."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._thread: threading.Thread | None = None
        self._texts: Mapping[Key, bytes] | None = {}
        self._names: dict[Key, str] = {}
        self._running = False
        self._begin = threading.Lock()
        self._end = threading.Lock()
        self._begin.acquire()
        self._end.acquire()

    def start(self, texts: Mapping[Key, bytes]) -> None:
        """Begin to write these."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="commonplace-ahead", daemon=True)
            self._thread.start()
        self.finish()  # of one whose caller was interrupted
        self._texts, self._names, self._running = texts, {}, True
        self._begin.release()

    def finish(self) -> dict[Key, str]:
        """The names of the scratch files that could be written."""
        if self._running:
            self._end.acquire()
            self._running = False
        return self._names

    def stop(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._texts, self._thread = None, None
            self._begin.release()

    def _run(self) -> None:
        while True:
            self._begin.acquire()
            if self._texts is None:
                return
            try:
                for key, data in self._texts.items():
                    with suppress(Exception):  # tried again, and then told, by the one who needs the file
                        self._names[key] = self._scratch.write(data)
            finally:
                self._end.release()
