"""The pages of the documentation and their fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "benchmarks" / "README.md"  # its commands take minutes
PAGES = sorted(
    {ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    | {MEASURED, *(ROOT / "docs").glob("*.md")}
)
WRITTEN = [page for page in PAGES if page != MEASURED]
_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    A ```python block runs or, if its first line is `# name.py`, is saved. A ```console block runs.
    """

    language: str
    body: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The name of the file for the block."""
        found = re.match(r"# ([a-z_]+\.(?:py|toml))\n", self.body)
        return found.group(1) if found else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console block and their expected output."""
        parts = re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]
        return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(found["language"], found["body"], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))
