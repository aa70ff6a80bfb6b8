"""Laws of texts: edits change only the named lines, and the pages of a text add up to the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retentive.errors import Refused
from retentive.values.replies import REPLIES
from retentive.values.text import TextPage, count_lines, insert, replace, snippet, view
from support import model
from support.shape import InvalidCommand
from support.strategies import any_texts, short_texts, texts

# Texts longer than one chunk of the line search (64 Ki characters).
long_texts = st.lists(st.sampled_from([0, 0, 1, 9, 32_000, 65_535, 65_536, 131_072]), max_size=5).map(
    lambda lengths: "\n".join("é" * length for length in lengths)
)
some_texts = texts | any_texts | long_texts
limits = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40, 70_000])
NOTICE = re.compile(r"\[Truncated: .*View the rest with view_range \[(\d+), (-?\d+)\]\.\]")
WHOLE = re.compile(r"\[Truncated: .*View it whole with view_range \[(\d+), (\d+)\]\.")


@given(some_texts)
def test_lines_end_at_newlines_and_nowhere_else(text: str) -> None:
    """`a\nb\n` and `a\nb` have two lines, and the empty text has none."""
    assert count_lines(text) == len(model.kept_lines(text))


@given(some_texts, some_texts, st.data())
def test_insert_keeps_every_other_line(text: str, new: str, data: st.DataObject) -> None:
    """All other lines stay the same, byte for byte. Only missing newlines are added."""
    after = data.draw(st.integers(0, len(model.kept_lines(text))))
    assert insert(text, after, new) == model.inserted(text, after, new)


@given(texts, texts, st.integers(-3, 60))
def test_insert_out_of_range_is_rejected(text: str, new: str, after: int) -> None:
    count = len(model.kept_lines(text))
    if 0 <= after <= count:
        insert(text, after, new)
        return
    with pytest.raises(Refused) as caught:
        insert(text, after, new)
    assert REPLIES.phrase(caught.value.key, caught.value.values) == (
        f"Error: Invalid `insert_line` parameter: {after}. "
        f"It should be within the range of lines of the file: [0, {count}]"
    )


@given(st.text("ab\n", max_size=30) | texts, short_texts, texts)
def test_replace_equals_a_naive_replacement(text: str, old: str, new: str) -> None:
    """A single match is replaced.

    Zero matches, several matches (even overlapping ones) and an empty `old_str` are errors.
    """
    finds = model.find_all(text, old) if old else []
    if len(finds) == 1:
        assert replace(text, old, new) == (text[: finds[0]] + new + text[finds[0] + len(old) :], finds[0])
        return
    with pytest.raises(Refused) as caught:
        replace(text, old, new)
    assert caught.value.key == ("empty_old_str" if not old else "many_matches" if finds else "no_match")
    if finds:
        assert caught.value.values["line_numbers"] == _lines_listed(text, finds)


@given(st.integers(2, 400), st.sampled_from(["a", "a\n", "\na", "aa\n", "\n", "a\na"]), st.sampled_from(["", "b\n"]))
@example(100, "a\n", "")
@example(101, "a\n", "")
def test_many_matches_name_at_most_100_lines(count: int, old: str, head: str) -> None:
    """The error names each line in which a match starts, once and in ascending order, and then `, ...` for more."""
    text = head + old * count
    with pytest.raises(Refused) as caught:
        replace(text, old, "x")
    assert caught.value.values["line_numbers"] == _lines_listed(text, model.find_all(text, old))


def _lines_listed(text: str, finds: list[int]) -> str:
    lines = sorted({text[:at].count("\n") + 1 for at in finds})
    return ", ".join(map(str, lines[:100])) + (", ..." if len(lines) > 100 else "")


@given(texts | long_texts, st.text("xy\n", max_size=6), st.data())
def test_snippets_show_the_change_and_two_lines_around(text: str, new: str, data: st.DataObject) -> None:
    """The snippet equals a naive one for every position and limit. An empty text or a large snippet is not shown."""
    at = data.draw(st.integers(0, len(text)))
    edited = text[:at] + new + text[at:]
    limit = data.draw(limits)
    shown = snippet(edited, at, len(new), max_chars=limit)
    assert (shown or "").split("\n") == (model.snippet(edited, at, new, limit) or [""])


ranges = st.none() | st.tuples(st.integers(-1, 12), st.integers(-2, 14))


@given(some_texts, ranges, limits)
def test_a_page_equals_a_naive_one(text: str, asked: tuple[int, int] | None, limit: int) -> None:
    """The page equals a naive page in rows, numbers, notices and errors, for every range and limit."""
    assert _view_or_refusal(text, asked, limit) == _page_or_refusal(text, asked, limit)


def _view_or_refusal(text: str, asked: tuple[int, int] | None, limit: int) -> list[str]:
    try:
        return _rows(view(text.encode(), asked, max_chars=limit))
    except Refused as refusal:
        return [REPLIES.phrase(refusal.key, refusal.values)]


def _page_or_refusal(text: str, asked: tuple[int, int] | None, limit: int) -> list[str]:
    try:
        return model.page(text, asked, limit)
    except InvalidCommand as wrong:
        return [str(wrong.expected.text)]


@given(some_texts, limits)
@example("a\n\nbbbbbb", 3)  # a page that ends in blank lines
@example("\n\n\n\nx", 2)
@example("abc\nd", 3)  # a first line that exceeds the limit only by its newline
def test_pages_add_up_to_the_whole_text(text: str, limit: int) -> None:
    """A reader who follows the notices gets every line exactly once. A long line is read with `[n, n]`."""
    told: dict[int, str] = {}
    asked: tuple[int, int] | None = None
    for _ in range(3 * len(text) + 3):
        rows = _rows(view(text.encode(), asked, max_chars=limit))
        notice = rows.pop() if rows and rows[-1].startswith("[Truncated: ") else ""
        whole = WHOLE.match(notice)
        if whole:
            rows = _rows(view(text.encode(), (int(whole[1]), int(whole[2])), max_chars=limit))
        for row in rows:
            number, _, line = row.partition("\t")
            assert int(number) not in told
            told[int(number)] = line
        rest = NOTICE.match(notice)
        if rest is None:
            break
        asked = int(rest[1]), int(rest[2])
    assert told == {number: line.removesuffix("\n") for number, line in enumerate(model.kept_lines(text), 1)}


def _rows(page: TextPage) -> list[str]:
    numbered, notice = page
    rows = numbered.split("\n") if numbered else []
    return rows + ([] if notice is None else [REPLIES.phrase(notice.key, notice.values)])


def test_numbers_are_right_aligned_to_six_characters() -> None:
    assert _rows(view(b"a\n\nb", None, max_chars=0)) == ["     1\ta", "     2\t", "     3\tb"]
    many = b"x\n" * 999_999
    assert _rows(view(many, (99_999, 100_000), max_chars=0)) == [" 99999\tx", "100000\tx"]
    assert _rows(view(many, (999_999, -1), max_chars=0)) == ["999999\tx"]


@pytest.mark.parametrize("text", [b"\n" * 1_000_000, b"\n" * 999_999 + b"x"])
def test_more_than_999_999_lines_are_refused_with_or_without_a_range(text: bytes) -> None:
    for asked in (None, (1, 2)):
        with pytest.raises(Refused) as caught:
            view(text, asked, max_chars=0)
        said = REPLIES.phrase(caught.value.key, {"path": "/memories/a"} | dict(caught.value.values))
        assert said == "File /memories/a exceeds maximum line limit of 999,999 lines."
