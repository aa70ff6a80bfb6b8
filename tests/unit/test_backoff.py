"""Pauses between attempts grow, stay within their bounds, and end at the deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retentive.storage.backoff import Backoff


class _Time:
    """A clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s


def test_a_pause_beyond_the_deadline_is_not_started() -> None:
    """`wait` returns False at once, so that the caller can report the failure."""
    time = _Time()
    backoff = Backoff(1, 8, deadline=8, clock=lambda: time.now_s, sleep=time.sleep, spread=lambda _, high: high)
    while backoff.wait():
        pass
    assert time.pauses == [1, 2, 4]
    assert not backoff.wait()


@given(
    first_s=st.floats(0.0001, 1.0),
    longest_s=st.floats(1.0, 10.0),
    factor=st.floats(1.0, 3.0),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
)
def test_every_pause_is_between_half_and_all_of_its_bound(
    first_s: float, longest_s: float, factor: float, shares: list[float]
) -> None:
    time, left = _Time(), list(shares)
    backoff = Backoff(
        first_s,
        longest_s,
        factor=factor,
        deadline=1_000.0,
        clock=lambda: time.now_s,
        sleep=time.sleep,
        spread=lambda low, high: low + (high - low) * left.pop(0),
    )
    for number, _ in enumerate(shares):
        assert backoff.wait()
        bound_s = min(first_s * factor**number, longest_s)
        assert bound_s / 2 * 0.999 <= time.pauses[-1] <= bound_s * 1.001
