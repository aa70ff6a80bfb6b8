"""Paths of one change that a file system would join are found, however they are spelled."""

from __future__ import annotations

import pytest

from retentive.storage.files.folding import Spellings

TEA = "/memories/Tea.md"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (TEA, False),
        ("/memories/tea.md", True),
        ("/memories/cups/a.md", True),
        ("/memories/Cups/RED.MD", True),
        ("/memories/Cups/b.md", False),
        ("/memories/cafe\u0301.md", True),
        ("/memories/Tea.md.old", False),
        ("/MEMORIES/other.md", False),
    ],
)
def test_a_path_clashes_with_another_spelling_of_a_name(path: str, *, expected: bool) -> None:
    spellings = Spellings()
    for each in (TEA, "/memories/Cups/red.md", "/memories/caf\u00e9.md"):
        spellings.add(each)
    assert spellings.clashes(path) is expected


def test_a_path_that_was_renamed_may_have_another_spelling() -> None:
    spellings = Spellings()
    spellings.add(TEA)
    spellings.remove(TEA)
    assert not spellings.clashes(TEA.lower())
