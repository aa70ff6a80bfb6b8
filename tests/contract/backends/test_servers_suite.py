"""Database servers pass the shipped suite: PostgreSQL, also through a pooler, and MariaDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.server.mariadb import MariadbBackend
from retentive.storage.server.postgresql import PostgresqlBackend
from retentive.testing.backend_suite import BackendSuite
from support import servers
from support.places import name_of


def after_scheme(url: str) -> str:
    return url.partition("://")[2]


class TestPostgresql(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        url = servers.postgresql().new_schema(name_of(place))
        return PostgresqlBackend(after_scheme(url), clock=clock, new_id=new_id)


@pytest.mark.long
class TestPostgresqlBehindPgbouncer(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        servers.postgresql().new_database(name_of(place))
        url = servers.pgbouncer().url(name_of(place))
        return PostgresqlBackend(after_scheme(url), clock=clock, new_id=new_id)


class TestMariadb(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        url = servers.mariadb().new_database(name_of(place))
        return MariadbBackend(after_scheme(url), clock=clock, new_id=new_id)
