"""`retentive serve` in a process of its own, and clients that write to it without a pause."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import IO
from urllib.parse import urlsplit

import retentive
from retentive import MemoryStore
from retentive.server.calls import ServedLocation

from .servers.base import descendants

MAIN = "from retentive.cli import main; main()"


@contextmanager
def started(
    *arguments: str, directory: Path | None = None, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A running server, and the lines that it printed before its first request. It is stopped by SIGTERM.

    Its log is in the file `log` of the directory or, without a directory, in the standard error of the process.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETENTIVE_", "OTEL_"))}
    command = [sys.executable, "-c", MAIN, "serve", "--port", "0", *arguments]
    log = None if directory is None else directory / "log"
    with nullcontext(subprocess.PIPE) if log is None else log.open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=directory, env=kept | variables, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    try:
        lines = list[str]()
        while not lines or not lines[-1].startswith("Serving "):
            line = out(process.stdout).readline()
            assert line, out(process.stderr).read() if log is None else log.read_text()
            lines.append(line.rstrip("\n"))
        yield process, lines
    finally:
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a server by SIGTERM, and close its pipes. One that does not end in time is killed with its workers."""
    family = [process.pid, *descendants(process.pid)]
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    with process:
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired as error:
            for pid in {*family, *descendants(process.pid)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            log = (error.stderr or b"")[-3_000:].decode(errors="replace")
            raise AssertionError(f"the server did not stop within 60 s:\n{log}") from None


def out(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


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
            if not self._sent(f"toolu_{self.name}{number:020}", command):
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
            if status == 503:
                time.sleep(0.05)  # a client waits for the time in `retry-after`; this one asks more often
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
            assert (response.status == 503) == ("retry-after" in response.headers), response.status
        finally:
            connection.close()
        return response.status, answer

    def check(self, store: MemoryStore) -> None:
        """Each acknowledged line is stored once, in its order, and at most one other: that of the cut command."""
        lines, expected = store.read(f"/memories/{self.name}").splitlines(keepends=True)[::-1], self.acknowledged[1:]
        assert lines[: len(expected)] == expected
        assert lines[len(expected) :] in ([], [f"{len(expected) + 2}\n"])
        assert self.statuses <= {200, 503}


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
    def writing(self, clients: int, *, repeats: bool) -> Iterator[list[Writer]]:
        """Clients that write until the block ends."""
        writers = [Writer(self.url, self.key, self.store.id, f"w{number}", repeats) for number in range(clients)]
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


@contextmanager
def process_serving(at: str, *arguments: str) -> Iterator[Running]:
    """A server of a location, with its default store."""
    with retentive.open(at) as opened:
        key = ServedLocation(opened).keys.create("test").text
        options = ("--at", at, "--no-request-log", *arguments)
        with started(*options) as (process, lines):
            yield Running(process, lines[-1].split()[-1], key, opened.store())


def acknowledged(writers: list[Writer]) -> int:
    return sum(len(each.acknowledged) for each in writers)


def refused(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=5).close()
    except OSError:
        return True
    return False
