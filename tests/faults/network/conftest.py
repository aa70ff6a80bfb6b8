"""Fixture with a network for each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .networks import NETWORKS, Network

QUICK = "postgresql"


@pytest.fixture(params=[name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in NETWORKS])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    """A location reached through a proxy. A test with this fixture runs for each kind of server."""
    with NETWORKS[request.param](tmp_path) as made:
        yield made
