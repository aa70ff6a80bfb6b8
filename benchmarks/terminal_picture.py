"""Picture of `log`, `diff` and `undo` in a terminal, for the README: real commands in a pseudo terminal, drawn as SVG.

    python benchmarks/terminal_picture.py [--check] [FILE]

With --check the commands run too, and the status is 1 if the picture shows other commands or other output. Ids and
times may differ.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "terminal.svg"
BEFORE = (
    r"printf '# Refunds\n- within 30 days\n- to the card\n' | retentive --actor user:ann create /memories/refunds.md"
)
COMMANDS = (
    "retentive --actor session:s1 replace /memories/refunds.md '30 days' '300 days'",
    "retentive log",
    "retentive diff /memories/refunds.md",
    "retentive undo --session s1",
    "retentive cat /memories/refunds.md",
)
COLUMNS = 102
NO_BREAK = "\u00a0"  # browsers join blanks in the text of a picture
FONT_PX, CELL_PX, LINE_PX, EDGE_PX = 14, 8.43, 20, 16
BACKGROUND, FOREGROUND = "#1e1e2e", "#d9e0ee"
COLOURS = ("#1e1e2e", "#f28fad", "#abe9b3", "#fae3b0", "#96cdfb", "#f5c2e7", "#89dceb", "#d9e0ee")
_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_CHANGING = (
    (re.compile(r"memver_[0-9a-f]{32}"), "memver_" + "0" * 32),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "2026-01-01 00:00"),
)


def printed(command: str, directory: str) -> str:
    """Run a command in a pseudo terminal and return its output with terminal codes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETENTIVE_", "NO_COLOR"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ours = {"PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "TZ": "UTC"}
    terminal, program = pty.openpty()
    running = subprocess.Popen(["bash", "-c", command], cwd=directory, env=kept | ours, stdout=program, stderr=program)
    os.close(program)
    chunks = []
    try:
        while chunk := os.read(terminal, 65_536):
            chunks.append(chunk)
    except OSError:  # Linux reports EIO after the last writer ends
        pass
    os.close(terminal)
    if running.wait() != 0:
        raise SystemExit(f"{command}: {b''.join(chunks).decode()}")
    return b"".join(chunks).decode().replace("\r\n", "\n").rstrip("\n")


def session() -> list[str]:
    """Run all commands and return the lines of the terminal."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        printed(BEFORE, directory)
        for command in COMMANDS:
            lines += [f"\x1b[32m$\x1b[0m {command}", *printed(command, directory).split("\n"), ""]
    return lines[:-1]


def runs(line: str) -> Iterator[tuple[int, str, str, str | None]]:
    """Split a line into runs of one style: column, text, colour, and colour of the background."""
    column, colour, background = 0, FOREGROUND, None
    for place, part in enumerate(_STYLE.split(line)):
        if place % 2 == 0:
            text = part.expandtabs(8 if column == 0 else 1)
            if text.strip() or background:
                yield column, text, colour, background
            column += len(text)
            continue
        for code in [int(code or 0) for code in part.split(";")]:
            if code == 0:
                colour, background = FOREGROUND, None
            elif 30 <= code <= 37:
                colour = COLOURS[code - 30]
            elif 40 <= code <= 47:
                background = COLOURS[code - 40]


def drawn(lines: list[str]) -> str:
    """Return the lines as SVG."""
    width, height = round(COLUMNS * CELL_PX + 2 * EDGE_PX), len(lines) * LINE_PX + 2 * EDGE_PX
    parts = []
    for number, line in enumerate(lines):
        top = EDGE_PX + number * LINE_PX
        for column, text, colour, background in runs(line):
            left, length = f"{EDGE_PX + column * CELL_PX:.1f}", f"{len(text) * CELL_PX:.1f}"
            if background:
                parts.append(f'<rect x="{left}" y="{top}" width="{length}" height="{LINE_PX}" fill="{background}"/>')
            style = f'x="{left}" y="{top + 15}" textLength="{length}" fill="{colour}"'
            kept = escape(text, quote=False).replace(" ", NO_BREAK)
            parts.append(f'<text {style} data-line="{number}">{kept}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT_PX}">'
    )
    title = "<title>An agent changes a memory; log and diff show the change, and undo reverts it</title>"
    return "\n".join(
        [head, title, f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>', *parts, "</svg>\n"]
    )


def shown(picture: str) -> list[tuple[str, str]]:
    """Return number and text of the runs in a picture, without ids and times."""
    picture = picture.replace(NO_BREAK, " ")
    for pattern, constant in _CHANGING:
        picture = pattern.sub(constant, picture)
    return [(line, unescape(text)) for line, text in re.findall(r'data-line="(\d+)">(.*?)</text>', picture)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file", type=Path, nargs="?", default=PICTURE)
    options = parser.parse_args()
    if not options.check:
        options.file.write_text(drawn(session()), "utf-8")
    elif shown(options.file.read_text("utf-8")) != shown(drawn(session())):
        sys.exit(f"{options.file.name} is not current; run: python benchmarks/terminal_picture.py")
