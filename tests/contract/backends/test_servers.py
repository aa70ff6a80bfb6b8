"""Database servers: the schema, round trips, plans, and commits whose replies were lost."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql
import pytest

import retentive
from retentive import InvalidInput
from retentive.errors import OutcomeUnknown, UnknownSchema
from retentive.storage.contract import Created, Transaction
from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.mariadb import MariadbConnection
from retentive.storage.server.postgresql import PostgresqlBackend, PostgresqlConnection
from retentive.storage.sql.transaction import SqlTransaction
from support import servers
from support.command_line import here
from support.commands import create, delete, edit, view
from support.places import name_of, place_of
from support.waiting import until

PATIENCE_S = 60.0
A, NEW = "/memories/a", "/memories/new"
SERVERS = ["postgresql", "mariadb"]
VIEW = view("/memories")
on_each_server = pytest.mark.parametrize("server", SERVERS)


def postgresql(directory: Path) -> PostgresqlBackend:
    return PostgresqlBackend(servers.postgresql().new_database(name_of(directory)).partition("://")[2])


# -- the schema ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [*SERVERS, "sqlite"])
def test_the_tables_are_created_once(server: str, tmp_path: Path) -> None:
    place = place_of(server, tmp_path)
    assert json.loads(here(place, "admin", "migrate-schema", "--json").stdout) == {"schema": 1}
    with retentive.open(place) as opened:
        assert not opened.store().execute(VIEW).is_error
    assert here(place, "admin", "migrate-schema").stdout == "The schema is up to date.\n"


@on_each_server
def test_many_clients_may_create_the_tables_at_once(server: str, tmp_path: Path) -> None:
    place = place_of(server, tmp_path)
    begin = threading.Barrier(6)

    def create(_: int) -> None:
        begin.wait()
        retentive.open(place).close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(create, range(6)))
    with retentive.open(place) as opened:
        assert not opened.store().execute(VIEW).is_error


@on_each_server
def test_newer_tables_are_refused(server: str, tmp_path: Path) -> None:
    place = place_of(server, tmp_path)
    with retentive.open(place) as opened:
        assert isinstance(opened.backend, ServerBackend)
        opened.backend.transact(lambda connection: connection.run("UPDATE retentive_schema SET number = 2"))
    with pytest.raises(UnknownSchema, match="schema 2, but this version of retentive supports only schema 1"):
        retentive.open(place)


@on_each_server
def test_foreign_tables_are_not_changed(server: str, tmp_path: Path) -> None:
    """A table of another application has the name of one of our tables."""
    place = place_of(server, tmp_path)
    if server == "postgresql":
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("CREATE TABLE memories (mine TEXT)")
    else:
        address, _, database = place.rpartition("/")
        login = pymysql.connect(
            host="127.0.0.1", port=int(address.rpartition(":")[2]), user="root", database=database, autocommit=True
        )
        with login, login.cursor() as cursor:
            cursor.execute("CREATE TABLE memories (mine TEXT)")
    with pytest.raises(UnknownSchema, match="another application"):
        retentive.open(place)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("postgresql://user:hunter2@127.0.0.1:1/none?timeout_s=1", "cannot be reached"),
        ("mariadb://user:hunter2@127.0.0.1:1/none?timeout_s=1", "cannot be reached"),
        ("mariadb://user:hunter2@127.0.0.1", "mariadb://user:password@host:port/database"),
        ("mariadb://user:hunter2@host:port/database", "name:port"),
        ("mariadb://user:hunter2@host/database?x=1", "unknown option 'x'"),
        ("postgresql://user:hunter2@host/database?x=1", "unknown option 'x'"),
        ("postgresql://user:hunter2@host/database?timeout_s=0", "`timeout_s` must be 1 to 3600"),
        ("mariadb://user:hunter2@host/database?timeout_s=x", "must be numbers"),
        ("mariadb://user:hunter2@host/database?connections=0", "`connections` must be 1"),
    ],
)
def test_a_place_that_cannot_be_opened_is_refused_without_its_password(place: str, wrong: str) -> None:
    with pytest.raises(retentive.RetentiveError) as refused:
        retentive.open(place)
    assert wrong in str(refused.value)
    assert "hunter2" not in repr(refused.value)


@on_each_server
def test_a_wrong_password_is_reported_without_it(server: str, tmp_path: Path) -> None:
    """The error does not contain the password. A missing database is reported too."""
    place = place_of(server, tmp_path)
    with pytest.raises(InvalidInput, match="no such database"):
        retentive.open(place + "x?timeout_s=1")
    if server == "mariadb":
        with pytest.raises(retentive.RetentiveError, match="refuses this user") as refused:
            retentive.open(place.replace("root@", "root:hunter2@") + "?timeout_s=1")
        assert refused.value.code == "permission_denied"
    else:  # the users of this server have no passwords
        with pytest.raises(retentive.RetentiveError, match="refuses this user"):
            retentive.open(place + ("&" if "?" in place else "?") + "user=nobody")


# -- round trips and plans -----------------------------------------------------------------------------------


@on_each_server
def test_a_command_takes_two_round_trips(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one locks the store and reads its state and the entry, the second one commits."""
    trips: list[str] = []
    for kind in (PostgresqlConnection, MariadbConnection):
        real = kind.rows

        def counted(self: object, sql: str, values: object = (), real: Callable[..., object] = real) -> object:
            trips.append(sql)
            return real(self, sql, values)

        monkeypatch.setattr(kind, "rows", counted)
    with retentive.open(place_of(server, tmp_path)) as place:
        memories = place.store("k")
        memories.execute(create(A, "one\n"))
        for command in (
            edit("one", "two", A),
            create(NEW, "new\n"),
            delete(NEW),
            view(A),
        ):
            trips.clear()
            assert not memories.execute(command).is_error
            assert len(trips) == 2, trips


# -- lost commits --------------------------------------------------------------------------------------------


def count(tx: Transaction) -> None:
    tx.put_record("count", "n", str(int(tx.get_record("count", "n") or 0) + 1))


def test_a_commit_is_found_by_its_token_also_when_others_came_later(tmp_path: Path) -> None:
    """After too many later commits, its outcome is unknown."""
    with closing(postgresql(tmp_path)) as backend, closing(postgresql(tmp_path)) as other:
        store_id = backend.create_store(key="k", name="k").id

        def tokens() -> list[str]:
            text = (
                str(backend.look(lambda connection: connection.rows("SELECT token FROM stores")[0][0] or "")) + 16 * "0"
            )
            return [text[start : start + 16] for start in range(0, len(text), 16)]

        backend.write(store_id, count)
        own, before, *_ = tokens()
        for _ in range(20):
            other.write(store_id, count)
        assert backend._landed(store_id, own, before)
        assert not backend._landed(store_id, "never committed.", before)
        for _ in range(10):
            other.write(store_id, count)
        for token in (own, "never committed."):
            with pytest.raises(OutcomeUnknown):
                backend._landed(store_id, token, before)
        assert len(set(tokens())) == 33


def test_a_lost_batch_is_found_by_its_token(tmp_path: Path) -> None:
    """The connection fails before COMMIT. The settings look as if they were committed."""
    backend = postgresql(tmp_path)
    store_id = backend.create_store(key="k", name="k").id
    backend.write(store_id, lambda tx: tx.set_metadata(settings="same"))
    begun, go, cuts = threading.Event(), threading.Event(), [1]

    def hold(_: Transaction) -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    def same_settings(tx: Transaction) -> None:
        tx.set_metadata(settings="same")
        if cuts:
            cuts.pop()
            assert isinstance(tx, SqlTransaction)
            assert isinstance(tx.connection, PostgresqlConnection)
            with socket.socket(fileno=os.dup(tx.connection._raw.pgconn.socket)) as wire:
                wire.shutdown(socket.SHUT_RDWR)  # the buffered statements, including COMMIT, never reach the server

    works = [hold, lambda tx: tx.record([Created(A, b"kept")], None), same_settings]
    threads = []
    for number, work in enumerate(works):
        threads.append(threading.Thread(target=backend.write, args=(store_id, work)))
        threads[-1].start()
        assert begun.wait(PATIENCE_S)
        until(lambda number=number: len(backend._queues[store_id]._waiting) >= number)  # type: ignore[misc]
    go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert not cuts
    assert backend.read(store_id, lambda snapshot: snapshot.get(A).data) == b"kept"
    backend.close()


def test_a_value_that_the_driver_refuses_is_no_lost_connection(tmp_path: Path) -> None:
    """A NUL in a record can only come from a bug. The bug is raised at once, and the store stays usable."""
    with closing(postgresql(tmp_path)) as backend:
        store_id = backend.create_store(key="k", name="k").id
        with pytest.raises(psycopg.DataError, match="NUL"):
            backend.write(store_id, lambda tx: tx.put_record("count", "n", "\0"))
        backend.write(store_id, count)
        assert backend.read(store_id, lambda found: found.get_record("count", "n")) == "1"
