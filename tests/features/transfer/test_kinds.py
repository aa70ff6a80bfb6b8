"""Exports and copies include all kinds of records."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import retentive
from retentive.transfer.copies import RECORD_KINDS

ROOT = Path(retentive.__file__).parent
ARGUMENT = {"put_record": 0, "get_record": 0, "records": 0}  # position of the kind


def test_every_kind_that_is_written_is_known() -> None:
    """A new kind must be added to `retentive/transfer/copies.py`, because backups would omit it otherwise."""
    found = set(written())
    assert {kind for _, kind in found} - set(RECORD_KINDS) == set()
    assert ("get_record", "contributors") in found
    assert ("put_record", "accessed") in found


def written() -> Iterator[tuple[str, str]]:
    """Yield the method and the kind of all reads and writes of records whose kind is a constant."""
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT)
        if where.parts[0] in {"storage", "testing", "transfer"}:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ARGUMENT:
                if len(node.args) <= ARGUMENT[node.func.attr]:
                    continue
                kind = node.args[ARGUMENT[node.func.attr]]
                if isinstance(kind, ast.Constant):
                    yield node.func.attr, str(kind.value)
                elif isinstance(kind, ast.Name) and kind.id.isupper():
                    module = import_module(".".join(["retentive", *where.with_suffix("").parts]))
                    yield node.func.attr, str(getattr(module, kind.id))
