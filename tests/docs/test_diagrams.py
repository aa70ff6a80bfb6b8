"""The diagrams of the documentation are those that the script draws today."""

from __future__ import annotations

from runpy import run_path
from typing import Any

from support.pages import ROOT

FOLDER = ROOT / "docs" / "diagrams"
SCRIPT = ROOT / "scripts" / "diagrams.py"


def test_the_diagrams_are_current() -> None:
    """If this fails, run: python scripts/diagrams.py"""
    script: dict[str, Any] = run_path(str(SCRIPT))
    assert {file.name: file.read_text("utf-8") for file in FOLDER.iterdir()} == script["diagrams"]()


def test_each_diagram_is_on_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [file.name for file in FOLDER.iterdir() if f"](diagrams/{file.name})" not in pages] == []
