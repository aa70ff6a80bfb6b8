"""A command on a database server takes three round trips, and the jobs of a batch see the changes of earlier jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

import retentive
from retentive.errors import Damaged
from retentive.storage.contract import Created, Transaction, create_or_update
from retentive.storage.queue import StoreJob, run_batch
from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.mariadb import MariadbBackend, MariadbConnection
from retentive.storage.server.postgresql import PostgresqlBackend, PostgresqlConnection
from support import servers
from support.places import name_of

A, B, NEW = "/memories/a", "/memories/b", "/memories/new"
Work = Callable[[Transaction], object]


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    server = servers.postgresql() if request.param == "postgresql" else servers.mariadb()
    return str(server.new_database(name_of(tmp_path)))


@pytest.fixture
def backend(url: str) -> Iterator[ServerBackend]:
    scheme, _, rest = url.partition("://")
    with closing((PostgresqlBackend if scheme == "postgresql" else MariadbBackend)(rest)) as opened:
        yield opened


@pytest.fixture
def store(backend: ServerBackend) -> str:
    """A store with the memories A and B."""
    store_id = backend.create_store(key="k", name="k").id
    backend.write(store_id, lambda tx: tx.record([Created(path, b"0") for path in (A, B)], None))
    return store_id


def batch(backend: ServerBackend, store: str, works: Sequence[Work]) -> list[StoreJob]:
    """Run works as one batch, and return the jobs with their outcomes."""
    jobs = [StoreJob(store, work, may_use_reserve=False) for work in works]
    run_batch(jobs, backend._attempt)
    return jobs


def edit(tx: Transaction, path: str) -> None:
    before = tx.get(path)
    tx.record([create_or_update(before.memory, path, (before.data or b"") + b"+")], None)


def test_a_command_takes_two_round_trips(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one locks the store and reads its state and the entry, the second one commits."""
    trips: list[str] = []
    for kind in (PostgresqlConnection, MariadbConnection):
        real = kind.rows

        def counted(self: object, sql: str, values: object = (), real: Callable[..., object] = real) -> object:
            trips.append(sql)
            return real(self, sql, values)

        monkeypatch.setattr(kind, "rows", counted)
    with retentive.open(url) as place:
        memories = place.store("k")
        memories.execute({"command": "create", "path": A, "file_text": "one\n"})
        for command in (
            {"command": "str_replace", "path": A, "old_str": "one", "new_str": "two"},
            {"command": "create", "path": NEW, "file_text": "new\n"},
            {"command": "delete", "path": NEW},
            {"command": "view", "path": A},
        ):
            trips.clear()
            assert not memories.execute(command).is_error
            assert len(trips) == 2, trips


def test_a_damaged_text_fails_only_the_job_that_reads_it(backend: ServerBackend, store: str) -> None:
    backend.transact(lambda connection: connection.run("UPDATE versions SET text = ? WHERE path = ?", (b"bad", A)))
    jobs = batch(backend, store, [lambda tx: edit(tx, A), lambda tx: edit(tx, B)])
    assert isinstance(jobs[0].error, Damaged)
    assert jobs[1].error is None
    assert backend.read(store, lambda snapshot: snapshot.get(B).data) == b"0+"
