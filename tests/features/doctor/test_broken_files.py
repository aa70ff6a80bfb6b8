"""Plain files: foreign files and differences from the database are reported, and the check changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.damage import A, C, E, codes, fill, look, sql
from support.places import opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Closed directory location with a history."""
    with opened("directory", tmp_path) as place:
        fill(place.store())
    return tmp_path / "memory"


def subjects(root: Path, severity: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in look(str(root)):
        if one.severity == severity:
            found.setdefault(one.code, set()).add(one.subject)
    return found


def test_foreign_files_are_reported_and_ignored(root: Path) -> None:
    """Foreign files are links, devices, binary files, files with invalid names and files with a second name."""
    here = root / "memories"
    (here / "link").symlink_to("/etc/passwd")
    (here / "links").symlink_to("/")
    os.mkfifo(here / "pipe")
    (here / "binary").write_bytes(b"a\0b")
    (here / "latin").write_bytes(b"\xe9")
    (here / "a\\b").write_text("x")
    (here / "a.md~").write_text("an older text\n")
    (here / "d" / "tab\there").mkdir()
    (here / "d" / "tab\there" / "inner").write_text("x")
    (root / "elsewhere").write_text("text")
    os.link(root / "elsewhere", here / "second")
    Path(os.fsdecode(os.fsencode(here) + b"/\xff")).write_text("x")
    before = sorted(os.listdir(here))
    foreign = {
        "/memories/link (a link)",
        "/memories/links (a link)",
        "/memories/pipe (not a regular file)",
        "/memories/binary (binary)",
        "/memories/latin (binary)",
        "/memories/a\\b (an invalid name for a memory)",
        "/memories/d/tab\\u0009here (an invalid name for a memory)",
        "/memories/a.md~ (a temporary or backup file of an editor)",
        "/memories/second (a file with more than one hard link)",
        "/memories/\\udcff (an invalid name for a memory)",
    }
    assert subjects(root, "note") == {"file_foreign": foreign}
    assert codes(look(str(root), repair=True)) == set()
    assert sorted(os.listdir(here)) == before


def test_external_edits_are_reported_and_recorded_by_the_next_command(root: Path) -> None:
    """The edits are a modified, a removed and a new file. A repair records them, like every command."""
    (root / "memories" / "a.md").write_text("by hand")
    (root / "memories" / "c.md").unlink()
    (root / "memories" / "new.md").write_text("new")
    told = {"file_edited": {A, f"{C} (missing)"}, "file_new": {"/memories/new.md"}}
    assert subjects(root, "note") == told
    assert codes(look(str(root), repair=True), severity="repaired") == {"file_edited", "file_new"}
    assert {one.code for one in look(str(root))} == {"healthy"}
    assert (root / "memories" / "a.md").read_text() == "by hand"


def test_stale_files_are_found_and_rewritten(root: Path) -> None:
    """After a power cut, a file can be an older one, empty, missing or superfluous."""
    sql(str(root), "UPDATE synced SET seq = 0")
    (root / "memories" / "a.md").write_text("one\n")
    (root / "memories" / "c.md").write_text("")
    (root / "memories" / "d" / "e.md").unlink()
    (root / "memories" / "x.md").write_text("going\n")
    (root / ".retentive" / "journal").unlink()  # as one that names another boot
    assert subjects(root, "note") == {"file_edited": {A, C, f"{E} (missing)"}, "file_new": {"/memories/x.md"}}
    findings = look(str(root), repair=True)
    assert codes(findings, severity="repaired") == {"file_edited", "file_new"}
    assert codes(findings) == set()
    assert (root / "memories" / "a.md").read_text() == "two\n"
    assert not (root / "memories" / "x.md").exists()
