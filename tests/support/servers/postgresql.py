"""PostgreSQL and PgBouncer."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from .base import HOST, Process, Server, accepts, missing, program, run


def postgresql_bin() -> Path | None:
    """Return the folder with the programs of the newest PostgreSQL. Debian does not put it on PATH."""

    def version(directory: Path) -> float:
        name = directory.parent.name
        return float(name) if name.replace(".", "", 1).isdigit() else 0.0

    found = [initdb.parent for initdb in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=version)
    elsewhere = missing("", "initdb")
    return None if elsewhere else Path(program("initdb")).parent


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that select another PostgreSQL server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


class PostgresServer(Server):
    """A PostgreSQL server with UTF-8 that trusts every connection."""

    name = "postgresql"
    user = "postgres"
    # No data outlives the test run, so nothing is synced. Clients see no difference in a commit.
    settings: ClassVar[dict[str, str]] = {
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "max_connections": "200",
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "on",
        "autovacuum": "off",  # or a process looks at the databases of all tests again and again
    }

    def __init__(self) -> None:
        super().__init__()
        self._has_schemas = False

    @classmethod
    def available(cls) -> str | None:
        return None if postgresql_bin() else "postgresql is not installed"

    def launch(self) -> None:
        programs = postgresql_bin()
        assert programs is not None
        self.programs = programs
        self.port = self.free_port()
        data = self.directory / "data"
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        run([*initdb, "--no-locale", "--no-sync"], user=self.user, cwd=self.directory, env=clean_environment())
        self._run()

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End the server at once, as a crash does, and start it again on the same port and data."""
        self.processes.pop().stop()
        meanwhile()
        self._run()

    def _run(self) -> None:
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        process = Process(
            [str(self.programs / "postgres"), "-D", str(self.directory / "data"), "-p", str(self.port), *options],
            log=self.directory / "log",
            directory=self.directory,
            user=self.user,
            env=clean_environment(),
            stop_signal=signal.SIGQUIT,  # immediate shutdown, which also stops its processes
        )
        self.processes.append(process)
        process.wait_until(self._answers)

    def url(self, database: str) -> str:
        """Return the URL of a database, which need not exist."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        """Create a database if it does not exist, and return its URL."""
        import psycopg  # environments of single extras lack it

        new = suppress(psycopg.errors.DuplicateDatabase)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection, new:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def new_schema(self, name: str) -> str:
        """Create a schema if it does not exist, and return a URL that sees only its tables.

        For hundreds of tests: a database of its own for each would take 50 ms more.
        """
        import psycopg

        if not self._has_schemas:
            self.new_database("schemas")
            self._has_schemas = True
        url = self.url("schemas")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
        return f"{url}?options=-csearch_path%3D{name}"

    def _answers(self) -> bool:
        ready = [str(self.programs / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(ready, env=clean_environment(), check=False).returncode == 0


class PgBouncer(Server):
    """PgBouncer in transaction mode, in which a client may get another connection for each transaction."""

    name = "pgbouncer"
    user = "postgres"
    _settings: ClassVar[dict[str, str]] = {
        "listen_addr": HOST,
        "unix_socket_dir": "",
        "auth_type": "any",
        "admin_users": "postgres",
        "pool_mode": "transaction",
        "max_client_conn": "500",
        "default_pool_size": "20",
    }

    def __init__(self, postgresql: PostgresServer) -> None:
        super().__init__()
        self.postgresql = postgresql

    @classmethod
    def available(cls) -> str | None:
        return PostgresServer.available() or missing("pgbouncer", "pgbouncer")

    def launch(self) -> None:
        self.port = self.free_port()
        settings = self._settings | {"listen_port": str(self.port)}
        ini = self.directory / "pgbouncer.ini"
        lines = ["[databases]", f"* = host={HOST} port={self.postgresql.port} user=postgres", "[pgbouncer]"]
        ini.write_text("\n".join(lines + [f"{name} = {value}" for name, value in settings.items()]) + "\n")
        process = Process(
            [program("pgbouncer"), str(ini)], log=self.directory / "log", directory=self.directory, user=self.user
        )
        self.processes.append(process)
        process.wait_until(lambda: accepts(self.port))

    def url(self, database: str) -> str:
        """Return the URL of a database through the pooler."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"
