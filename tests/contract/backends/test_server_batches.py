"""A batch on a database server takes two round trips, and its jobs see the changes of earlier jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest

import retentive
from retentive.errors import Damaged
from retentive.storage.contract import Change, Entry, Snapshot, Transaction, sortable_id
from retentive.storage.server.backend import ServerBackend, _TimedJob
from retentive.storage.server.mariadb import MariadbConnection, open_mariadb
from retentive.storage.server.postgresql import open_postgresql
from support import servers
from support.places import name_of

A, NEW, INSIDE = "/memories/a", "/memories/new", "/memories/d/x"
Work = Callable[[Transaction], object]


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    server = servers.postgresql() if request.param == "postgresql" else servers.mariadb()
    return str(server.new_database(name_of(tmp_path)))


@pytest.fixture
def backend(url: str) -> Iterator[ServerBackend]:
    scheme, _, rest = url.partition("://")
    opened = (open_postgresql if scheme == "postgresql" else open_mariadb)(rest, clock=time.time, new_id=sortable_id)
    with closing(opened):
        yield opened


@pytest.fixture
def store(backend: ServerBackend) -> str:
    """A store with the memories A and INSIDE."""
    store_id = backend.create_store(key="k", name="k").id
    backend.write(store_id, lambda tx: tx.record([Change(None, A, b"0"), Change(None, INSIDE, b"inside")], None))
    return store_id


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that gets one item for each round trip."""
    made: list[object] = []
    for kind, name in ((psycopg.Pipeline, "sync"), (MariadbConnection, "_send")):
        real = getattr(kind, name)

        def counted(self: object, real: Callable[[object], object] = real) -> object:
            made.append(self)
            return real(self)

        monkeypatch.setattr(kind, name, counted)
    return made


@dataclass
class Named:
    """Work that says what it reads first."""

    first_path: str
    work: Work

    def __call__(self, tx: Transaction) -> object:
        return self.work(tx)


def batch(backend: ServerBackend, store: str, works: Sequence[Work]) -> list[_TimedJob]:
    """Run works as one batch, and return the jobs with their outcomes."""
    deadline = time.monotonic() + 30
    jobs = [_TimedJob(store, work, may_use_reserve=False, deadline=deadline) for work in works]
    backend._run_batch(jobs)
    return jobs


def edit(tx: Transaction, path: str = A) -> object:
    before = tx.get(path)
    return tx.record([Change(before.memory, path, (before.data or b"") + b"+")], None)


def seen(snapshot: Snapshot, path: str) -> Entry:
    return snapshot.get(path)


@pytest.mark.parametrize(("is_named", "expected"), [(True, 2), (False, 10)])
def test_a_batch_of_edits_takes_two_round_trips(
    backend: ServerBackend, store: str, trips: list[object], is_named: bool, expected: int
) -> None:
    """Without the paths, each job reads its memory by itself."""
    paths = [f"{NEW}/{number}" for number in range(8)]
    backend.write(store, lambda tx: tx.record([Change(None, path, b"0") for path in paths], None))
    trips.clear()
    works: list[Work] = [partial(edit, path=path) for path in paths]
    jobs = batch(backend, store, list(map(Named, paths, works)) if is_named else works)
    assert [job.error for job in jobs] == [None] * 8
    assert len(trips) == expected
    assert [backend.read(store, partial(seen, path=path)).data for path in paths] == [b"0+"] * 8


def test_a_command_takes_two_round_trips(url: str, trips: list[object]) -> None:
    """The first one reads the entry, the second one writes and commits."""
    with retentive.open(url) as place:
        memories = place.store("k")
        memories.execute({"command": "create", "path": A, "file_text": "one\n"})
        for command in (
            {"command": "str_replace", "path": A, "old_str": "one", "new_str": "two"},
            {"command": "create", "path": NEW, "file_text": "new\n"},
            {"command": "delete", "path": NEW},
        ):
            trips.clear()
            assert not memories.execute(command).is_error
            assert len(trips) == 2


def move(tx: Transaction, path: str, to: str | None) -> None:
    tx.record([Change(tx.get(path).memory, to)], None)


CHANGES: dict[str, tuple[str, Work]] = {
    "edited": (A, edit),
    "deleted": (A, lambda tx: move(tx, A, None)),
    "renamed away": (A, lambda tx: move(tx, A, NEW)),
    "renamed to": (NEW, lambda tx: move(tx, A, NEW)),
    "renamed below": (NEW, lambda tx: move(tx, A, f"{NEW}/x")),
    "created": (NEW, lambda tx: tx.record([Change(None, NEW, b"new")], None)),
    "created below": (NEW, lambda tx: tx.record([Change(None, f"{NEW}/x", b"new")], None)),
    "created above": (f"{NEW}/x", lambda tx: tx.record([Change(None, NEW, b"new")], None)),
    "deleted below": ("/memories/d", lambda tx: move(tx, INSIDE, None)),
    "dropped": (A, lambda tx: tx.drop([memory] if (memory := tx.get(A).memory) else [])),
    "changed elsewhere": (A, lambda tx: edit(tx, INSIDE)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_sees_the_changes_of_earlier_jobs(backend: ServerBackend, store: str, change: str) -> None:
    """What was read ahead for the whole batch is no longer used where an earlier job changed it."""
    path, work = CHANGES[change]
    before = backend.read(store, lambda snapshot: seen(snapshot, path))
    jobs = batch(backend, store, [Named(path, lambda tx: seen(tx, path)), work, Named(path, lambda tx: seen(tx, path))])
    after = backend.read(store, lambda snapshot: seen(snapshot, path))
    assert [job.error for job in jobs] == [None] * 3
    assert (jobs[0].result, jobs[2].result) == (before, after)
    assert (before == after) == (change == "changed elsewhere")


def test_a_damaged_text_fails_only_the_job_that_reads_it(backend: ServerBackend, store: str) -> None:
    backend.transact(lambda connection: connection.run("UPDATE versions SET text = ? WHERE path = ?", (b"bad", A)))
    jobs = batch(backend, store, [Named(A, lambda tx: edit(tx, A)), Named(INSIDE, lambda tx: edit(tx, INSIDE))])
    assert isinstance(jobs[0].error, Damaged)
    assert jobs[1].error is None
    assert backend.read(store, lambda snapshot: snapshot.get(INSIDE).data) == b"inside+"
