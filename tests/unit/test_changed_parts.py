"""The parts of a text that a change leaves as they are, and the contributors of a text that one call made alone."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from retentive.redaction.changes import changed
from retentive.values.provenance import joined

TEXTS = st.text(alphabet="ab\n", max_size=40)
PARTS = st.text(alphabet='"\\[]:,bya\u00e9', max_size=12)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
@example("a" * 9, "", "a", "")
def test_a_change_is_framed_by_the_longest_equal_start_and_end(start: str, old: str, new: str, end: str) -> None:
    before, after = start + old + end, start + new + end
    first, stop, old_stop = changed(before, after)
    assert changed(before, after, (len(start), len(end))) == (first, stop, old_stop)
    assert (before[:first], before[old_stop:]) == (after[:first], after[stop:])
    assert first <= stop
    assert first <= old_stop
    room = min(stop, old_stop) - first
    assert room == 0 or (before[first] != after[first] and before[old_stop - 1] != after[stop - 1])


@given(st.lists(PARTS, min_size=4, max_size=6), st.lists(PARTS, min_size=4, max_size=6), PARTS)
@example(["1", "", "", ""], ["2", "", "", ""], '"by":[["')
def test_a_contributor_is_listed_once(earlier: list[str], own: list[str], cause: str) -> None:
    """It does not matter how the rest of the stored text looks, and whether the contributor is the only one."""
    for parts in (own[1:], earlier[1:]):
        contributors = [["0", *parts]]
        stored = json.dumps({"cause": cause, "by": contributors}, separators=(",", ":"))
        expected = [own] if parts == own[1:] else [*contributors, own]
        assert [list(each) for each in joined([stored], own)] == expected
        two = json.dumps({"cause": cause, "by": [["0", "x", *parts[1:]], *contributors]}, separators=(",", ":"))
        assert [list(each) for each in joined([two], own)][-1] == own
