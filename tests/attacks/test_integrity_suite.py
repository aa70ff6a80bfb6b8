"""The nine at-rest edits of the package agent-memory-integrity are all reported, given an anchor."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import REQUIRED

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "integrity.py"
NAMES = ["tamper", "truncate", "delete_middle", "reorder", "forge", "cross_replay", "rollback_replay",
         "metadata_tamper", "snapshot_rollback"]  # fmt: skip
ROW = re.compile(r"^T(\d) +(\S+) +(\S+) +(.*)$", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    if importlib.util.find_spec("agmi") is None:
        assert not REQUIRED, "agent-memory-integrity is not installed"
        pytest.skip("agent-memory-integrity is not installed")


def rows(*arguments: str, status: int) -> list[tuple[str, str, str, str]]:
    """Number, name, verdict and answer of each edit."""
    command = [sys.executable, str(SCRIPT), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ROW.findall(ended.stdout)


def test_all_nine_edits_are_reported_with_an_anchor() -> None:
    """Each finding is the one that docs/security.md shows."""
    found = rows(status=0)
    assert [(number, name) for number, name, _, _ in found] == [(str(n), name) for n, name in enumerate(NAMES, 1)]
    assert {verdict for _, _, verdict, _ in found} == {"reported"}
    documented = re.findall(r"^\| T(\d) .*\| `([^`]+)` \|$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
    assert len(documented) == len(NAMES)
    for (number, _, _, answer), (documented_number, reason) in zip(found, documented, strict=True):
        assert number == documented_number
        assert reason in re.sub(r"memver_[0-9a-f]{32}", "memver_...", answer), answer


@pytest.mark.long
def test_the_log_alone_reports_none() -> None:
    """The log has no digests of texts, so an attacker who changes texts with their hashes does not contradict it."""
    assert {verdict for _, _, verdict, _ in rows("--without-anchor", status=1)} == {"accepted"}
