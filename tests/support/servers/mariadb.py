"""MariaDB with one node."""

from __future__ import annotations

import os
import shutil
import subprocess

from .base import HOST, Process, Server, missing, program, run

# Commits reach the log before the reply, but they are not synced, since the data need not survive a power cut.
SETTINGS = [
    f"--bind-address={HOST}",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--max-connections=300",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
]


class MariaServer(Server):
    """One MariaDB server with InnoDB. The user root needs no password."""

    name = "mariadb"
    user = "mysql"
    flush_method = "nosync"

    @classmethod
    def available(cls) -> str | None:
        return missing("mariadb-server", "mariadbd", "mariadb-install-db", "mariadb", "mariadb-admin")

    def launch(self) -> None:
        self.port = self.free_port()
        data = self.directory / "data"
        temporary = own_temporary_directory(self, "tmp")
        install_database(self, str(data), temporary)
        process = Process(
            [
                program("mariadbd"),
                "--no-defaults",
                f"--datadir={data}",
                temporary,
                f"--port={self.port}",
                "--socket=socket",  # relative to the data directory, because an absolute path could be too long
                f"--pid-file={self.directory}/pid",
                f"--innodb-flush-method={self.flush_method}",
                *SETTINGS,
            ],
            log=self.directory / "log",
            directory=self.directory,
            user=self.user,
        )
        self.processes.append(process)
        process.wait_until(lambda: answers(self.port))

    def url(self, database: str) -> str:
        """Return the URL of a database, which need not exist."""
        return f"mariadb://root@{HOST}:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        """Create a database if it does not exist, and return its URL."""
        ask(self.port, f"CREATE DATABASE IF NOT EXISTS `{name.replace('`', '``')}`")
        return self.url(name)


def own_temporary_directory(server: Server, name: str) -> str:
    """Create a directory for the temporary tables of one server, and return the option that names it.

    A server that starts removes all temporary tables in its directory. In /tmp these would also be the temporary tables
    of other servers, whose queries would then fail.
    """
    path = server.directory / name
    path.mkdir(exist_ok=True)
    if server.user is not None and os.geteuid() == 0:
        shutil.chown(path, server.user, server.user)
    return f"--tmpdir={path}"


def install_database(server: Server, data: str, temporary: str) -> None:
    """Create the system tables in a new data directory. `temporary` is the option of `own_temporary_directory`."""
    command = [program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", temporary, "--skip-test-db"]
    options = ["--auth-root-authentication-method=normal", "--innodb-flush-method=nosync", *SETTINGS[-3:]]
    run([*command, *options], user=server.user, cwd=server.directory)


def ask(port: int, statements: str, *, database: str = "mysql") -> str:
    """Return the output of the client on a node: rows without headers, columns separated by tabs."""
    client = [program("mariadb"), "--no-defaults", f"--host={HOST}", f"--port={port}", "--user=root", "-N", "-B"]
    return run([*client, database], text=statements)


def answers(port: int) -> bool:
    """Return whether a node accepts connections."""
    ping = [program("mariadb-admin"), "--no-defaults", f"--host={HOST}", f"--port={port}", "--user=root", "ping"]
    return subprocess.run(ping, capture_output=True, check=False).returncode == 0
