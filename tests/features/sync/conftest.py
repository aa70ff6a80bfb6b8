from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive

from .world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two empty directories, and an empty memory store."""
    directories = [tmp_path / "one", tmp_path / "two"]
    for each in directories:
        each.mkdir()
    with retentive.open("sqlite://") as opened:
        yield World(opened.store(), directories, tmp_path / "states", [0.0, 0.0])
