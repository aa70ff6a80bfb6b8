"""Writers that run during exports, backups and migrations."""

from __future__ import annotations

import threading

import pytest

from retentive import MemoryStore
from support.waiting import until

WRITERS = 8
PATIENCE_S = 120.0
QUICK = [
    "sqlite",
    pytest.param("directory", marks=pytest.mark.long),
    "postgresql",
    pytest.param("mariadb", marks=pytest.mark.long),
]


class Writers:
    """Eight threads, each of which appends the lines 0, 1, 2 ... to a memory of its own.

    The texts show whether a copy is one consistent state, and how old the state is.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._stop = threading.Event()
        self.done = [0] * WRITERS
        self._threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(WRITERS)]

    def _write(self, number: int) -> None:
        path = f"/memories/{number}"
        assert not self._store.execute({"command": "create", "path": path, "file_text": ""}).is_error
        while not self._stop.is_set():
            line = self.done[number]
            command = {"command": "insert", "path": path, "insert_line": line, "insert_text": str(line)}
            assert not self._store.execute(command).is_error
            self.done[number] += 1

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        self.go_on(5)
        return self

    def go_on(self, lines: int) -> None:
        """Wait until each thread has written this many more lines."""
        before = list(self.done)
        until(lambda: all(done >= was + lines for done, was in zip(self.done, before, strict=True)))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
