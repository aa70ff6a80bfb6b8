"""`retentive serve` in a process, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def out(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
