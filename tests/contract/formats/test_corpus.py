"""What was written in each format opens, reads, verifies and goes on. So a change of a format brings its migration.

`RETENTIVE_PIN=1 RETENTIVE_PROFILE=long pytest tests/contract/formats -k changed` writes the files of the present
numbers: once for each number, since a file of the corpus never changes after the commit that brings its number. Newer
numbers are refused: `test_formats.py`, `test_servers.py` and `test_objects_rest.py`, `transfer/test_damage.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from retentive.doctor import check_location
from support.pages import ROOT

from .corpus import KINDS, LONG, NOTES, SERVERS, keys_in, made, opened, packed, shape, state, unpacked

CORPUS = Path(__file__).parent
KIND = [pytest.param(kind, marks=pytest.mark.long if kind in SERVERS else ()) for kind in KINDS]

CHANGED = [pytest.param(kind, marks=() if kind in {"sqlite", "export"} else pytest.mark.long) for kind in KINDS]


def files_of(kind: str) -> list[Path]:
    return sorted(CORPUS.glob(f"{kind}-[0-9]*.tar.xz"))


@pytest.mark.parametrize("name", KIND)
def test_every_format_opens_reads_verifies_and_goes_on(name: str, tmp_path: Path) -> None:
    kind, corpus = KINDS[name], files_of(name)
    assert corpus
    for number, path in enumerate(corpus, 1):
        files, expected = unpacked(path)
        assert kind.number(files) == number
        folder = tmp_path / str(number)
        folder.mkdir()
        place = kind.load(files, folder)
        with opened(place, folder) as location:
            assert state(location) == expected
            store = location.store().acting_as("user:ann")
            assert store.audit.verify().is_sound
            store.edit(NOTES, "back", "forth")
            store.undo(store.write(LONG, "shorter\n").version_id)
        with opened(place, folder) as location:
            assert location.store().read(NOTES) == "forth\n"
            texts = state(location)["default"]["texts"]
            assert texts.items() >= expected["default"]["texts"].items()
        assert {each.severity for each in check_location(place, keys=keys_in(folder))} <= {"ok"}


@pytest.mark.parametrize("name", CHANGED)
def test_a_format_that_changed_has_a_new_number(name: str, tmp_path: Path) -> None:
    """The newest file of the corpus has the shape that is written now: tables, fields, names of files."""
    kind, (files, expected) = KINDS[name], made(KINDS[name], tmp_path)
    if os.environ.get("RETENTIVE_PIN"):
        (CORPUS / f"{name}-{kind.number(files)}.tar.xz").write_bytes(packed(files, expected))
    newest, _ = unpacked(files_of(name)[-1])
    assert kind.number(files) == kind.number(newest)
    if name in SERVERS:  # another version of the server writes another dump
        (tmp_path / "then").mkdir()
        newest = kind.save(kind.load(newest, tmp_path / "then"), tmp_path)
    assert shape(files) == shape(newest)


def test_the_documentation_lists_the_numbers() -> None:
    text = (ROOT / "docs" / "platforms.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| ([\w ,]+) \| (\d+) \|", text, re.MULTILINE))
    names = {"sqlite": "SQLite", "directory": "directory", "sealed": "encryption of a store", "s3": "object storage",
             "postgresql": "PostgreSQL", "mariadb": "MariaDB", "backup": "export, backup"}  # fmt: skip
    assert {title: listed[title] for title in names.values()} == {
        title: str(len(files_of(name))) for name, title in names.items()
    }
