"""Picture of a terminal for the README: real commands and their output, as docs/console/terminal.svg.

    python scripts/terminal_picture.py

A terminal is given to each command, so the colours are those that people see.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

import retentive

TARGET = Path(__file__).resolve().parents[1] / "docs" / "console" / "terminal.svg"
COLUMNS = 92
COMMANDS = (
    "retentive log -n 3",
    "retentive diff refunds.md",
    "retentive blame refunds.md",
    "retentive undo --session 2 --yes",
    "retentive cat refunds.md",
)
BEFORE = "# Refunds\nRefund in full within 30 days.\nOver 500 EUR ask the support lead.\n"


def shown(command: str, folder: str) -> str:
    """Run a command on a terminal, and return what it shows."""
    program, *arguments = command.split()
    found = shutil.which(program, path=os.path.dirname(sys.executable)) or program
    ours, theirs = pty.openpty()
    variables = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run([found, *arguments], cwd=folder, env=variables, stdin=theirs, stdout=theirs, check=False)  # noqa: S603
    os.close(theirs)
    if done.returncode not in {0, 1}:  # 1: there are differences
        sys.exit(f"{command} failed")
    text = bytearray()
    try:
        while part := os.read(ours, 65_536):
            text += part
    except OSError:  # Linux: nobody has the other side any more
        pass
    os.close(ours)
    return text.decode().replace("\r\n", "\n").strip("\n")


def main() -> None:
    """Draw the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        with retentive.open(f"{folder}/memory") as place:
            store = place.store()
            store.create("/memories/refunds.md", BEFORE, actor="user:ann")
            store.edit("/memories/refunds.md", "ask the", "call the", actor="session:1")
            store.edit("/memories/refunds.md", "30 days", "300 days, as the page says", actor="session:2")
        for command in COMMANDS:
            console.print(Text.from_ansi(f"\033[1;32m$\033[0m \033[1m{command}\033[0m"))
            console.print(Text.from_ansi(shown(command, folder)), "", sep="\n")
    drawn = console.export_svg(title="retentive", unique_id="terminal")
    TARGET.write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL))  # no request to another host
    print(TARGET)


if __name__ == "__main__":
    main()
