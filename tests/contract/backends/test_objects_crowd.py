"""Object storage with many writers in several processes: no write is lost, and no writer starves."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from retentive.storage.objects.backend import ObjectsBackend
from retentive.testing.backend_suite.opening import Opened
from support import servers

pytestmark = pytest.mark.long

PATIENCE_S = 60.0
SECONDS = 12.0
LONGEST_S = 15.0  # half of the timeout of a command, on a machine that also runs the storage and other tests


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A new location on a server."""
    moto = servers.moto()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto.secret_key)
    bucket = moto.new_bucket("crowded")
    return f"s3://{bucket}/{tmp_path.name}?endpoint={moto.endpoint}&region={moto.region}&allow_http=true"


def write_on(url: str, number: int, ready: Barrier, told: multiprocessing.SimpleQueue[tuple[int, float]]) -> None:
    """Write own memories for some seconds. Tell the number of writes and the longest time of one."""
    own, writes, longest_s = Opened(ObjectsBackend(url)), 0, 0.0
    ready.wait(PATIENCE_S)
    end = time.monotonic() + SECONDS
    while (began := time.monotonic()) < end:
        own.create({f"/memories/{number}/{writes}": b"x"})
        writes, longest_s = writes + 1, max(longest_s, time.monotonic() - began)
    told.put((writes, longest_s))


def test_no_process_starves(url: str) -> None:
    """Eight processes write to one store. Each gets a fair share of the writes, and no write takes long."""
    Opened(ObjectsBackend(url))
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(8), context.SimpleQueue()
    children = [context.Process(target=write_on, args=(url, number, ready, told)) for number in range(8)]
    for child in children:
        child.start()
    results = [told.get() for _ in children]
    for child in children:
        child.join(PATIENCE_S)
    writes, longest_s = zip(*results, strict=True)
    assert min(writes) >= sum(writes) / len(writes) / 2, results
    assert max(longest_s) < LONGEST_S, results
