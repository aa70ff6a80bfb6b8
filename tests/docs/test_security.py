"""The threat model names tests that exist."""

from __future__ import annotations

from support.pages import ROOT

MODEL = (ROOT / "docs" / "security.md").read_text("utf-8")


def test_every_threat_names_a_test() -> None:
    """That a named test exists is tested for all pages."""
    _, _, rows = MODEL.partition("| threat | what prevents it | test |")
    threats = [row for row in rows.partition("\n\n")[0].splitlines()[2:] if row.startswith("|")]
    assert len(threats) > 12
    assert [row for row in threats if "`tests/" not in row] == []
