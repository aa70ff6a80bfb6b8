"""Runs of the command line: as a process, on a terminal or in this process. Functions read the memories afterwards."""

from __future__ import annotations

import codecs
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner, Result

import retentive
from retentive.cli.app import app

RETENTIVE = str(Path(sys.executable).with_name("retentive"))
AT = "sqlite:///memory.db"
LEFT_OUT = {"RETENTIVE_AT", "RETENTIVE_STORE", "EDITOR", "VISUAL", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED"}
LEFT_OUT |= {"RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"}
DEADLINE_S = 60.0
_OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_HALF = re.compile(r"\x1b(?:\[[?0-9;]*)?\Z")
_PASTE = re.compile(r"\x1b\[\?2004[hl]\r?")
"""Escape codes that readline writes around each line."""


@dataclass(frozen=True)
class Ended:
    """Output and exit status of a process."""

    out: bytes
    err: str
    status: int


def environment(directory: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this environment without variables for the command line, and with `directory` for temporary files."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    kept |= {"TMPDIR": str(directory), "LOGNAME": "ann", "TERM": "xterm-256color"}
    kept["XDG_STATE_HOME"] = str(directory / "state")
    return kept | dict(given or {})


def process(directory: Path, *arguments: str, text: bytes = b"", **variables: str) -> Ended:
    """Run `retentive` in `directory`, with `text` as its standard input."""
    command = [RETENTIVE, *arguments]
    env = environment(directory, variables)
    ended = subprocess.run(command, input=text, capture_output=True, cwd=directory, env=env, timeout=60, check=False)
    return Ended(ended.stdout, ended.stderr.decode(), ended.returncode)


def terminal(directory: Path, *arguments: str, program: Sequence[str] = (RETENTIVE,), **variables: str) -> str:
    """Run `retentive` in `directory` on a terminal and return its output.

    Lines end in CR LF, and both streams are joined.
    """
    import pty  # Windows lacks it, and other tests of these modules run there

    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(
            [*program, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=environment(directory, variables),
        )
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        child.wait(60)
    finally:
        os.close(ours)
    return shown.decode()


def here(location: str | Path, *arguments: str, text: bytes = b"", **variables: str) -> Result:
    """Run `retentive` in this process on a location."""
    return CliRunner().invoke(app, ["--at", str(location), *arguments], input=text, env=variables)


def inside(directory: Path, *arguments: str, text: bytes = b"", **variables: str) -> Ended:
    """Run `retentive` in this process as `process` does in one of its own, which starts half a second later."""
    wanted = environment(directory, variables)
    env = {name: wanted.get(name) for name in {*os.environ, *wanted}}  # None removes a variable
    with chdir(directory), patch.object(tempfile, "tempdir", None):
        ended = CliRunner().invoke(app, arguments, input=text, env=env, prog_name="retentive")
    return Ended(ended.stdout_bytes, ended.stderr, ended.exit_code)


class Terminal:
    """A process on a terminal. It accepts typed input and shows its output."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self.shown = ""
        self._ours = ours
        self._data = b""
        self._at = 0

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, text: str) -> str:
        """Wait until `text` appears after the last expected text. Returns the output between them."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := self.shown.find(text, self._at)) < 0:
            assert self._read(deadline), f"{text!r} did not appear in:\n{self.shown[self._at :]}"
        between, self._at = self.shown[self._at : found], found + len(text)
        return between

    def interrupt(self, text: str) -> str:
        """Press Ctrl-C until `text` appears, then wait for it like `expect`.

        Python misses a signal that arrives just before it waits for a line, and handles it at the next key.
        """
        last = time.monotonic() + DEADLINE_S
        while self.shown.find(text, self._at) < 0 and time.monotonic() < last:
            self.type("\x03")
            pause = time.monotonic() + 3
            while self.shown.find(text, self._at) < 0 and self._read(pause):
                pass
        return self.expect(text)

    def end(self) -> int:
        """Read all output, and return the exit status."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(DEADLINE_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        more = _read(self._ours) if ready else b""
        self._data += more
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(self._data)  # omits an incomplete character
        self.shown = _PASTE.sub("", _HALF.sub("", text))  # without an incomplete escape sequence
        return bool(more)


@contextmanager
def interactive(
    directory: Path, *arguments: str, program: Sequence[str] = (RETENTIVE,), **variables: str
) -> Iterator[Terminal]:
    """Run `retentive` or another program on a controlling terminal, and kill it at the end of the block."""
    import pty  # Windows lacks it, and other tests of these modules run there

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _OWN_TERMINAL, *program, *arguments]
    env = environment(directory, variables)
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=env, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


def version_ids(location: str | Path) -> list[str]:
    """Return the ids of all versions in the default memory store, oldest first."""
    with retentive.open(location) as opened:
        return [version.id for version in opened.store().versions()][::-1]


def texts(location: str | Path) -> dict[str, str]:
    """Return the texts of all memories in the default memory store, by path."""
    with retentive.open(location) as opened:
        store = opened.store()
        return {memory.path: store.read(memory.path) for memory in store.memories()}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux reports EIO when the other side is closed
        return b""
