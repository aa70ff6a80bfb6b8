"""Profile of the tests, set by RETENTIVE_PROFILE: `quick` (as in `make test`), `long` or `full`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

T = TypeVar("T")
PROFILES = ("quick", "long", "full")
PROFILE = os.environ.get("RETENTIVE_PROFILE", "quick")
if PROFILE not in PROFILES:
    raise ValueError(f"RETENTIVE_PROFILE is {PROFILE!r}; it must be one of {', '.join(PROFILES)}")

LONG = PROFILE != "quick"
"""True in the long and the full profile, which use all backends, more rounds, and the tests marked `long`."""
FULL = PROFILE == "full"
"""True in the full profile, which has the most rounds. Its inputs differ from run to run."""
REQUIRED = os.environ.get("RETENTIVE_SERVERS") == "required"
"""If true, a test fails if its server or program is not installed. Otherwise, the test is skipped."""


def sized(*, quick: T, long: T, full: T) -> T:
    """Return the size for the current profile."""
    return {"quick": quick, "long": long, "full": full}[PROFILE]


def some(values: Iterable[T], step: int) -> list[T]:
    """Return all values in the longer profiles, and each `step`th in the quick one.

    For parameters that are alike, so that a part of them shows in `make test` what CI shows for all.
    """
    return [*values][:: 1 if LONG else step]


def combined(first: Iterable[Any], *others: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the combinations of values in the full profile; otherwise each first value with one, in turn.

    The turns differ, so that all values of each of the others occur, also together.
    """
    if FULL:
        return list(product(first, *others))
    all_others = list(product(*others))
    return [(each, *all_others[at % len(all_others)]) for at, each in enumerate(first)]
