"""`retentive serve` in a process, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .servers.base import descendants

MAIN = "from retentive.cli import main; main()"


@contextmanager
def started(*arguments: str, directory: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A running server, and the lines that it printed before its first request. It is stopped by SIGTERM.

    Its log is in the file `log` of the directory.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETENTIVE_", "OTEL_"))}
    command = [sys.executable, "-c", MAIN, "serve", "--port", "0", *arguments]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=directory, env=kept | variables, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        lines = list[str]()
        while not lines or not lines[-1].startswith("Serving "):
            line = out(process.stdout).readline()
            assert line, (directory / "log").read_text()
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
