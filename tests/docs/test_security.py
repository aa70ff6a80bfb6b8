"""The pages about security: the checklist is that of the code, and the threat model names tests that exist."""

from __future__ import annotations

import re

import pytest

from docs.checklist import operations, page, routes
from features.operations.table import OPERATIONS
from retentive.server.handlers import ROUTES
from support.pages import ROOT

MODEL = (ROOT / "docs" / "threat-model.md").read_text("utf-8")


def test_the_checklist_is_that_of_the_code() -> None:
    """If this fails, run: make docs"""
    assert (ROOT / "docs" / "security-checklist.md").read_text("utf-8") == page()


def test_the_checklist_has_every_route_and_operation() -> None:
    """The operations are those for which the audit log has a case."""
    assert len(list(routes())) == len(ROUTES)
    listed = {f"Read {name}" if kind == "`Read`" else kind.strip("`") for kind, name, *_ in operations()}
    tested = {name.partition(",")[0] for name in OPERATIONS}
    assert {name if name.startswith("Read ") else name.partition(" ")[0] for name in tested} <= listed


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[^`]+)`", MODEL))))
def test_each_named_test_exists(name: str) -> None:
    found = ROOT / name
    assert found.is_file() or list(found.rglob("test_*.py"))


def test_every_threat_names_a_test() -> None:
    _, _, rows = MODEL.partition("| threat | what prevents it | test |")
    threats = [row for row in rows.partition("\n\n")[0].splitlines()[2:] if row.startswith("|")]
    assert len(threats) > 12
    assert [row for row in threats if "`tests/" not in row] == []
