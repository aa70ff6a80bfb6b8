"""Threads that read take turns, but a slow reader delays none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from retentive.storage import pool
from retentive.storage.pool import ReadTurns
from retentive.storage.sqlite import SqliteBackend


def test_quick_work_does_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread gets its turn only when the first one ends."""
    monkeypatch.setattr(pool, "SLOW_S", 60.0)
    turns = ReadTurns()
    first = turns.take()
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(turns.take)
        assert not wait([second], timeout=0.1).done
        first.release()
        second.result().release()


def test_slow_readers_do_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three reads are in progress at once, each of which would wait for the next one for ever."""
    monkeypatch.setattr(pool, "SLOW_S", 0.001)
    together = threading.Barrier(3, timeout=60)
    with closing(SqliteBackend(str(tmp_path / "m.db"))) as backend, ThreadPoolExecutor(3) as threads:
        store = backend.create_store(key="notes", name="notes").id
        done = [threads.submit(backend.read, store, lambda _: together.wait()) for _ in range(3)]
        assert sorted(one.result() for one in done) == [0, 1, 2]
        assert backend.read(store, lambda snapshot: snapshot.revision) == 0
