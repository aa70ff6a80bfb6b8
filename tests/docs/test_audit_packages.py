"""`make check NAME=audit` fails for a vulnerability, and says so if it could not look for any."""

from __future__ import annotations

import json
from runpy import run_path

import pytest

from support.pages import ROOT

verdict = run_path(str(ROOT / "scripts" / "audit_packages.py"))["verdict"]
SOUND = {"name": "click", "version": "8.1", "vulns": []}
WRONG = {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
SKIPPED = {"name": "other", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "status", "text"),
    [
        ([SOUND, SKIPPED], 0, "1 of 2 packages were checked, 0 vulnerabilities"),
        ([SOUND, WRONG], 1, "old 1: PYSEC-1"),
        ([SKIPPED], 0, "NOT run"),
    ],
)
def test_the_verdict(packages: list[object], status: int, text: str) -> None:
    found = verdict(int(WRONG in packages), json.dumps({"dependencies": packages}), "")
    assert found[0] == status
    assert text in found[1]


@pytest.mark.parametrize(
    "error",
    ["ConnectionError: refused", "ReadTimeout: Read timed out.", "JSONDecodeError: Expecting value: line 1 column 1"],
)
def test_a_service_that_does_not_answer_is_forgiven_and_named(error: str) -> None:
    """The last one is the page of a proxy that answers instead of the service."""
    assert verdict(1, "", f"requests.exceptions.{error}") == (
        0, "pip-audit was NOT run: the service with the advisories cannot be reached or does not answer",
    )  # fmt: skip


def test_only_a_missing_service_is_forgiven() -> None:
    assert verdict(1, "", "TypeError: broken") == (1, "TypeError: broken")
    assert verdict(0, "", "nothing printed")[0] == 1
