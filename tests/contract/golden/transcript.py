"""Parser of transcripts.

A line that starts with `> ` is a command in JSON. `

` starts a line of its reply, and `! ` a line of an error reply. `@ name=value` sets a limit for the transcript. All
other lines are prose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "transcripts"


@dataclass
class Exchange:
    """Command, as a line of JSON, and the expected reply."""

    line: int
    raw: str
    reply: list[str] = field(default_factory=list)
    is_error: bool = False

    @property
    def command(self) -> object:
        return json.loads(self.raw)

    @property
    def text(self) -> str:
        """The reply."""
        return "\n".join(self.reply)


@dataclass
class Transcript:
    """Transcript that runs in a new memory store."""

    name: str
    limits: dict[str, Any]
    exchanges: list[Exchange]


def read(path: Path) -> Transcript:
    limits: dict[str, Any] = {}
    exchanges: list[Exchange] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        mark, content = line[:2], line[2:]
        if mark == "> ":
            exchanges.append(Exchange(number, content))
        elif mark == "@ ":
            name, _, value = content.partition("=")
            limits[name] = int(value)
        elif mark in {"| ", "! "}:
            exchanges[-1].reply.append(content)
            exchanges[-1].is_error = mark == "! "
        else:
            assert not line or line.startswith("#"), f"{path.name}:{number}: {line!r}"
    return Transcript(path.stem, limits, exchanges)


TRANSCRIPTS = [read(path) for path in sorted(DIRECTORY.glob("*.txt"))]
