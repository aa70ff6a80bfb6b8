"""Threads that read take turns, but a slow reader delays none."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from retentive.storage import pool
from retentive.storage.pool import ReadTurns
from retentive.storage.sqlite import SqliteBackend
from support.waiting import DEADLINE_S, until

NEVER_S = 1e9


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> ReadTurns:
    """Turns without time limits. A thread that has read once counts as one that will read again soon."""
    for name in ("SOON_S", "RUN_S", "SLOW_S"):
        monkeypatch.setattr(pool, name, NEVER_S)
    monkeypatch.setattr(pool, "RETRY_S", DEADLINE_S)
    return ReadTurns()


@pytest.fixture
def other_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def _waiting(turns: ReadTurns, threads: ThreadPoolExecutor) -> Future[int]:
    """Let another thread take a turn, and return when it waits."""
    second = threads.submit(turns.take)
    until(lambda: len(turns._waiting) == 1)
    return second


def _read(turns: ReadTurns) -> None:
    turns.release(turns.take())


def test_quick_work_does_not_overlap(turns: ReadTurns, other_thread: ThreadPoolExecutor) -> None:
    """A second thread gets its turn only when the first one ends, and then at once."""
    first = turns.take()
    second = _waiting(turns, other_thread)
    assert not wait([second], timeout=0.1).done
    turns.release(first)
    turns.release(second.result(DEADLINE_S))
    _read(turns)


def test_a_thread_that_reads_again_keeps_its_turn_for_a_while(
    turns: ReadTurns, other_thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes the waiting thread only when its time is over."""
    _read(turns)
    again = turns.take()
    second = _waiting(turns, other_thread)
    turns.release(again)
    again = turns.take()  # free, although another thread waits
    assert not second.done()
    monkeypatch.setattr(pool, "RUN_S", 0.0)
    turns.release(again)
    turns.release(second.result(DEADLINE_S))


def test_a_turn_that_is_free_is_taken_by_the_thread_that_waits(
    turns: ReadTurns, other_thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread was expected to read again and does not."""
    monkeypatch.setattr(pool, "RETRY_S", 0.001)
    _read(turns)
    again = turns.take()
    second = _waiting(turns, other_thread)
    turns.release(again)
    turns.release(second.result(DEADLINE_S))


def test_a_slow_reader_loses_its_turn(
    turns: ReadTurns, other_thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it ends, the turn of the thread that took over continues."""
    monkeypatch.setattr(pool, "RETRY_S", 0.001)
    monkeypatch.setattr(pool, "SLOW_S", 0.001)
    slow = turns.take()
    second = other_thread.submit(turns.take).result(DEADLINE_S)
    monkeypatch.setattr(pool, "SLOW_S", NEVER_S)
    turns.release(slow)
    third = _waiting(turns, other_thread)
    assert not wait([third], timeout=0.1).done
    turns.release(second)
    turns.release(third.result(DEADLINE_S))


def test_an_interrupted_wait_leaves_nothing_behind(turns: ReadTurns, other_thread: ThreadPoolExecutor) -> None:
    """The thread that waited for its turn is no longer in the queue, and others get their turns."""
    owner = other_thread.submit(turns.take).result(DEADLINE_S)
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # repeated, in case the first comes too early
        with pytest.raises(InterruptedError):
            turns.take()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    other_thread.submit(turns.release, owner).result(DEADLINE_S)
    _read(turns)


def _interrupt(*_: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    raise InterruptedError


def test_slow_readers_do_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three reads are in progress at once, each of which would wait for the next one for ever."""
    monkeypatch.setattr(pool, "SLOW_S", 0.001)
    together = threading.Barrier(3, timeout=60)
    with closing(SqliteBackend(str(tmp_path / "m.db"))) as backend, ThreadPoolExecutor(3) as threads:
        store = backend.create_store(key="notes", name="notes").id
        done = [threads.submit(backend.read, store, lambda _: together.wait()) for _ in range(3)]
        assert sorted(one.result() for one in done) == [0, 1, 2]
        assert backend.read(store, lambda snapshot: snapshot.revision) == 0
