"""The profile of the tests, by RETENTIVE_PROFILE: `quick`, as in `make test`, `long`, as in CI, or `full`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
PROFILES = ("quick", "long", "full")
PROFILE = os.environ.get("RETENTIVE_PROFILE", "quick")
if PROFILE not in PROFILES:
    raise ValueError(f"RETENTIVE_PROFILE is {PROFILE!r}; it must be one of {', '.join(PROFILES)}")

LONG = PROFILE != "quick"
"""True in the long and the full profile: all backends, more rounds, and what is marked `long`."""
FULL = PROFILE == "full"
"""True in the full profile: all lengths at their most, and inputs that differ from run to run."""
REQUIRED = os.environ.get("RETENTIVE_SERVERS") == "required"
"""True where a server or program that is not installed fails the tests that need it, instead of skipping them."""


def sized(*, quick: T, long: T, full: T) -> T:
    """The size for this profile."""
    return {"quick": quick, "long": long, "full": full}[PROFILE]
