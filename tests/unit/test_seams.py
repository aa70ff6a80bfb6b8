"""Two lists that only shrink: what tests import besides public names, and the imports inside functions of the package.

`RETENTIVE_PIN=1 pytest tests/unit/test_seams.py` deletes the entries that are gone. It never adds one.
If a module gets another name, its lines get it too.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.modules import ROOT, statements

TESTS = Path(__file__).parents[1]
PUBLIC = {"retentive", *(f"retentive.{name}" for name in ("agent", "claude_agent", "doctor", "errors", "__main__"))}
PUBLIC |= {"retentive.storage.contract", "retentive.values.records"}
OPEN = ("retentive.integrations.", "retentive.testing.", "retentive.wire.")
OUTSIDE = {
    "anthropic", "boto3", "botocore", "claude_agent_sdk", "cryptography", "google", "grpc", "mariadb", "mcp", "obstore",
    "opentelemetry", "psycopg", "pymysql", "re2", "uvicorn",
}  # fmt: skip
"""Drivers, cryptography and SDKs, which a function may import."""


def modules_in(tree: ast.AST) -> set[str]:
    """Names of the modules that the code imports. Relative imports are left out."""
    found = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {module_of(f"{node.module}.{alias.name}") for alias in node.names}
    return found


@cache
def module_of(name: str) -> str:
    """The module of an imported name, which is a module itself or an attribute of one."""
    path = ROOT.joinpath(*name.split(".")[1:])
    is_module = name.startswith("retentive.") and (path.with_suffix(".py").is_file() or path.is_dir())
    return name if is_module else name.rpartition(".")[0]


def deep_imports() -> Iterator[str]:
    """Yield each module that a test file imports and that is not public."""
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text("utf-8")
        found = modules_in(ast.parse(text)) if "retentive" in text else set()
        modules = {name for name in found if name.startswith("retentive.")}
        deep = {name for name in modules if name not in PUBLIC and not name.startswith(OPEN)}
        yield from (f"{file.relative_to(TESTS).as_posix()} {name}" for name in sorted(deep))


def inner_imports() -> Iterator[str]:
    """Yield each module that a function of the package imports, unless it is a driver, cryptography or an SDK."""
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text("utf-8")
        nodes = statements(ast.parse(text)) if re.search(r"^\s+(from|import) ", text, re.MULTILINE) else ()
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {name for function in functions for name in modules_in(function)}
        found = {name for name in inside if name.partition(".")[0] not in OUTSIDE}
        yield from (f"{file.relative_to(ROOT).as_posix()} {name}" for name in sorted(found))


def compare(name: str, found: list[str]) -> None:
    file = Path(__file__).with_name(name)
    listed = file.read_text("utf-8").splitlines()
    if os.environ.get("RETENTIVE_PIN"):
        listed = [line for line in listed if line in set(found)]
        file.write_text("".join(f"{line}\n" for line in listed), "utf-8")
    assert [line for line in found if line not in set(listed)] == [], f"new: {name} must not grow"
    assert [line for line in listed if line not in set(found)] == [], f"gone: delete these lines of {name}"


def test_tests_import_no_further_deep_modules() -> None:
    compare("deep_imports.txt", list(deep_imports()))


def test_no_further_imports_inside_functions() -> None:
    compare("inner_imports.txt", list(inner_imports()))
