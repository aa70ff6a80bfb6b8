"""The page about the scripted Claude names the test of each rule and describes every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retentive.testing import scripted_claude

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "testing-your-agent.md").read_text("utf-8")
_TEST = re.compile(r"`(tests/features/agent/test_\w+\.py)::(\w+)`")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without the table's header."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


RULES = [row for row in rows("Rules of the API") if not row[0].startswith("**")]


def test_there_are_rules() -> None:
    assert len(RULES) > 30


def test_each_rule_names_the_test_that_holds_it() -> None:
    assert RULES
    for rule in RULES:
        found = _TEST.fullmatch(rule[1])
        assert found is not None, rule
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text("utf-8"), rule


@pytest.mark.parametrize("name", ["StreamError", "Disconnect", "ErrorResponse", "Prompt", "Thinking"])
def test_the_names_of_the_page_are_exported(name: str) -> None:
    assert name in scripted_claude.__all__
    assert re.search(rf"\b{name}\b", PAGE)
