"""Laws of comparison: diffs apply, blame names existing lines, and merges lose nothing. Then examples."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.values import diff
from retentive.values.diff import DiffLine, LineChange, MergePart, as_text, blame, merge, merge_parts, unified
from support import model
from support.profiles import REQUIRED
from support.strategies import any_texts, texts

# Only a few different lines, so that lines repeat; texts with and without a final newline.
rows = st.lists(st.sampled_from(["", "a", "b", "c", "d e", "d f", "é\r", "\x0c\u2028"]), max_size=14)
line_texts = st.builds(lambda rows, end: "\n".join(rows) + end, rows, st.sampled_from(["", "\n"]))
some_texts = line_texts | texts | any_texts
edits = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["", "x\n", "y\n", "a\n"]), st.integers(0, 2)), max_size=3
)


def line_changes(old: str, new: str) -> list[LineChange]:
    return diff._changes(diff.lines(old), diff.lines(new))


def edited(text: str, changes: Sequence[tuple[int, str, int]]) -> str:
    kept = model.kept_lines(text)
    for at, new, count in changes:
        kept[at : at + count] = [new]
    return "".join(kept)


def applied(old: str, changes: Sequence[LineChange]) -> str:
    kept = model.kept_lines(old)
    for change in reversed(changes):
        assert tuple(kept[change.old_start : change.old_end]) == change.removed
        kept[change.old_start : change.old_end] = change.added
    return "".join(kept)


def longest_common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the length of a longest common subsequence of lines, by the textbook algorithm."""
    row = [0] * (len(new) + 1)
    for left in old:
        before, row = row, [0]
        for at, right in enumerate(new):
            row.append(before[at] + 1 if left == right else max(before[at + 1], row[at]))
    return row[-1]


@given(some_texts, some_texts)
def test_changes_turn_the_old_text_into_the_new(old: str, new: str) -> None:
    """The changes are in order, name the correct positions on both sides, and are never adjacent."""
    changes = line_changes(old, new)
    assert applied(old, changes) == new
    assert applied(new, [LineChange(c.new_start, c.old_start, c.added, c.removed) for c in changes]) == old
    assert all(change.removed or change.added for change in changes)
    for one, two in pairwise(changes):
        assert one.old_end < two.old_start
        assert two.old_start - one.old_end == two.new_start - one.new_end


@given(line_texts, line_texts)
def test_as_few_lines_as_possible_change(old: str, new: str) -> None:
    kept = len(model.kept_lines(old)) - sum(len(change.removed) for change in line_changes(old, new))
    assert kept == longest_common(model.kept_lines(old), model.kept_lines(new))


@given(line_texts, line_texts)
def test_changes_are_placed_as_low_as_possible(old: str, new: str) -> None:
    """If added or removed lines were moved one line down, the result would be different."""
    changes = line_changes(old, new)
    for at, change in enumerate(changes):
        if bool(change.removed) == bool(change.added):
            continue
        whole, moved, end = (
            (new, change.added, change.new_end) if change.added else (old, change.removed, change.old_end)
        )
        after = model.kept_lines(whole)[end : end + 1]
        assert after != [moved[0]], (at, changes)


shuffled = st.permutations([f"{number}\n" for number in range(7)]).map("".join)


@given(line_texts | shuffled, line_texts | shuffled)
@example("0\n1\n2\n3\n", "2\n0\n3\n1\n")
def test_a_large_text_is_compared_correctly(old: str, new: str) -> None:
    """The budget for exact comparison is almost zero, so only equal lines at both ends are found."""
    limit = diff._MAX_CELLS
    diff._MAX_CELLS = 4
    try:
        changes = line_changes(old, new)
    finally:
        diff._MAX_CELLS = limit
    assert applied(old, changes) == new


words = st.lists(st.sampled_from(["a", "b", "cd", "-", "二", "五", "é", "e\u0301", ".."]), max_size=9).map(" ".join)


@given(words, words)
@example("a-b a", "a b a")
def test_without_the_marked_words_both_sides_are_the_same(old: str, new: str) -> None:
    """Marks are within the line, in order, and never empty."""
    shown = [row for row in unified(old, new, old_name="a", new_name="b") if row.kind in {"removed", "added"}]
    left = {"removed": "", "added": ""}
    for row in shown:
        ends = [0, *(at for span in row.marks for at in span), len(row.text)]
        assert ends == sorted(ends)
        assert all(row.text[start:end].strip() for start, end in row.marks)
        left[row.kind] += "".join(row.text[ends[at] : ends[at + 1]] for at in range(0, len(ends), 2))
    if any(row.marks for row in shown):
        assert left["removed"].split() == left["added"].split() or "".join(left["removed"].split()) == "".join(
            left["added"].split()
        )


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        assert not REQUIRED, f"{name} is not installed"
        pytest.skip(f"{name} is not installed")
    return path


# Without the bytes that line-based programs treat specially, such as \r.
plain_rows = st.lists(st.sampled_from(["", "a", "b", "c", "- d", "+", "\\ e", "é"]), min_size=1, max_size=14)
plain_texts = st.builds(lambda rows, end: "\n".join(rows) + end, plain_rows, st.sampled_from(["", "\n"]))


def diff_of(old: str, new: str, name: str) -> list[DiffLine]:
    return unified(old, new, old_name=f"a/{name}" if old else "/dev/null", new_name=f"b/{name}" if new else "/dev/null")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("patch", ["-p1", "--silent", "--fuzz=0"]), ("git", ["apply", "--whitespace=nowarn"])],
)
@given(plain_texts | st.just(""), plain_texts | st.just(""), st.sampled_from(["notes.md", "a b/報告.md"]))
@settings(max_examples=60)
def test_patch_programs_accept_our_diffs(tool: str, arguments: list[str], old: str, new: str, name: str) -> None:
    """Programs apply the diffs byte for byte and without fuzz, including those of created and deleted files."""
    command = [program(tool), *arguments]
    diff = diff_of(old, new, name)
    if not diff:
        return
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, name)
        file.parent.mkdir(exist_ok=True)
        if old:
            file.write_bytes(old.encode())
        done = subprocess.run(
            command, input=as_text(diff).encode(), cwd=place, capture_output=True, timeout=60, check=False,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(place).parent)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert (file.read_bytes().decode() if file.exists() else "") == new


@given(st.lists(some_texts, min_size=1, max_size=6))
def test_blame_names_a_version_with_the_line(history: list[str]) -> None:
    keys = blame(list(enumerate(history)))
    last = model.kept_lines(history[-1])
    assert len(keys) == len(last)
    for key, line in zip(keys, last, strict=True):
        assert all(line in model.kept_lines(text) for text in history[key:])


@given(some_texts, some_texts)
def test_a_merge_with_an_unchanged_side_is_the_other_side(base: str, side: str) -> None:
    """A change that both sides made is merged once."""
    for merged in (merge(base, base, side), merge(base, side, base), merge(base, side, side)):
        assert merged == side


@given(some_texts, some_texts, some_texts)
def test_a_merge_is_symmetric(base: str, ours: str, theirs: str) -> None:
    one, two = merge_parts(base, ours, theirs), merge_parts(base, theirs, ours)
    assert [(part.ours, part.theirs) for part in one] == [(part.theirs, part.ours) for part in two]
    assert merge(base, ours, theirs) == merge(base, theirs, ours)


@given(line_texts, edits, edits)
def test_a_merge_invents_no_line(
    base: str, ours: list[tuple[int, str, int]], theirs: list[tuple[int, str, int]]
) -> None:
    """The merge joins no two lines, whether or not the texts end with a newline."""
    sides = [edited(base, ours), edited(base, theirs)]
    merged = merge(base, *sides)
    if merged is not None:
        known = {line for text in (base, *sides) for line in model.kept_lines(text)}
        assert set(model.kept_lines(merged)) <= known


@given(some_texts, some_texts, some_texts)
def test_a_conflict_has_the_different_lines_of_both_sides(base: str, ours: str, theirs: str) -> None:
    parts = merge_parts(base, ours, theirs)
    conflicts = [part for part in parts if part.line is not None]
    assert (merge(base, ours, theirs) is None) == bool(conflicts)
    for part in conflicts:
        assert part.ours != part.theirs
        assert "".join(model.kept_lines(ours)[part.line or 0 :]).startswith(part.ours)


# Lines of the base are unique and are never added again, so each side has only one diff to the base.
fresh_edits = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["", "x\n", "y\n", "x\ny\n", "z\n\n"]), st.integers(0, 2)), max_size=3
)


@given(st.integers(0, 9), fresh_edits, fresh_edits, st.tuples(st.booleans(), st.booleans(), st.booleans()))
@example(2, [(0, "x\n", 1)], [(1, "y\n", 1)], (True, True, True))  # adjacent edits
@example(1, [(1, "x\n", 0)], [(1, "x\ny\n", 0)], (True, True, True))  # one side adds another line
@example(1, [], [(1, "x\n", 0)], (True, False, True))  # one side removes a newline where the other side adds a line
def test_merges_agree_with_git(
    count: int,
    ours: list[tuple[int, str, int]],
    theirs: list[tuple[int, str, int]],
    ended: tuple[bool, bool, bool],
) -> None:
    """The merge gives the same text as `git merge-file`, or a conflict where git reports one, including final newlines.

    The test avoids repeated lines, with which there can be several longest common subsequences. If git chooses another
    one of them, git and the merge may disagree about a conflict (1 in 100 random texts of three distinct lines).
    """
    git = program("git")
    base = "".join(f"{number}\n" for number in range(count))
    sides = [base, edited(base, ours), edited(base, theirs)]
    sides = [text if end else text.removesuffix("\n") for text, end in zip(sides, ended, strict=True)]
    with tempfile.TemporaryDirectory() as place:
        for name, text in zip(("base", "ours", "theirs"), sides, strict=True):
            Path(place, name).write_bytes(text.encode())
        done = subprocess.run(
            [git, "merge-file", "-p", "ours", "base", "theirs"], cwd=place, capture_output=True, timeout=60, check=False
        )
    assert 0 <= done.returncode < 128, done.stderr.decode()
    assert merge(*sides) == (None if done.returncode else done.stdout.decode())


def marked(old: str, new: str) -> list[tuple[str, list[str]]]:
    rows = unified(old, new, old_name="a", new_name="b")
    return [
        (row.row, [row.text[slice(*span)] for span in row.marks]) for row in rows if row.kind in {"removed", "added"}
    ]


def test_a_unified_diff_has_hunks_with_three_lines_around() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("2\n3\n", "2\nthree\n", 1).replace("20\n", "20\n21\n")
    assert as_text(unified(old, new, old_name="a", new_name="b")) == (
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
