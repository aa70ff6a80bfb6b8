"""Each target of the fuzzer holds for its corpus, and in the long profile for a second of changes of it."""

from __future__ import annotations

import pytest

from support.profiles import LONG

from . import run
from .targets import TARGETS, corpus


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    rounds, failed = run.fuzz(name, 1.0 if LONG else 0.0)
    assert failed == []
    assert rounds >= len(corpus(name)) >= 3
