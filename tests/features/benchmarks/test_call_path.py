"""The call path of a command with warm caches: its files, functions and frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "call_path.py"


@pytest.mark.parametrize("limits", ["create=14,90,18", "view=12,45"])
def test_a_warm_command_stays_within_its_limits(limits: str) -> None:
    """If this fails, `benchmarks/call_path.py --list` shows the functions in order."""
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "--check", limits], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
