"""Fixtures for object storage: a location in memory, and a proxy in front of a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import servers

from .objects import BUCKET, Wire


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A location for one test."""
    return f"memory://{tmp_path.name}{tmp_path.parent.name}"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A proxy in front of moto."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.moto().access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.moto().secret_key)
    servers.moto().new_bucket(BUCKET)
    made = Wire(servers.moto().port)
    yield made
    made.close()
