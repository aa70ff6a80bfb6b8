"""PostgreSQL, and PgBouncer before it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from .base import HOST, Server, accepts, missing, program
from .process import Process, run

_CREATE = (
    "SELECT format('CREATE DATABASE %I', :'name')"
    " WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \\gexec\n"
)


def postgresql_bin() -> Path | None:
    """Where PostgreSQL keeps its programs, the newest version's; Debian leaves them out of PATH."""

    def version(directory: Path) -> float:
        name = directory.parent.name
        return float(name) if name.replace(".", "", 1).isdigit() else 0.0

    found = [initdb.parent for initdb in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=version)
    elsewhere = missing("", "initdb")
    return None if elsewhere else Path(program("initdb")).parent


def clean_environment() -> dict[str, str]:
    """The environment without what would lead PostgreSQL to another server, or Patroni to other settings."""
    theirs = ("PG", "PATRONI", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(theirs)} | {"LC_ALL": "C"}


def psql(url: str, statements: str, **variables: str) -> str:
    """What psql prints: rows without headers, columns apart by `|`."""
    programs = postgresql_bin()
    assert programs is not None
    command = [str(programs / "psql"), "-X", "-w", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
    given = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
    return run([*command, *given, url], text=statements, env=clean_environment())


def create_database(url: str, name: str) -> None:
    """Make a database if it is not there, over a connection to another."""
    psql(url, _CREATE, name=name)


class PostgresServer(Server):
    """One PostgreSQL, UTF-8, that believes everybody."""

    name = "postgresql"
    user = "postgres"
    # Nothing here outlives the test run, so nothing is synced; to its clients a commit is what it always is.
    settings: ClassVar[dict[str, str]] = {
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "max_connections": "200",
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "on",
    }

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
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        process = Process(
            [str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *options],
            log=self.directory / "log",
            directory=self.directory,
            user=self.user,
            env=clean_environment(),
            stop_signal=signal.SIGQUIT,  # at once, and takes its own processes along
        )
        self.processes.append(process)
        process.wait_until(self._answers)

    def url(self, database: str) -> str:
        """Where a database is, there or not."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        """The address of a database, made if it is not there."""
        create_database(self.url("postgres"), name)
        return self.url(name)

    def ask(self, statements: str, *, database: str = "postgres") -> str:
        """What psql prints: rows without headers, columns apart by `|`."""
        return psql(self.url(database), statements)

    def _answers(self) -> bool:
        ready = [str(self.programs / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(ready, env=clean_environment(), check=False).returncode == 0


class PgBouncer(Server):
    """PgBouncer in transaction mode: between two transactions a client may be given another connection."""

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
        """Where a database of the server behind is reached through it."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"
