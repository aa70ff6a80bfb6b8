"""Draws the diagrams of the documentation, in `docs/diagrams`: `python scripts/diagrams.py`.

A diagram is a column of steps. The same data give the same bytes.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "diagrams"
WIDTH, HEIGHT, GAP, MARGIN = 720, 52, 26, 16


class Step(NamedTuple):
    """One box: a name, and what happens there."""

    name: str
    text: str


BACKENDS = {
    "directory": [
        Step("one fair queue", "the caller at its head runs all waiting jobs in one transaction"),
        Step("SQLite commit", "versions, memories and texts are durable in .retentive"),
        Step("plain files", "the paths of the new versions are written under the lock of the directory"),
        Step("journal", "records the last version whose files were written"),
    ],
    "sqlite": [
        Step("one fair queue", "the caller at its head runs all waiting jobs in one transaction"),
        Step("flock", "processes take turns to write"),
        Step("SQLite commit", "WAL with synchronous=FULL; each text is stored once"),
    ],
    "server": [
        Step("a queue for each store", "the caller at its head runs all waiting jobs in one transaction"),
        Step("SELECT ... FOR UPDATE", "the row of the store is locked before anything is read"),
        Step("commit", "PostgreSQL or MariaDB; a lost commit is looked up, and never applied twice"),
    ],
    "objects": [
        Step("manifest", "a write starts from the cached manifest of the store"),
        Step("pack", "an immutable object with the texts of the commit"),
        Step("compare-and-swap", "replaces the manifest; the swap fails if the manifest is stale"),
        Step("compaction", "a commit after some 256 changes moves the log into the immutable pages"),
    ],
}
"""The way of a write through each backend. Source: docs/design.md."""


def svg(title: str, steps: list[Step]) -> str:
    """The diagram of some steps, readable on a light and on a dark page."""
    height = 2 * MARGIN + len(steps) * (HEIGHT + GAP) - GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
    ]
    middle, right = WIDTH // 2, WIDTH - 2 * MARGIN
    for number, step in enumerate(steps):
        y = MARGIN + number * (HEIGHT + GAP)
        if number:
            lines.append(f'<path d="M{middle} {y - GAP}V{y - 8}" stroke="#1f4e5f" stroke-width="2"/>')
            lines.append(f'<path d="M{middle - 6} {y - 9}h12l-6 9z" fill="#1f4e5f"/>')
        lines.append(
            f'<rect x="{MARGIN}" y="{y}" width="{right}" height="{HEIGHT}" rx="6" fill="#eaf3f6" stroke="#1f4e5f"/>'
        )
        lines.append(_line(y + 21, 15, "bold", step.name))
        lines.append(_line(y + 41, 14, "normal", step.text))
    return "\n".join([*lines, "</svg>", ""])


def _line(y: int, size: int, weight: str, text: str) -> str:
    where = f'x="{WIDTH // 2}" y="{y}" text-anchor="middle"'
    return f'<text {where} font-size="{size}" font-weight="{weight}" fill="#153742">{escape(text)}</text>'


def diagrams() -> dict[str, str]:
    """The text of each file in `docs/diagrams`."""
    return {f"{name}.svg": svg(f"A write in the backend: {name}", steps) for name, steps in BACKENDS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in diagrams().items():
        (FOLDER / name).write_text(text, "utf-8")
