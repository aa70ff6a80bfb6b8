"""Colours, sizes and styles of the pages."""

from __future__ import annotations

import gzip
import re
from itertools import product
from pathlib import Path

import pytest

from retentive import MemoryStore
from retentive.console.rendering import static_file
from support.console import Person, pages_of

CSS = static_file("console.css").decode()
TOKENS = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", CSS)
COLOURS = [{name: pair[at] for name, *pair in TOKENS} for at in (0, 1)]
ON = {
    "ink": ["page", "card", "well", "soft", "past-bg", "add", "add-b", "del", "del-b", "mark"],
    "dim": ["page", "card", "well", "soft"],
    "accent": ["page", "card", "well", "soft"],
    "good": ["card", "add"],
    "bad": ["card", "del"],
    "past": ["card", "past-bg"],
    "on": ["accent", "bad"],
}
"""Colours of text, and the backgrounds on which the pages use them."""


def luminance(colour: str) -> float:
    """Relative luminance of a colour. Source: WCAG 2.2."""
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("scheme", "text"), [*product((0, 1), ON)], ids=str)
def test_text_can_be_read_on_each_background(scheme: int, text: str) -> None:
    colours = COLOURS[scheme]
    found = {ground: round(contrast(colours[text], colours[ground]), 2) for ground in ON[text]}
    assert {ground: each for ground, each in found.items() if each < 4.5} == {}


def test_no_page_has_inline_styles_and_all_are_small(person: Person, store: MemoryStore) -> None:
    version = store.versions("/memories/notes/a.md")[0]
    ids = {"path": "notes/a.md", "memory_id": version.memory_id, "version_id": version.id, "revision": "r2"}
    others = {
        "key": "x",
        "pair": f"{version.id}..{version.id}",
        "actor": "session:s1",
        "proposal_id": "x",
        "group": "x",
    }
    for url in pages_of(store.id, **ids, **others):
        if not url.endswith(("/export", "/backup", "/download", "/news")):
            page = person.get(url)
            assert not re.search(r"\sstyle=|<style|\son\w+=", page.body), url
            assert len(gzip.compress(page.body.encode())) < 100_000, url


CONSOLE = Path(__file__).resolve().parents[3] / "src/retentive/console"


def test_templates_have_no_style_and_no_handler_and_can_be_read() -> None:
    for each in (CONSOLE / "templates").glob("*.html"):
        text = each.read_text("utf-8")
        assert not re.search(r"\sstyle=|<style|\son\w+=", text), each.name
        assert [line for line in text.splitlines() if len(line) > 120] == [], each.name
