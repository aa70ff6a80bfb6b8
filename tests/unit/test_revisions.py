"""Names of revisions: texts and the values that they parse to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.history.revisions import Revision, as_revision, parse

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
ID = "memver_0660e34c5535ac46703065f2e17a13de"

FORMS: dict[str, tuple[int | str | datetime | None, int]] = {
    "HEAD": (None, 0),
    "HEAD~2": (None, 2),
    "HEAD~0": (None, 0),
    "r1234": (1234, 0),
    "r0012": (12, 0),
    ID: (ID, 0),
    "memver_0660": ("memver_0660", 0),
    "2h": (NOW - timedelta(hours=2), 0),
    "2026-11-20T10:00Z": (datetime(2026, 11, 20, 10, tzinfo=UTC), 0),
}


@pytest.mark.parametrize("text", FORMS)
def test_forms(text: str) -> None:
    assert parse(text, NOW) == Revision(*FORMS[text], text)


def test_days_begin_in_the_local_zone() -> None:
    day = NOW.astimezone().replace(hour=0, minute=0)
    assert parse("yesterday", NOW).base == day - timedelta(days=1)
    assert parse("today", NOW).base == day


INVALID = {
    "": "is not a revision such as r1234, HEAD, HEAD~2, a time",
    "head": "is not a revision",
    "HEAD~x": "is not a revision",
    "HEAD~1234567890": "is not a revision",
    "r": "is not a revision",
    "r1x": "is not a revision",
    "r٣": "is not a revision",
    "1234": "did you mean r1234?",
    "soon": "or the id of a version",
    "r1~1": "is not a revision",
    "~2": "is not a revision",
    "-1d": "is not a revision",
}


@pytest.mark.parametrize("text", INVALID)
def test_errors_name_the_right_forms(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(text, NOW)
    assert INVALID[text] in str(raised.value)
    assert len(str(raised.value)) < 250


def test_times_need_a_zone() -> None:
    with pytest.raises(InvalidInput, match="must have a time zone"):
        as_revision(NOW.replace(tzinfo=None))
    assert as_revision(NOW).base == NOW


@given(st.one_of(st.text(), st.from_regex(r"(HEAD|r[0-9]+|memver_[0-9a-f]+|[0-9]+[smhdw])(~[0-9]*)?", fullmatch=True)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text, NOW)
    except InvalidInput:
        return
    assert (found.text, found.back >= 0) == (text, True)
