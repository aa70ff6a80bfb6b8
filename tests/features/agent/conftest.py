from __future__ import annotations

from collections.abc import Iterator

import pytest

import retentive
from retentive import MemoryStore
from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude

from .runs import FAULTS, STORY


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """A memory store in memory."""
    with retentive.open("sqlite://") as opened:
        yield opened.store()


@pytest.fixture
def server() -> Iterator[ScriptedClaude]:
    """Scripted Claude that plays `STORY`, with the faults that the test adds to `FAULTS`."""
    FAULTS.clear()
    with scripted_claude(STORY, faults=FAULTS) as started:
        yield started
