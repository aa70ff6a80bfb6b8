"""Running the command line: as a process, as a person's terminal sees it, and inside this process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from retentive.cli.app import app

RETENTIVE = str(Path(sys.executable).with_name("retentive"))
AT = "sqlite:///memory.db"
LEFT_OUT = {"RETENTIVE_AT", "RETENTIVE_STORE", "EDITOR", "VISUAL", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED"}
LEFT_OUT |= {"RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"}


@dataclass(frozen=True)
class Ended:
    """What a process wrote, and its status."""

    out: bytes
    err: str
    status: int


def environment(directory: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would steer the command line, and with temporary files in `directory`."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    kept |= {"TMPDIR": str(directory), "LOGNAME": "ann", "TERM": "xterm-256color"}
    return kept | dict(given or {})


def process(directory: Path, *arguments: str, text: bytes = b"", **variables: str) -> Ended:
    """Run `retentive` in `directory` with `text` piped in."""
    command = [RETENTIVE, *arguments]
    env = environment(directory, variables)
    ended = subprocess.run(command, input=text, capture_output=True, cwd=directory, env=env, timeout=60, check=False)
    return Ended(ended.stdout, ended.stderr.decode(), ended.returncode)


def terminal(directory: Path, *arguments: str, program: Sequence[str] = (RETENTIVE,), **variables: str) -> str:
    """What a terminal shows of `retentive`, run in `directory`: both outputs, lines ending in CR LF."""
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


def here(at: str | Path, *arguments: str, text: bytes = b"") -> Result:
    """Run `retentive` inside this process on the memory at a place."""
    return CliRunner().invoke(app, ["--at", str(at), *arguments], input=text)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux says EIO when the other side is closed
        return b""
