"""Object storage passes the shipped suite: in memory, and on S3 by moto, on Azure Blob Storage by Azurite."""

from __future__ import annotations

from pathlib import Path

import pytest

import servers
from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.objects.backend import open_objects
from retentive.testing.backend_suite import BackendSuite


class TestInMemory(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_objects(f"memory://{place.name}/{place.parent.name}", clock=clock, new_id=new_id)

    def test_a_forked_child_goes_on_for_itself(self, tmp_path: Path) -> None:
        pytest.skip("each side of a fork has its own memory")


@pytest.mark.long
class TestMoto(BackendSuite):
    @pytest.fixture(autouse=True)
    def _credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.moto().access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.moto().secret_key)

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        moto = servers.moto()
        bucket = moto.new_bucket("retentive")
        options = f"endpoint={moto.endpoint}&region={moto.region}&allow_http=true"
        return open_objects(f"s3://{bucket}/{place.parent.name}/{place.name}?{options}", clock=clock, new_id=new_id)


@pytest.mark.long
class TestAzurite(BackendSuite):
    @pytest.fixture(autouse=True)
    def _credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", servers.azurite().account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", servers.azurite().key)

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        azurite = servers.azurite()
        container = azurite.new_container("retentive")
        options = f"endpoint={azurite.endpoint}&allow_http=true"
        return open_objects(f"az://{container}/{place.parent.name}/{place.name}?{options}", clock=clock, new_id=new_id)
