"""A host whose clock is wrong deletes no objects in flight: ages count by the clock of the storage."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from retentive.storage.objects.backend import ObjectsBackend
from retentive.testing.backend_suite.opening import A, B, Opened
from support import servers

from .objects import DAY_S, Bottom, in_two_days, small
from .wire import Asked, Reply, Wire, is_commit, nth

CEPH = pytest.param("ceph", marks=[pytest.mark.long, pytest.mark.clusters])


@dataclass
class Served:
    """A location on a server: directly, and behind a proxy for the requests of a slow writer."""

    proxy: Wire
    slow: str
    direct: str


@pytest.fixture(params=["moto", "azurite", CEPH])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    if request.param == "azurite":
        azurite = servers.azurite()
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", azurite.account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.key)
        at, endpoint, options = f"az://{azurite.new_container('clock')}", azurite.endpoint, ""
    else:
        server = servers.moto() if request.param == "moto" else servers.ceph()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
        at, endpoint, options = f"s3://{server.new_bucket('clock')}", server.endpoint, f"&region={server.region}"
    port = int(endpoint.split(":")[2].partition("/")[0])
    direct = f"{at}/{os.urandom(6).hex()}?endpoint={endpoint}&allow_http=true{options}"
    proxy = Wire(port)
    yield Served(proxy, direct.replace(f":{port}", f":{proxy.port}"), direct)
    proxy.close()


def ahead(url: str, days: float) -> ObjectsBackend:
    """A backend on a host with a wrong clock."""
    return small(url, clock=lambda: time.time() + days * DAY_S)


@pytest.mark.long
def test_a_collection_by_a_host_two_years_ahead_keeps_a_commit_in_flight(served: Served) -> None:
    """The texts of the commit are uploaded, and its manifest is not written yet."""
    store = Opened(small(served.slow))
    store.create({A: b"one"})
    deleted: list[int] = []

    def collect_first(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        deleted.append(ahead(served.direct, 730).collect(store.id))
        return forward(asked.raw)

    served.proxy.rule = nth({1}, is_commit, collect_first)
    store.put(A, b"two")
    store.create({B: b"three"})
    assert deleted == [0]
    assert Opened(small(served.direct)).tree() == {A: b"two", B: b"three"}


def test_orphans_are_kept_for_a_day_of_the_storage(served: Served) -> None:
    """Whatever the clock of the host says, orphans stay until the clock of the storage is a day later."""
    url = served.direct
    store, bottom = Opened(small(url)), Bottom(url)
    store.create({A: b"one"})
    orphan = f"stores/{store.id}/packs/{'0' * 32}"
    bottom.put(orphan, b"in flight")
    before = bottom.listed()
    for days in (730, 0, -730):
        assert ahead(url, days).collect(store.id) == 0
    assert bottom.listed() == before
    assert in_two_days(url).collect(store.id) == 1
    assert orphan not in bottom.listed()
    assert Opened(small(url)).tree() == {A: b"one"}
