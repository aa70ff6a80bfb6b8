"""Lines, pages, snippets and edits by examples; `tests/unit/test_text_laws.py` tests their properties."""

from __future__ import annotations

import pytest

from retentive.errors import Refused
from retentive.values.replies import REPLIES
from retentive.values.text import count_lines, insert, replace, snippet, view


def shown(text: str, view_range: tuple[int, int] | None = None, *, max_chars: int = 16_000) -> str:
    page = view(text.encode(), view_range, max_chars=max_chars)
    notice = [] if page.notice is None else [REPLIES.phrase(page.notice.key, page.notice.values)]
    return "\n".join([page.numbered, *notice])


def refusal(text: str, view_range: tuple[int, int] | None) -> str:
    with pytest.raises(Refused) as caught:
        view(text.encode(), view_range, max_chars=0)
    return REPLIES.phrase(caught.value.key, {"path": "/memories/a"} | dict(caught.value.values))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("\n", 1),
        ("a", 1),
        ("a\n", 1),
        ("a\nb", 2),
        ("a\nb\n", 2),
        ("\n\n", 2),
        ("a\r\nb\rc\u2028d\x0ce\x85", 2),
    ],
)
def test_a_final_newline_ends_the_last_line_without_starting_another(text: str, lines: int) -> None:
    assert count_lines(text) == lines


def test_numbers_are_right_aligned_to_six_characters() -> None:
    assert shown("a\n\nb") == "     1\ta\n     2\t\n     3\tb"
    many = "x\n" * 999_999
    assert shown(many, (99_999, 100_000)) == " 99999\tx\n100000\tx"
    assert shown(many, (999_999, -1)) == "999999\tx"


def test_more_than_999_999_lines_are_refused_with_or_without_a_range() -> None:
    expected = "File /memories/a exceeds maximum line limit of 999,999 lines."
    assert refusal("\n" * 1_000_000, None) == expected
    assert refusal("\n" * 999_999 + "x", (1, 2)) == expected


def test_other_line_ends_are_ordinary_characters() -> None:
    assert shown("a\r\nb\rc\u2028d\x0c\x85\n") == "     1\ta\r\n     2\tb\rc\u2028d\x0c\x85"


@pytest.mark.parametrize(
    ("view_range", "rows"),
    [
        ((1, 2), "     1\ta\n     2\tb"),
        ((2, 2), "     2\tb"),
        ((2, -1), "     2\tb\n     3\tc"),
        ((3, 99), "     3\tc"),
        ((1, 10**30), "     1\ta\n     2\tb\n     3\tc"),
    ],
)
def test_ranges_are_numbered_as_in_the_whole_file(view_range: tuple[int, int], rows: str) -> None:
    assert shown("a\nb\nc\n", view_range) == rows
    assert shown("a\nb\nc", view_range) == rows


@pytest.mark.parametrize("view_range", [(0, 1), (-1, -1), (0, -1), (4, 4), (4, -1), (2, 1), (2, 0), (1, -2), (3, 2)])
def test_ranges_outside_are_refused_with_the_range_of_lines(view_range: tuple[int, int]) -> None:
    first, last = view_range
    assert refusal("a\nb\nc\n", view_range) == (
        f"Error: Invalid `view_range` parameter: [{first}, {last}]. "
        "It should be within the range of lines of the file: [1, 3]"
    )


@pytest.mark.parametrize("view_range", [None, (1, 1), (0, 0), (5, 2), (-3, -3)])
def test_the_empty_text_shows_nothing_for_any_range(view_range: tuple[int, int] | None) -> None:
    assert view(b"", view_range, max_chars=0).numbered == ""
    assert view(b"", view_range, max_chars=0).notice is None


def lines_cut(shown: str, rest: str) -> str:
    """Return the notice of a page that ends between two lines."""
    return f"\n[Truncated: lines {shown} shown. View the rest with view_range {rest}.]"


def line_cut(line: str, length: int, cut: int, rest: str = "") -> str:
    """Return the notice of a line that is longer than a page."""
    number = line.split(" ", maxsplit=1)[0]
    notice = f"\n[Truncated: line {line} is {length} characters long, {cut} shown. "
    notice += f"View it whole with view_range [{number}, {number}]."
    return notice + (f" View the rest with view_range {rest}.]" if rest else "]")


PAGES = [
    # text, range, limit, expected
    ("abc\ndef\nghi", None, 11, "     1\tabc\n     2\tdef\n     3\tghi"),
    ("abc\ndef\nghi", None, 10, "     1\tabc\n     2\tdef" + lines_cut("1 to 2 of 3", "[3, -1]")),
    ("abc\ndef\nghi\n", None, 11, "     1\tabc\n     2\tdef" + lines_cut("1 to 2 of 3", "[3, -1]")),
    ("abc\ndef\nghi", None, 8, "     1\tabc\n     2\tdef" + lines_cut("1 to 2 of 3", "[3, -1]")),
    ("abc\ndef\nghi", None, 7, "     1\tabc" + lines_cut("1 to 1 of 3", "[2, -1]")),
    ("abc\ndef\nghi", (1, 3), 7, "     1\tabc" + lines_cut("1 to 1 of 3", "[2, 3]")),
    ("abc\ndef\nghi", (1, 9), 7, "     1\tabc" + lines_cut("1 to 1 of 3", "[2, 9]")),
    ("abc\ndef\nghi", (2, 3), 4, "     2\tdef" + lines_cut("2 to 2 of 3", "[3, 3]")),
    ("a\n\n\nbbbbbb", None, 4, "     1\ta\n     2\t\n     3\t" + lines_cut("1 to 3 of 4", "[4, -1]")),
    ("\n\n\nb", None, 2, "     1\t\n     2\t" + lines_cut("1 to 2 of 4", "[3, -1]")),
    ("\n\nb", (1, 3), 1, "     1\t" + lines_cut("1 to 1 of 3", "[2, 3]")),
    ("abcdef\ng", None, 4, "     1\tabcd" + line_cut("1 of 2", 6, 4, "[2, -1]")),
    ("abcdef\ng", (1, 2), 4, "     1\tabcd" + line_cut("1 of 2", 6, 4, "[2, 2]")),
    ("a\nabcdef", (2, -1), 4, "     2\tabcd" + line_cut("2 of 2", 6, 4)),
    ("a\nabcdef", (2, 5), 4, "     2\tabcd" + line_cut("2 of 2", 6, 4)),
    ("a\nabcdef", (2, 2), 4, "     2\tabcdef"),
    ("éé😀é", None, 3, "     1\téé😀" + line_cut("1 of 1", 4, 3)),
    ("abcdef\ng", None, 0, "     1\tabcdef\n     2\tg"),
]


@pytest.mark.parametrize(("text", "view_range", "limit", "expected"), PAGES, ids=range(len(PAGES)))
def test_pages_hold_whole_lines_and_say_how_to_continue(
    text: str, view_range: tuple[int, int] | None, limit: int, expected: str
) -> None:
    assert shown(text, view_range, max_chars=limit) == expected


@pytest.mark.parametrize(
    ("text", "old", "lines"),
    [
        ("aaa", "aa", "1"),
        ("a\na\n", "a", "1, 2"),
        ("a a\nb\na", "a", "1, 3"),
        ("\n\n\n", "\n\n", "1, 2"),
        ("x\na\nb\na\nb\n", "a\nb", "2, 4"),
        ("abababa\n", "aba", "1"),
        ("a\n" * 100, "a\n", ", ".join(map(str, range(1, 101)))),
        ("a\n" * 101, "a\n", ", ".join(map(str, range(1, 101))) + ", ..."),
        ("aa\n" * 100, "a", ", ".join(map(str, range(1, 101)))),
    ],
)
def test_several_matches_name_each_line_once(text: str, old: str, lines: str) -> None:
    with pytest.raises(Refused) as caught:
        replace(text, old, "x")
    assert caught.value.values["line_numbers"] == lines


def test_replace_keeps_every_other_byte() -> None:
    assert replace("a\r\nb\u2028 \r", "b", "é\n") == ("a\r\né\n\u2028 \r", 3)
    assert replace("ab", "ab", "") == ("", 0)


SNIPPETS = [
    # new text, start of the change, length of the change, expected rows
    ("X", 0, 1, "     1\tX"),
    ("1\n2\n3\nX\n5\n6\n7\n", 6, 1, "     2\t2\n     3\t3\n     4\tX\n     5\t5\n     6\t6"),
    ("1\n2\n3\nX\n5\n6\n7\n", 6, 2, "     2\t2\n     3\t3\n     4\tX\n     5\t5\n     6\t6"),  # the \n ends line 4
    ("1\n2\nX\nY\n5\n6\n7", 4, 3, "     1\t1\n     2\t2\n     3\tX\n     4\tY\n     5\t5\n     6\t6"),
    ("1\n2\n3\n4\n5\n", 4, 0, "     1\t1\n     2\t2\n     3\t3\n     4\t4\n     5\t5"),  # deletion: the next line
    ("1\n2\n3\n", 6, 0, "     1\t1\n     2\t2\n     3\t3"),  # deletion at the end: the last line
    ("1\n2\n3\n4\n", 8, 0, "     2\t2\n     3\t3\n     4\t4"),
    ("a\n\nb", 1, 1, "     1\ta\n     2\t\n     3\tb"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at", "length", "expected"), SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_show_the_changed_lines_and_two_around(text: str, at: int, length: int, expected: str) -> None:
    assert snippet(text, at, length, max_chars=0) == expected


def test_no_snippet_of_nothing_or_over_the_page_limit() -> None:
    assert snippet("", 0, 0, max_chars=0) is None
    assert snippet("1\n2\n3", 2, 1, max_chars=5) == "     1\t1\n     2\t2\n     3\t3"
    assert snippet("1\n2\n3\n", 2, 1, max_chars=5) is None


@pytest.mark.parametrize(
    ("text", "line", "new", "expected"),
    [
        ("", 0, "a", "a\n"),
        ("", 0, "", "\n"),
        ("", 0, "\n", "\n"),
        ("a", 0, "b", "b\na\n"),
        ("a", 1, "b", "a\nb\n"),
        ("a\n", 1, "b\n", "a\nb\n"),
        ("a\nb\n", 1, "", "a\n\nb\n"),
        ("a\nb\n", 1, "\n", "a\n\nb\n"),
        ("a\nb\n", 1, "x\n\n", "a\nx\n\nb\n"),
        ("a\nb\n", 1, "\n\nx", "a\n\n\nx\nb\n"),
        ("a\nb", 2, "\n", "a\nb\n\n"),
        ("a\r\nb\r", 1, "x\r", "a\r\nx\r\nb\r\n"),
        ("\n\n", 1, "x", "\nx\n\n"),
        ("a  \n\n", 2, " x ", "a  \n\n x \n"),
    ],
)
def test_insert_adds_separate_lines(text: str, line: int, new: str, expected: str) -> None:
    assert insert(text, line, new) == expected


@pytest.mark.parametrize(("text", "line", "lines"), [("", 1, 0), ("", -1, 0), ("a", 2, 1), ("a\nb\n", 3, 2)])
def test_insert_outside_is_refused(text: str, line: int, lines: int) -> None:
    with pytest.raises(Refused) as caught:
        insert(text, line, "x")
    assert REPLIES.phrase(caught.value.key, caught.value.values) == (
        f"Error: Invalid `insert_line` parameter: {line}. "
        f"It should be within the range of lines of the file: [0, {lines}]"
    )
