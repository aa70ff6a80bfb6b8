"""Every command rejects invalid keys of memory stores. Reading never creates a memory store."""

from __future__ import annotations

from pathlib import Path

import pytest

import retentive
from retentive import NotFound
from support.command_line import here

MISSING = "Error: there is no memory store 'default'; `retentive stores` lists the existing ones\n"
READING = [["ls"], ["view"], ["log"], ["search", "x"], ["export", "{}/x.tar"]]
READING += [["admin", "stats"], ["admin", "audit", "verify"]]


@pytest.mark.parametrize("kind", ["sqlite:///{}/memory.db", "{}/memory"])
def test_reading_does_not_recreate_an_erased_default_store(kind: str, tmp_path: Path) -> None:
    """A read reports that the store does not exist. A write creates it."""
    location = kind.format(tmp_path)
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
    for command in READING:
        done = here(location, *(part.format(tmp_path) for part in command))
        assert (done.exit_code, done.stderr) == (3, MISSING), command
    with retentive.open(location) as opened:
        assert opened.stores() == []
        with pytest.raises(NotFound):
            opened.erase("default")
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "ls").stdout == "1\t/memories/a\n"


def test_external_files_are_read(tmp_path: Path) -> None:
    """The files are read before the first command, and after the store was erased."""
    root = tmp_path / "memory"
    (root / "memories").mkdir(parents=True)
    (root / "memories" / "a").write_text("a")
    assert here(str(root), "ls").stdout == "1\t/memories/a\n"
    assert here(str(root), "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
    (root / "memories" / "b").write_text("bb")
    assert here(str(root), "ls").stdout == "2\t/memories/b\n"
