"""Lines, pages, snippets and edits by examples; `tests/unit/test_text_laws.py` tests their properties."""

from __future__ import annotations

import pytest

from retentive.errors import Refused
from retentive.values.replies import REPLIES
from retentive.values.text import view


def shown(text: str, view_range: tuple[int, int] | None = None, *, max_chars: int = 16_000) -> str:
    page = view(text.encode(), view_range, max_chars=max_chars)
    numbered, notice = page
    notices = [] if notice is None else [REPLIES.phrase(notice.key, notice.values)]
    return "\n".join([numbered, *notices])


def refusal(text: str, view_range: tuple[int, int] | None) -> str:
    with pytest.raises(Refused) as caught:
        view(text.encode(), view_range, max_chars=0)
    return REPLIES.phrase(caught.value.key, {"path": "/memories/a"} | dict(caught.value.values))


def test_numbers_are_right_aligned_to_six_characters() -> None:
    assert shown("a\n\nb") == "     1\ta\n     2\t\n     3\tb"
    many = "x\n" * 999_999
    assert shown(many, (99_999, 100_000)) == " 99999\tx\n100000\tx"
    assert shown(many, (999_999, -1)) == "999999\tx"


def test_more_than_999_999_lines_are_refused_with_or_without_a_range() -> None:
    expected = "File /memories/a exceeds maximum line limit of 999,999 lines."
    assert refusal("\n" * 1_000_000, None) == expected
    assert refusal("\n" * 999_999 + "x", (1, 2)) == expected
