"""Each public class and type of the package has a name of its own."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import retentive

TWICE = {
    "Command": "the one of the command line extends that of click",
    "Conflict": "the one of the history is an obstacle of a restore or undo",
    "Finding": "one of the doctor, one of `scan`",
    "Operation": "the one of a version is what it did to its memory",
    "Plan": "one of an operation, one of a restore",
    "Reader": "the one of the doctor reads a record",
    "Row": "one of a query, one of a table on a terminal",
    "Scanned": "one of `scan`, one of an examined text",
    "Section": "one of an archive, one of `stats`",
    "State": "one of a memory store, one of a memory in a restore",
    "View": "the one of redaction is a form of a text",
    "Write": "a command, and an operation that may change a store",
}
"""Names with two meanings. Remove a name from this table when one of the two is renamed; add none."""


def test_each_public_type_has_a_name_of_its_own() -> None:
    counts = Counter(_names())
    assert {name for name, count in counts.items() if count > 1} <= TWICE.keys()
    assert {name for name in TWICE if counts[name] > 2} == set()


def _names() -> Iterator[str]:
    """Yield the names of public classes and type aliases, once for each definition."""
    for file in Path(retentive.__file__).parent.rglob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                yield ast.unparse(node.target)
