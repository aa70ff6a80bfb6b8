from __future__ import annotations

import pytest

from retentive import MemoryStore
from support.places import OpenPlace


@pytest.fixture
def twin(open_place: OpenPlace) -> MemoryStore:
    """A second memory store, for the expected replies."""
    return open_place("sqlite://").store()
