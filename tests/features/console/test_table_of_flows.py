"""The table of flows in README.md names tests that exist, and all flows."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
NAMED = re.findall(r"`(test_\w+\.py)::(\w+)`", (HERE / "README.md").read_text("utf-8"))


def test_each_named_test_exists() -> None:
    assert len(NAMED) > 25
    assert [name for file, name in NAMED if f"def {name}(" not in (HERE / file).read_text("utf-8")] == []


def test_each_flow_is_named() -> None:
    text = (HERE / "test_flows_browser.py").read_text("utf-8")
    flows = set(re.findall(r"^def (\w+)\(visitor: Visitor\)", text, re.MULTILINE))
    assert len(flows) >= 8
    assert flows <= {name for file, name in NAMED if file == "test_flows_browser.py"}
