"""The parts of a text that a change leaves as they are, and the contributors of a text that one call made alone."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from retentive.redaction.changes import changed

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
