"""The road of writes: all writes take it, and each of its steps does its work."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from runpy import run_path

import pytest

import retentive

SOURCE = Path(retentive.__file__).parent
ROOT = Path(__file__).parents[3]
BELOW = ("storage/", "testing/")
"""The backends with their wrappers, and the shipped tests of backends."""
WRITERS = {
    "engine/write.py",
    "engine/core.py",  # bookkeeping: `follow_up`
    "engine/access_times.py",  # times of views
    "engine/audit.py",  # entries of reads, and of operations that failed in the storage
    "cli/location.py",  # an empty transaction, which takes over a directory of plain files
    "transfer/copies.py",
    "transfer/location_records.py",  # copies of complete stores, including their logs
    "store/location_records.py",
    "claude_agent.py",  # transcripts: records of a store without memories
}
_WRITE = re.compile(r"\b_?(?:backend|target)\.write\b")


@pytest.mark.parametrize("name", ["write", "read"])
def test_the_design_shows_the_road_whole(name: str) -> None:
    """The page of the site has the present text of both functions, each of at most 120 lines."""
    text = (SOURCE / "engine" / f"{name}.py").read_text("utf-8")
    (road,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    lines = text.splitlines()[road.lineno - 1 : road.end_lineno]
    assert len(lines) <= 120
    with_roads = run_path(str(ROOT / "scripts" / "documentation.py"))["with_roads"]
    page = with_roads((ROOT / "docs" / "design.md").read_text("utf-8"))
    assert "\n".join(["```py", *lines, "```"]) in page


def test_only_the_road_writes() -> None:
    """`Backend.write` is called only by the road and by the modules that copy complete stores."""
    files = {file.relative_to(SOURCE).as_posix(): file.read_text("utf-8") for file in SOURCE.rglob("*.py")}
    found = {name for name, text in files.items() if _WRITE.search(text) and not name.startswith(BELOW)}
    assert found == WRITERS
