"""The picture of the overview shows what the commands print today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT

PICTURE = ROOT / "docs" / "terminal.svg"


def check(picture: Path) -> int:
    """Run the commands of the picture and compare their output with it."""
    script = ROOT / "benchmarks" / "terminal_picture.py"
    return subprocess.run([sys.executable, script, "--check", picture], capture_output=True, check=False).returncode


@pytest.mark.long
def test_the_picture_is_current() -> None:
    """If this fails, run: python benchmarks/terminal_picture.py"""
    assert check(PICTURE) == 0


@pytest.mark.long
def test_another_command_or_output_is_detected(tmp_path: Path) -> None:
    for old, new in (("log<", "log\u00a0-n\u00a01<"), ("within\u00a030", "within\u00a031")):
        changed = PICTURE.read_text("utf-8").replace(old, new, 1)
        assert changed != PICTURE.read_text("utf-8")
        (tmp_path / "changed.svg").write_text(changed, "utf-8")
        assert check(tmp_path / "changed.svg") == 1


def test_the_overview_shows_the_picture() -> None:
    assert f"]({PICTURE.name})" in (ROOT / "docs" / "index.md").read_text("utf-8")
