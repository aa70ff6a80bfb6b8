"""Which profile of the tests runs: the quick one of `make test`, or with CI=true the long one."""

from __future__ import annotations

import os

LONG = os.environ.get("CI") == "true"
"""Whether this is the long profile: all places, more rounds, longer histories. It is to end within half an hour."""
