"""Diffs, blame and merges by examples; `tests/unit/test_compare_laws.py` tests their properties."""

from __future__ import annotations

import pytest

from retentive.errors import InvalidInput
from retentive.values import diff as compare
from retentive.values.diff import DiffLine, LineChange, MergeConflict, Merged, as_text, blame, merge, unified


def line_changes(old: str, new: str) -> list[LineChange]:
    return compare._changes(compare.lines(old), compare.lines(new))


def diff(old: str, new: str, *, context: int = 3) -> str:
    return as_text(unified(old, new, old_name="a", new_name="b", context=context))


def marked(old: str, new: str) -> list[tuple[str, list[str]]]:
    rows = unified(old, new, old_name="a", new_name="b")
    return [
        (row.row, [row.text[slice(*span)] for span in row.marks]) for row in rows if row.kind in {"removed", "added"}
    ]


def test_a_change_names_its_lines_on_both_sides() -> None:
    changes = line_changes("a\nb\nc\nd\n", "a\nB\nc\nd\ne")
    assert changes == [LineChange(1, 1, ("b\n",), ("B\n",)), LineChange(4, 4, (), ("e",))]
    assert [(change.old_end, change.new_end) for change in changes] == [(2, 2), (4, 5)]


def test_lines_end_at_newlines_and_nowhere_else() -> None:
    """`\r`, form feed and U+2028 do not end a line, so the text is a single line, which differs as a whole."""
    assert line_changes("a\r\x0c\u2028\x85b", "a\r\x0c\u2028\x85c") == [
        LineChange(0, 0, ("a\r\x0c\u2028\x85b",), ("a\r\x0c\u2028\x85c",))
    ]


def test_a_line_without_its_newline_is_a_different_line() -> None:
    assert line_changes("a\n", "a") == [LineChange(0, 0, ("a\n",), ("a",))]


@pytest.mark.parametrize("text", ["", "a", "a\n", "\n\n"])
def test_equal_texts_have_no_changes(text: str) -> None:
    assert (line_changes(text, text), unified(text, text, old_name="a", new_name="b")) == ([], [])


def test_an_ambiguous_change_is_placed_last() -> None:
    """An added function includes its own last line rather than the last line of the function before it."""
    old = "def a\n  x\nend\n\ndef b\n  y\nend\n"
    new = "def a\n  x\nend\n\ndef n\n  z\nend\n\ndef b\n  y\nend\n"
    assert line_changes(old, new) == [LineChange(4, 4, (), ("def n\n", "  z\n", "end\n", "\n"))]


def test_the_last_position_may_be_the_end_of_the_text() -> None:
    assert line_changes("b\na\nb\nb\n", "a\nb\n") == [
        LineChange(0, 0, ("b\n",), ()),
        LineChange(3, 2, ("b\n",), ()),
    ]


def test_changes_that_meet_become_one() -> None:
    assert line_changes("x\nx\n", "x\nx\nx\nx\n") == [LineChange(2, 2, (), ("x\n", "x\n"))]


def test_a_very_large_text_is_compared_by_its_unique_lines() -> None:
    """The text has too many lines for an exact comparison. The changes between lines that occur once are found."""
    old = [f"{number}\n" for number in range(10_000)] + ["x\n"] * 10_000
    new = ["x\n", *old[:4_000], "new\n", *old[4_000:9_000], *old[9_001:], "0\n"]
    assert line_changes("".join(old), "".join(new)) == [
        LineChange(0, 0, (), ("x\n",)),
        LineChange(4_000, 4_001, (), ("new\n",)),
        LineChange(9_000, 9_002, ("9000\n",), ()),
        LineChange(20_000, 20_001, (), ("0\n",)),
    ]


def test_a_unified_diff_has_hunks_with_three_lines_around() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("2\n3\n", "2\nthree\n", 1).replace("20\n", "20\n21\n")
    assert diff(old, new) == (
        "--- a\n+++ b\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n"
    )


def test_hunks_whose_context_meets_are_one() -> None:
    old = "".join(f"{number}\n" for number in range(1, 9))
    assert diff(old, old.replace("1\n", "").replace("8\n", ""), context=3) == (
        "--- a\n+++ b\n@@ -1,8 +1,6 @@\n-1\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n"
    )
    assert diff(old, old.replace("1\n", "").replace("8\n", ""), context=2).count("@@ -") == 2
    assert diff(old + "9\n", old.replace("1\n", "")).count("@@ -") == 2


def test_ranges_of_one_line_and_empty_ranges() -> None:
    assert diff("", "a\n").splitlines()[2] == "@@ -0,0 +1 @@"
    assert diff("a\nb\n", "").splitlines()[2] == "@@ -1,2 +0,0 @@"
    assert diff("a\nb\nc\n", "a\nc\n", context=0).splitlines()[2] == "@@ -2 +1,0 @@"
    assert diff("a\nc\n", "a\nb\nc\n", context=0).splitlines()[2] == "@@ -1,0 +2 @@"


def test_a_missing_final_newline_is_shown_on_its_side() -> None:
    note = "\\ No newline at end of file\n"
    assert diff("a\nb", "a\nb\n") == f"--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-b\n{note}+b\n"
    assert diff("a\nb", "A\nb") == f"--- a\n+++ b\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n{note}"


def test_rows_say_whether_their_lines_end_with_a_newline() -> None:
    rows = unified("x\na\nb\n", "x\nB\nb\nc", old_name="a", new_name="b")
    kinds = [("context", True), ("removed", True), ("added", True), ("context", True), ("added", False)]
    assert [(row.kind, row.newline) for row in rows[3:]] == kinds
    assert rows[:2] == [DiffLine("header", "--- a"), DiffLine("header", "+++ b")]


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


def test_a_line_that_became_two_marks_the_new_words() -> None:
    assert marked("a b c d", "a b\nc newer d") == [("-a b c d", []), ("+a b", []), ("+c newer d", ["newer"])]


def test_a_very_long_change_is_shown_without_marks() -> None:
    assert marked("a " * 5_000 + "b", "a " * 5_000 + "c")[0][1] == []
    assert marked("a " * 4_999 + "b", "a " * 4_999 + "c")[0][1] == ["b"]


@pytest.mark.parametrize("name", ["", "a\nb", "a\tb", "a\x7f"])
def test_a_name_that_would_break_the_header_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="or contain control characters"):
        unified("a", "b", old_name="a", new_name=name)


def test_negative_context_is_refused() -> None:
    with pytest.raises(InvalidInput, match="integer of at least 0"):
        unified("a", "b", old_name="a", new_name="b", context=-1)


def test_blame_names_the_version_that_added_a_line() -> None:
    texts = [(1, "a\nb\n"), (2, "a\nnew\nb\n"), (3, "a\nnew\nB\n"), (4, "top\na\nnew\nB\nend")]
    assert blame(texts) == [4, 1, 2, 3, 4]


def test_a_line_removed_and_added_again_belongs_to_the_later_version() -> None:
    assert blame([(1, "a\nb\n"), (2, "a\n"), (3, "a\nb\n")]) == [1, 3]
    assert blame([(1, "a\n"), (2, ""), (3, "a\n")]) == [3]


def test_blame_of_nothing_is_nothing() -> None:
    assert (blame([]), blame([(1, "")]), blame([(1, "a\n"), (2, "")])) == ([], [], [])


BASE = "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE", "A\nb\nc\nd\nE"),
        ("a\nc\nd\ne\n", "a\nb\nc\nd\ne\nf\n", "a\nc\nd\ne\nf\n"),
        ("a\nX\nc\nd\ne\n", "a\nX\nc\nd\nE\n", "a\nX\nc\nd\nE\n"),
        ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\ne\nf\n"),
        ("", "", ""),
        ("0\na\nb\nc\nd\ne\n", "a\nb\nd\ne\n9", "0\na\nb\nd\ne\n9"),
    ],
)
def test_changes_of_both_sides_are_merged_and_equal_ones_applied_once(ours: str, theirs: str, merged: str) -> None:
    assert merge(BASE, ours, theirs) == Merged(merged)
    assert merge(BASE, theirs, ours) == Merged(merged)


def test_different_changes_of_a_line_conflict() -> None:
    """A conflict contains the line numbers and the texts of all three versions.

    Changes without a conflict are not listed.
    """
    assert merge(BASE, "0\na\nb\nC\nd\ne\n", "a\nb\nc1\nc2\nd\n") == Merged(
        None, (MergeConflict((2, 3), (3, 4), (2, 4)),)
    )


def test_adjacent_changes_conflict() -> None:
    """Adjacent changes often depend on each other, so they conflict, as in git."""
    assert merge(BASE, "a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n").conflicts == (MergeConflict((1, 3), (1, 3), (1, 3)),)
    assert merge(BASE, BASE + "x\n", BASE + "y\n").conflicts == (MergeConflict((5, 5), (5, 6), (5, 6)),)


def test_a_newline_lost_by_one_side_and_a_line_added_by_the_other_conflict() -> None:
    assert merge("a\n", "a", "a\nb\n").conflicts == (MergeConflict((0, 1), (0, 1), (0, 2)),)


def test_each_conflict_is_named_in_order() -> None:
    spans = [conflict.base for conflict in merge(BASE, "1\nb\nc\nd\n5\n", "6\nb\nc\nd\n7\n").conflicts]
    assert spans == [(0, 1), (4, 5)]


def test_a_change_around_two_of_the_other_side_is_one_conflict() -> None:
    ours, theirs = "1\n2\n3\n4\n5\n", "a\nB\nc\nD\ne\n"
    assert merge(BASE, ours, theirs).conflicts == (MergeConflict((0, 5), (0, 5), (0, 5)),)
