"""The processes of the server: SIGTERM, kill -9 of a worker and of the parent, while clients write."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

import retentive
from retentive import MemoryStore
from retentive.server.calls import ServedPlace

MAIN = "from retentive.cli import main; main()"
CLIENTS = 4
ENOUGH = 60
"""Commands that must be acknowledged after the kill."""


@dataclass
class Writer:
    """A client that appends numbered lines to a memory of its own. With `repeats`, it sends a cut command again."""

    url: str
    key: str
    store_id: str
    name: str
    repeats: bool
    ended: Event = field(default_factory=Event)
    acknowledged: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            number += 1
            path = f"/memories/{self.name}"
            command: dict[str, object] = {"command": "create", "path": path, "file_text": ""}
            if number > 1:
                command = {"command": "insert", "path": path, "insert_line": 0, "insert_text": f"{number}\n"}
            if not self._sent(f"{self.name}-{number}", command):
                return
            self.acknowledged.append(f"{number}\n")

    def _sent(self, tool_id: str, command: dict[str, object]) -> bool:
        body = json.dumps({"type": "tool_use", "id": tool_id, "name": "memory", "input": command})
        while not self.ended.is_set():
            try:
                status, answer = self._post(body)
            except (OSError, HTTPException):
                if not self.repeats:
                    return False
                continue
            self.statuses.add(status)
            if status == 200:
                assert "is_error" not in answer, answer
                return True
        return False

    def _post(self, body: str) -> tuple[int, dict[str, object]]:
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            headers = {"authorization": f"Bearer {self.key}"}
            connection.request("POST", f"/v1/memory_stores/{self.store_id}/tool", body, headers)
            response = connection.getresponse()
            answer: dict[str, object] = json.loads(response.read())
        finally:
            connection.close()
        return response.status, answer

    def lines_in(self, store: MemoryStore) -> list[str]:
        """Numbered lines that the store has, oldest first."""
        return store.read(f"/memories/{self.name}").splitlines(keepends=True)[::-1]


@dataclass
class Running:
    """A running server over a new location, with clients that write."""

    process: subprocess.Popen[str]
    url: str
    key: str
    store: MemoryStore

    def said(self, pattern: str) -> re.Match[str]:
        """Wait for a line of progress."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"the server ended without {pattern}")

    @contextmanager
    def writing(self, *, repeats: bool) -> Iterator[list[Writer]]:
        writers = [Writer(self.url, self.key, self.store.id, f"w{number}", repeats) for number in range(CLIENTS)]
        threads = [Thread(target=each.run) for each in writers]
        for each in threads:
            each.start()
        try:
            yield writers
        finally:
            for writer in writers:
                writer.ended.set()
            for each in threads:
                each.join()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    processes = list[subprocess.Popen[str]]()
    at = f"sqlite:///{tmp_path}/memory.db"
    opened = retentive.open(at)
    key = ServedPlace(opened).keys.create("test").text

    def started(*arguments: str) -> Running:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RETENTIVE_")}
        command = [sys.executable, "-c", MAIN, "serve", "--at", at, "--port", "0", "--no-request-log", *arguments]
        process = subprocess.Popen(command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "Serving" in line, process.stderr
        return Running(process, line.split()[-1], key, opened.store())

    yield started
    for each in processes:
        if each.poll() is None:
            each.send_signal(signal.SIGTERM)
        each.communicate(timeout=60)
    opened.close()


def until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


def acknowledged(writers: list[Writer]) -> int:
    return sum(len(each.acknowledged) for each in writers)


def refused(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=5).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_cuts_no_command(start: Callable[..., Running], workers: str) -> None:
    """Acknowledged commands are stored, a command without an answer is stored whole or not at all; streams end."""
    running = start("--workers", workers)
    parts = urlsplit(running.url)
    stream = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    stream.request("GET", f"/v1/memory_stores/{running.store.id}/events", headers={"x-api-key": running.key})
    response = stream.getresponse()
    with running.writing(repeats=False) as writers:
        until(lambda: acknowledged(writers) >= ENOUGH)
        running.process.send_signal(signal.SIGTERM)
        assert response.read().endswith(b"event: stopping\ndata: {}\n\n")
        running.said("Stopping")
        running.said("Stopped")
        assert running.process.wait(60) == 0
        until(lambda: refused(running.url))
    stream.close()
    for writer in writers:
        lines = writer.lines_in(running.store)
        expected = writer.acknowledged[1:]
        assert lines[: len(expected)] == expected
        assert lines[len(expected) :] in ([], [f"{len(expected) + 2}\n"])
        assert writer.statuses <= {200, 503}


def test_a_killed_worker_is_replaced(start: Callable[..., Running]) -> None:
    """Commands that are sent again with their id after a cut are stored once; only 200 and 503 are answered."""
    running = start("--workers", "2")
    pid = int(running.said(r"Worker (\d+) started")[1])
    with running.writing(repeats=True) as writers:
        until(lambda: acknowledged(writers) >= ENOUGH)
        os.kill(pid, signal.SIGKILL)
        assert running.said(r"Worker (\d+) ended by SIGKILL")[1] == str(pid)
        assert running.said(r"Worker (\d+) started")[1] != str(pid)
        before = acknowledged(writers)
        until(lambda: acknowledged(writers) >= before + ENOUGH)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    for writer in writers:
        expected = writer.acknowledged[1:]
        lines = writer.lines_in(running.store)
        assert lines[: len(expected)] == expected
        assert len(lines) <= len(expected) + 1
        assert writer.statuses <= {200, 503}


def test_workers_end_with_their_parent(start: Callable[..., Running]) -> None:
    running = start("--workers", "2")
    with running.writing(repeats=False) as writers:
        until(lambda: acknowledged(writers) > CLIENTS)
        running.process.kill()
        until(lambda: refused(running.url))
    for writer in writers:
        assert writer.lines_in(running.store)[: len(writer.acknowledged) - 1] == writer.acknowledged[1:]
