"""Modules of retentive and their imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import retentive

ROOT = Path(retentive.__file__).parent


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Return the names that a module imports at runtime, anywhere in its code."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in statements(ast.parse(path.read_text("utf-8")), running=True):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def statements(tree: ast.AST, *, running: bool = False) -> Iterator[ast.AST]:
    """Yield the statements below a node, with `running` without those for the type checker only.

    Nine of ten nodes are expressions, which contain neither imports nor functions.
    """
    todo = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if running and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                todo.append(node)
                yield node


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def operations(*kinds: str) -> set[str]:
    """Return the names of the commands that write, and those that the code passes to `Read` or `Write`."""
    commands = (ROOT / "values" / "commands.py").read_text("utf-8")
    found = {*re.findall(r'name: ClassVar\[str\] = "(\w+)"', commands)} - {"view"}
    for file in ROOT.rglob("*.py"):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "engine.operation import" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                names = {str(each.value) for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)}
                assert names or file.name == "handlers.py", f"an operation without a literal name in {file}"
                found |= names
    return found
