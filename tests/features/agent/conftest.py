from __future__ import annotations

from collections.abc import Iterator

import pytest

import retentive
from retentive import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """A memory store in memory."""
    with retentive.open("sqlite://") as opened:
        yield opened.store()
