"""Object storage passes the shipped suite: in memory, on S3 (moto) and on Azure Blob Storage (Azurite)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retentive.errors import InvalidInput
from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.objects.backend import ObjectsBackend
from retentive.testing.backend_suite import BackendSuite
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import count_up, exit_status, fork_child
from support import servers


class ObjectsSuite(BackendSuite):
    """The shipped suite, in which the rule of object storage about forks replaces the general rule."""

    def test_a_forked_child_is_independent(self, tmp_path: Path) -> None:
        """Every call in the forked child fails at once, also on a new backend. The parent continues."""
        if not hasattr(os, "fork"):
            pytest.skip("this system does not fork")
        store = Opened(self.opened(tmp_path))
        store.create({A: b"0"})
        child = fork_child(lambda: self._is_refused(store, tmp_path))
        count_up(store, 10)
        assert exit_status(child) == 0
        assert store.tree() == {A: b"10"}

    def _is_refused(self, store: Opened, place: Path) -> None:
        calls = (store.tree, store.backend.list_stores, lambda: count_up(store, 1), lambda: self.opened(place))
        for call in calls:
            with pytest.raises(InvalidInput, match="open the location after the fork"):
                call()
        store.backend.close()


class TestInMemory(ObjectsSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return ObjectsBackend(f"memory://{place.name}/{place.parent.name}", clock=clock, new_id=new_id)


@pytest.mark.long
class TestMoto(ObjectsSuite):
    @pytest.fixture(autouse=True)
    def _credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.moto().access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.moto().secret_key)

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        moto = servers.moto()
        bucket = moto.new_bucket("retentive")
        options = f"endpoint={moto.endpoint}&region={moto.region}&allow_http=true"
        return ObjectsBackend(f"s3://{bucket}/{place.parent.name}/{place.name}?{options}", clock=clock, new_id=new_id)


@pytest.mark.long
class TestAzurite(ObjectsSuite):
    @pytest.fixture(autouse=True)
    def _credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", servers.azurite().account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", servers.azurite().key)

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        azurite = servers.azurite()
        container = azurite.new_container("retentive")
        options = f"endpoint={azurite.endpoint}&allow_http=true"
        return ObjectsBackend(
            f"az://{container}/{place.parent.name}/{place.name}?{options}", clock=clock, new_id=new_id
        )
