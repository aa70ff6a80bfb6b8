"""Patterns of paths and actors: what they match, and that no pattern takes long."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from commonplace.patterns import _PARTS, _SPLIT, _matches, covers, matches_actor


def test_stars_stay_within_a_name_or_do_not() -> None:
    """And a pattern covers what lies below what it matches."""
    assert covers(["/memories/*/x"], "/memories/a/x/y")
    assert not covers(["/memories/*/x"], "/memories/a/b/x")
    assert covers(["/memories/**/x"], "/memories/a/b/x")
    assert not covers(["/memories/**"], "/memories")
    assert covers(["/memories/a?c"], "/memories/abc")
    assert not covers(["/memories/a?c"], "/memories/a/c")
    assert covers(["/memories/*a*b*c"], "/memories/xaxbxc")
    assert not covers(["/memories/*a*b*c"], "/memories/xa/xbxc")


@given(st.text("ab/*?", max_size=9), st.text("ab/", max_size=9))
def test_many_stars_match_as_few_do(pattern: str, text: str) -> None:
    """The way that is bounded gives what `re` gives."""
    parts = _SPLIT.split(pattern)
    tokens = [token for part in parts for token in ([part] if part in _PARTS else part)]
    compiled = re.compile("".join(_PARTS.get(part) or re.escape(part) for part in parts), re.DOTALL)
    assert _matches(tokens, text) == (compiled.fullmatch(text) is not None)


def test_no_pattern_takes_for_ever() -> None:
    """Of as many stars as fit, on the worst of paths."""
    assert not covers(["/memories/" + "**a" * 300 + "b"], "/memories/" + "a" * 250)
    assert not matches_actor("*a" * 300 + "b", "a" * 250)
