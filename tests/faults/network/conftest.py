"""Fixture with a network for each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .networks import NETWORKS, Network

BEHIND = pytest.param("pgbouncer", marks=pytest.mark.long)


@pytest.fixture(params=[BEHIND if name == "pgbouncer" else name for name in NETWORKS])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    """A location reached through a proxy. A test with this fixture runs for each kind of server."""
    with NETWORKS[request.param](tmp_path) as made:
        yield made
