"""Reads transcripts: `> ` a command in JSON, then the lines of its reply, `| ` before each or `! ` in an error.

`@ name=value` sets a limit for the whole transcript. Everything else is prose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(__file__).parent / "transcripts"
HEADERS = {
    "fr": (
        (
            "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:",
            (
                "Voici les fichiers et répertoires jusqu'à 2 niveaux de profondeur dans {}, "
                "excluant les éléments cachés et node_modules:"
            ),
        ),
        ("Here's the content of {} with line numbers:", "Voici le contenu de {} avec les numéros de ligne:"),
    )
}


@dataclass
class Exchange:
    """A command, raw as a line of JSON, and its reply."""

    line: int
    raw: str
    reply: list[str] = field(default_factory=list)
    is_error: bool = False

    @property
    def command(self) -> object:
        return json.loads(self.raw)

    def text(self, language: str = "en") -> str:
        """The reply; in another language the header of a view is another."""
        first, *rest = self.reply
        for english, other in HEADERS.get(language, ()):
            start, end = english.split("{}")
            if first.startswith(start) and first.endswith(end):
                first = other.format(first[len(start) : len(first) - len(end)])
        return "\n".join([first, *rest])


@dataclass
class Transcript:
    """One story, told in a new memory store."""

    name: str
    limits: dict[str, int]
    exchanges: list[Exchange]


def read(path: Path) -> Transcript:
    limits: dict[str, int] = {}
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
