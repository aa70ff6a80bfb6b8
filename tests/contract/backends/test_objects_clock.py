"""A collection deletes no object that a commit in flight can still make part of the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from retentive.testing.backend_suite.opening import A, B, Opened
from support import servers

from .objects import small
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


@pytest.mark.long
def test_a_commit_in_flight_starts_again_after_a_collection(served: Served) -> None:
    """Its texts are uploaded, and its manifest is not written yet. The collection deletes them."""
    store = Opened(small(served.slow))
    store.create({A: b"one"})
    deleted: list[int] = []

    def collect_first(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        deleted.append(small(served.direct).collect(store.id))
        return forward(asked.raw)

    served.proxy.rule = nth({1}, is_commit, collect_first)
    store.put(A, b"two")
    store.create({B: b"three"})
    assert deleted == [1]
    assert Opened(small(served.direct)).tree() == {A: b"two", B: b"three"}
