"""Modules of `retentive.storage` import only from lower layers, and each folder exports its backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.modules import ROOT, imported

# A module may not import from a higher layer or from another module on its own line.
WALLS = [
    {"backoff", "capabilities", "contract", "disk", "findings", "forking", "lock_file", "lookup"}
    | {"overlay", "packs", "paging", "queue"},
    {"sql"},
    {"sqlite", "server"},
    {"files", "objects"},
    {"sealed"},
]
STORAGE = ROOT / "storage"
MODULES = [path for path in sorted(STORAGE.rglob("*.py")) if path != STORAGE / "__init__.py"]


def height(part: str) -> int:
    """Return the layer of a module or folder of `storage`. A new module must be added to `WALLS`."""
    return next(level for level, parts in enumerate(WALLS) if part in parts)


def upwards(path: Path) -> Iterator[str]:
    """Yield the imports of a module that do not go to a lower layer of `storage`."""
    own = path.relative_to(STORAGE).with_suffix("").parts[0]
    for name in imported(path):
        parts = name.split(".")
        if parts[:2] != ["retentive", "storage"] or len(parts) == 2:
            continue
        if parts[2] != own and height(parts[2]) >= height(own) and not height(own) == height(parts[2]) == 0:
            yield f"{path.relative_to(STORAGE)} imports {name}"


def test_storage_imports_downwards_only() -> None:
    assert [problem for path in MODULES for problem in upwards(path)] == []
