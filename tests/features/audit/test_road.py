"""The road of writes: all writes take it, and each of its steps does its work."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import retentive

SOURCE = Path(retentive.__file__).parent
BELOW = ("storage", "testing")
"""The backends with their wrappers, and the shipped tests of backends."""
WRITERS = {
    "engine/write.py",
    "engine/core.py",  # bookkeeping: `follow_up`
    "engine/access_times.py",  # times of views
    "engine/audit.py",  # entries of reads, and of operations that failed in the storage
    "cli/location.py",  # an empty transaction, which takes over a directory of plain files
    "transfer/copies.py",  # copies of complete stores, including their logs
    "store/location_records.py",
    "claude_agent.py",  # transcripts: records of a store without memories
}
A = "/memories/a.md"


@pytest.mark.parametrize("name", ["write", "read"])
def test_the_design_shows_the_road_whole(name: str) -> None:
    """docs/design.md has the present text of both functions, each of at most 120 lines."""
    text = (SOURCE / "engine" / f"{name}.py").read_text("utf-8")
    (road,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    lines = text.splitlines()[road.lineno - 1 : road.end_lineno]
    assert len(lines) <= 120
    design = (Path(__file__).parents[3] / "docs" / "design.md").read_text("utf-8")
    assert "\n".join([f"<!-- road: {name} -->", "```py", *lines, "```"]) in design


def called(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]


def is_backend_write(call: ast.Call) -> bool:
    """Return whether a call is `backend.write(store_id, work)`. A write to a file has one argument."""
    assert isinstance(call.func, ast.Attribute)
    names = {keyword.arg for keyword in call.keywords}
    if ast.unparse(call.func.value) == "os":
        return False
    if "if_version" in names or ast.unparse(call.func.value).endswith("store"):  # `MemoryStore.write`
        return False
    return call.func.attr == "write" and (len(call.args) == 2 or bool(names & {"work", "may_use_reserve"}))


def test_only_the_road_writes() -> None:
    """`Backend.write` is called only by the road and by the modules that copy complete stores."""
    found = set[str]()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).as_posix()
        text = file.read_text("utf-8")
        if ".write" in text and not name.startswith(tuple(f"{each}/" for each in BELOW)):
            tree = ast.parse(text)
            mentions = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "write"]
            calls = [call for call in called(tree) if is_backend_write(call)]
            passed = {id(call.func) for call in called(tree)}
            taken = [node for node in mentions if id(node) not in passed]  # passed to other code that may call it
            if calls or any(ast.unparse(node.value).endswith("backend") for node in taken):
                found.add(name)
    assert found == WRITERS
