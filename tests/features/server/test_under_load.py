"""Clients that write without a pause, while a worker is killed and the database restarts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from support.profiles import FULL, REQUIRED
from support.served_process import Writer, acknowledged, process_serving
from support.servers.postgresql import PostgresServer
from support.waiting import until

CLIENTS = 64
PHASE_S = 20.0 if FULL else 3.0
"""Least time before the kill, between the kill and the restart, and after it."""
ENOUGH = 60
"""Commands that must be acknowledged in each phase."""
Restart: TypeAlias = Callable[[Callable[[], None]], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Restart | None]]:
    """A location, and how its database is restarted."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/memory.db", None
        return
    if why := PostgresServer.available():
        assert not REQUIRED, why
        pytest.skip(why)
    with PostgresServer() as server:
        yield f"{server.new_database('load')}?timeout_s=2", server.restart


@pytest.mark.long
def test_nothing_acknowledged_is_lost_or_doubled(place: tuple[str, Restart | None]) -> None:
    """A cut command is sent again with its id. Only 200 and 503 with `retry-after` are answered."""
    at, restart = place
    with process_serving(at, "--workers", "2") as running:
        pid = int(running.said(r"Started server process \[(\d+)\]")[1])
        with running.writing(CLIENTS, repeats=True) as writers:
            phase(writers)
            os.kill(pid, signal.SIGKILL)
            assert running.said(r"Child process \[(\d+)\] died")[1] == str(pid)
            assert running.said(r"Started server process \[(\d+)\]")[1] != str(pid)
            phase(writers)
            if restart is not None:
                restart(lambda: until(lambda: any(503 in each.statuses for each in writers)))
            phase(writers)
        for writer in writers:
            writer.check(running.store)


def phase(writers: list[Writer]) -> None:
    """Wait until commands are acknowledged, for the time of the profile at least."""
    before, end = acknowledged(writers), time.monotonic() + PHASE_S
    until(lambda: acknowledged(writers) >= before + ENOUGH)
    time.sleep(max(0.0, end - time.monotonic()))
