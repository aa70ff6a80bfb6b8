"""Chart of a run: one panel for each workload, one bar for each system, on a logarithmic scale."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from figures import rate

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = dict[str, object]

WIDTH, NAME, BAR, ROW, HEAD = 900, 190, 150, 18, 34
GAP = 20
OURS, THEIRS, VOID, INK = "#1f6f8b", "#9aa5ad", "#b3261e", "#24292f"
PER_ROW = 2


def chart(records: Sequence[Record], titles: dict[str, str], caption: str) -> str:
    """The chart as SVG. A void figure has no bar, but the word."""
    letters = [letter for letter in titles if any(each["workload"] == letter for each in records)]
    panels = {letter: [each for each in records if each["workload"] == letter] for letter in letters}
    tall = HEAD + ROW * max(map(len, panels.values())) + GAP
    height = tall * math.ceil(len(letters) / PER_ROW) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(GAP, 20, caption, INK),
    ]
    for at, letter in enumerate(letters):
        left = GAP + (at % PER_ROW) * (WIDTH // PER_ROW)
        parts += _panel(titles[letter], panels[letter], left, 30 + tall * (at // PER_ROW))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, records: Sequence[Record], left: int, top: int) -> list[str]:
    parts = [_text(left, top + 20, title, INK, weight="bold")]
    highest = max((_rate(each) for each in records), default=1.0)
    for at, each in enumerate(records):
        y = top + HEAD + at * ROW
        name = str(each["system"])
        parts.append(_text(left, y + 11, name, INK))
        if not each["is_valid"]:
            parts.append(_text(left + NAME, y + 11, str(each["validity"]).partition(":")[0].lower(), VOID))
            continue
        width = max(2.0, BAR * math.log10(1 + _rate(each)) / math.log10(1 + highest))
        color = OURS if name.startswith("retentive") else THEIRS
        parts.append(f'<rect x="{left + NAME}" y="{y + 1}" width="{width:.1f}" height="{ROW - 5}" fill="{color}"/>')
        parts.append(_text(left + NAME + width + 6, y + 11, f"{rate(_rate(each))}/s", INK))
    return parts


def _rate(record: Record) -> float:
    found = record.get("per_second", 0.0)
    assert isinstance(found, float | int)
    return float(found) if record["is_valid"] else 0.0


def _text(x: float, y: int, words: str, color: str, *, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{color}" font-weight="{weight}">{escape(words)}</text>'
