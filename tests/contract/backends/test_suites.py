"""Every backend passes the shipped suite, bare and encrypted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retentive.errors import InvalidInput
from retentive.locations import open_backend
from retentive.storage.contract import Backend, Clock, NewId
from retentive.testing.backend_suite import BackendSuite
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import count_up, exit_status, fork_child
from support import servers
from support.places import name_of, place_of

from .objects import small


class PlacedSuite(BackendSuite):
    """The suite on the backend with the name `kind`."""

    kind = ""

    def place(self, directory: Path) -> str:
        return place_of(self.kind, directory)

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(self.place(place), clock=clock, new_id=new_id)


class SealedSuite(PlacedSuite):
    seals = False

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        from retentive.storage.sealed.backend import SealedBackend  # environments of single extras lack cryptography
        from support.places import KEYS

        inner = super().open_backend(place, clock=clock, new_id=new_id)
        return SealedBackend(inner, KEYS, clock=clock, new_id=new_id)


class ObjectsSuite(PlacedSuite):
    """The suite, in which the rule of object storage about forks replaces the general rule."""

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
        calls = (store.tree, store.backend.list_stores, lambda: count_up(store, 1), lambda: Opened(self.opened(place)))
        for call in calls:
            with pytest.raises(InvalidInput, match="open the location after the fork"):
                call()
        store.backend.close()


class TestSqlite(PlacedSuite):
    kind = "sqlite"


@pytest.mark.long
class TestSqliteInMemory(PlacedSuite):
    kind = "memory"
    lasting = False


class TestDirectory(PlacedSuite):
    kind = "directory"


@pytest.mark.long
class TestPostgresql(PlacedSuite):
    def place(self, directory: Path) -> str:
        return servers.postgresql().new_schema(name_of(directory))


@pytest.mark.long
class TestPostgresqlBehindPgbouncer(PlacedSuite):
    def place(self, directory: Path) -> str:
        servers.postgresql().new_database(name_of(directory))
        return servers.pgbouncer().url(name_of(directory))


@pytest.mark.long
class TestMariadb(PlacedSuite):
    kind = "mariadb"


class TestObjectsInMemory(ObjectsSuite):
    def place(self, directory: Path) -> str:
        return f"memory://{name_of(directory)}"


@pytest.mark.long
class TestObjectsWithSmallPages(ObjectsSuite):
    """Nearly each write compacts, and pages are split, merged and emptied."""

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return small(f"memory://{name_of(place)}", clock=clock, new_id=new_id)


@pytest.mark.long
class TestMoto(ObjectsSuite):
    kind = "s3"


@pytest.mark.long
class TestAzurite(ObjectsSuite):
    @pytest.fixture(autouse=True)
    def _credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", servers.azurite().account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", servers.azurite().key)

    def place(self, directory: Path) -> str:
        azurite = servers.azurite()
        container = azurite.new_container("retentive")
        return f"az://{container}/{name_of(directory)}?endpoint={azurite.endpoint}&allow_http=true"


@pytest.mark.long
class TestSealedSqlite(SealedSuite):
    kind = "sqlite"


@pytest.mark.long
class TestSealedDirectory(SealedSuite):
    kind = "directory"


@pytest.mark.long
class TestSealedPostgresql(SealedSuite):
    kind = "postgresql"


@pytest.mark.long
class TestSealedMariadb(SealedSuite):
    kind = "mariadb"


@pytest.mark.long
class TestSealedS3(SealedSuite, ObjectsSuite):
    kind = "s3"
