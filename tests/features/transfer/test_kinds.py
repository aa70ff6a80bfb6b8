"""Exports and copies include all kinds of records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import retentive
from retentive.transfer.copies import RECORD_KINDS

ROOT = Path(retentive.__file__).parent
_CALL = re.compile(r"\.(put_record|get_record|records)\(\s*(?:\"([^\"]+)\"|([A-Z][A-Z_]*)\b)")


def test_every_kind_that_is_written_is_known() -> None:
    """A new kind must be added to `retentive/transfer/copies.py`, because backups would omit it otherwise."""
    found = set(written())
    assert {kind for _, kind in found} - set(RECORD_KINDS) == {
        "packed",  # a copy has loose texts
        "last_run",  # a copy was never backed up
    }
    assert ("get_record", "contributors") in found
    assert ("put_record", "accessed") in found


def written() -> Iterator[tuple[str, str]]:
    """Yield the method and the kind of all reads and writes of records whose kind is a constant."""
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT)
        if where.parts[0] not in {"storage", "testing", "transfer"}:
            for method, kind, name in _CALL.findall(path.read_text("utf-8")):
                module = ".".join(["retentive", *where.with_suffix("").parts])
                yield method, kind or str(getattr(import_module(module), name))
