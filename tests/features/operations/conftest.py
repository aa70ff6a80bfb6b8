from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .table import Scene


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """What is closed before the scene is."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with made.place:
        yield made
