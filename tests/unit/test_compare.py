"""Diffs, blame and merges by examples; `tests/unit/test_compare_laws.py` tests their properties."""

from __future__ import annotations

import pytest

from retentive.errors import InvalidInput
from retentive.values.diff import MergePart, as_text, blame, merge, merge_parts, unified


def diff(old: str, new: str) -> str:
    return as_text(unified(old, new, old_name="a", new_name="b"))


def marked(old: str, new: str) -> list[tuple[str, list[str]]]:
    rows = unified(old, new, old_name="a", new_name="b")
    return [
        (row.row, [row.text[slice(*span)] for span in row.marks]) for row in rows if row.kind in {"removed", "added"}
    ]


def test_a_unified_diff_has_hunks_with_three_lines_around() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("2\n3\n", "2\nthree\n", 1).replace("20\n", "20\n21\n")
    assert diff(old, new) == (
        "--- a\n+++ b\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("timeout: 30 seconds", "timeout: 45 seconds", [["30"], ["45"]]),
        ("the quick brown fox jumps", "the slow red fox jumps", [["quick brown"], ["slow red"]]),
        ("a b c d", "a b c d e", [[], ["e"]]),
        ("会议在星期二举行", "会议在星期五举行", [["二"], ["五"]]),
        ("caf\u0301e du coin la", "cafe du coin la", [["caf\u0301e"], ["cafe"]]),
        ("nothing is the same", "all words differ here", [[], []]),
        ("x  y z", "x y z", [[], []]),
        ("一二三四五六七八", "九十百千万亿兆京", [[], []]),
        ("สวัสดีตอนเช้า", "สวัสดีตอนเย็น", [["ช้า"], ["ย็น"]]),
    ],
)
def test_words_that_differ_are_marked(old: str, new: str, expected: list[list[str]]) -> None:
    """In scripts without spaces, single characters are marked. If most of a line differs, nothing is marked."""
    assert marked(old, new) == [("-" + old, expected[0]), ("+" + new, expected[1])]


@pytest.mark.parametrize("name", ["", "a\nb", "a\tb", "a\x7f"])
def test_a_name_that_would_break_the_header_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="or contain control characters"):
        unified("a", "b", old_name="a", new_name=name)


def test_blame_names_the_version_that_added_a_line() -> None:
    texts = [(1, "a\nb\n"), (2, "a\nnew\nb\n"), (3, "a\nnew\nB\n"), (4, "top\na\nnew\nB\nend")]
    assert blame(texts) == [4, 1, 2, 3, 4]


BASE = "a\nb\nc\nd\ne\n"


def test_different_changes_of_a_line_conflict() -> None:
    """A conflict has the texts of both sides and its first line on ours. Other changes are not part of it."""
    assert merge(BASE, "0\na\nb\nC\nd\ne\n", "a\nb\nc1\nc2\nd\n") is None
    parts = merge_parts(BASE, "0\na\nb\nC\nd\ne\n", "a\nb\nc1\nc2\nd\n")
    assert [part for part in parts if part.line is not None] == [MergePart("C\n", "c1\nc2\n", 3)]
