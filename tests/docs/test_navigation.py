"""Every page of docs is in the navigation of the documentation site."""

from __future__ import annotations

import re

from support.pages import ROOT


def test_the_navigation_has_every_page() -> None:
    """A new page of docs goes into `nav` of mkdocs.yml, in the section where a reader looks for it."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")
    named = re.findall(r"- (?:[^:\n]+: )?([\w-]+\.md)$", nav, re.MULTILINE)
    outside = {
        "benchmarks.md",
        "changelog.md",
        "contributing.md",
        "api.md",
        "http-api.md",
        "server-configuration.md",
    }  # scripts/documentation.py adds these
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages - set(named) == set(), "add these pages to `nav` in mkdocs.yml"
    assert set(named) - outside - pages == set(), "these pages of `nav` in mkdocs.yml do not exist"
    assert len(named) == len(set(named))
