"""The processes of the server: SIGTERM, kill -9 of a worker and of the parent, while clients write."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest

from support.served_process import Running, acknowledged, process_serving, refused
from support.waiting import until

CLIENTS = 4
ENOUGH = 60
"""Commands that must be acknowledged after the kill."""
Start: TypeAlias = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:
        at = f"sqlite:///{tmp_path}/memory.db"
        yield lambda *arguments: running.enter_context(process_serving(at, *arguments))


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_sigterm_cuts_no_command(start: Start, workers: str) -> None:
    """Acknowledged commands are stored, a command without an answer is stored whole or not at all; streams end."""
    running = start("--workers", workers)
    parts = urlsplit(running.url)
    stream = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    stream.request("GET", f"/v1/memory_stores/{running.store.id}/events", headers={"x-api-key": running.key})
    response = stream.getresponse()
    with running.writing(CLIENTS, repeats=False) as writers:
        until(lambda: acknowledged(writers) >= ENOUGH)
        running.process.send_signal(signal.SIGTERM)
        assert response.read().endswith(b"event: stopping\ndata: {}\n\n")
        running.said("Shutting down")
        running.said("Finished server process")
        assert running.process.wait(60) == 0
        until(lambda: refused(running.url))
    stream.close()
    for writer in writers:
        writer.check(running.store)


@pytest.mark.long
def test_a_killed_worker_is_replaced(start: Start) -> None:
    """Commands that are sent again with their id after a cut are stored once; only 200 and 503 are answered."""
    running = start("--workers", "2")
    pid = int(running.said(r"Started server process \[(\d+)\]")[1])
    with running.writing(CLIENTS, repeats=True) as writers:
        until(lambda: acknowledged(writers) >= ENOUGH)
        os.kill(pid, signal.SIGKILL)
        assert running.said(r"Child process \[(\d+)\] died")[1] == str(pid)
        assert running.said(r"Started server process \[(\d+)\]")[1] != str(pid)
        before = acknowledged(writers)
        until(lambda: acknowledged(writers) >= before + ENOUGH)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    for writer in writers:
        writer.check(running.store)


@pytest.mark.long
@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.02, 0.1, 0.3, 1.0])
def test_sigterm_while_a_killed_worker_is_replaced(start: Start, delay_s: float, is_started: bool) -> None:
    """The supervisor creates a process at this moment, and still ends with all its workers, in time and with status 0.

    The other worker gets no request, so it needs no time to finish.
    """
    running = start("--workers", "2")
    if is_started:
        pid = int(running.said(r"Started server process \[(\d+)\]")[1])
        running.said(r"Application startup complete")
        os.kill(pid, signal.SIGKILL)
        assert running.said(r"Child process \[(\d+)\] died")[1] == str(pid)
        time.sleep(delay_s)
    else:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        until(lambda: children.read_text("ascii").split())
        time.sleep(delay_s)
        os.kill(int(children.read_text("ascii").split()[-1]), signal.SIGKILL)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0
    assert refused(running.url)


@pytest.mark.long
def test_workers_end_with_their_parent(start: Start) -> None:
    running = start("--workers", "2")
    with running.writing(CLIENTS, repeats=False) as writers:
        until(lambda: acknowledged(writers) > CLIENTS)
        running.process.kill()
        until(lambda: refused(running.url))
    for writer in writers:
        writer.check(running.store)
