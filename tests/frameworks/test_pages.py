"""The examples for frameworks with an environment of their own run unchanged and print the expected output."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from support.pages import ROOT, blocks
from support.printed import assert_prints


@pytest.mark.parametrize("name", ["adk_example.py", "strands_example.py"])
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    ((program, printed),) = [
        pair for pair in pairwise(blocks(ROOT / "docs" / "frameworks.md")) if pair[0].file_name == name
    ]
    (tmp_path / name).write_text(program.body, "utf-8")
    assert_prints(f"{sys.executable} {name}", printed.body, tmp_path, "", name)
