"""The schema on a database server: created once, and refused if it is newer or of another application."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput
from retentive.errors import UnknownSchema
from retentive.storage.server.backend import ServerBackend
from support.command_line import here
from support.places import place_of

SERVERS = ["postgresql", "mariadb"]
VIEW = {"command": "view", "path": "/memories"}
on_each_server = pytest.mark.parametrize("server", SERVERS)


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
        import psycopg

        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("CREATE TABLE memories (mine TEXT)")
    else:
        import pymysql

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
