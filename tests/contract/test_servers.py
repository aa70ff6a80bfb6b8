"""Every server starts, answers requests and leaves no process or file behind.

Cluster nodes are killed and restarted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from support import servers
from support.servers import (
    AzuriteServer,
    PostgresServer,
    Server,
    ServerFailed,
)
from support.servers.base import accepts
from support.servers.process import poll

pytestmark = pytest.mark.long

_TESTS = Path(__file__).parents[1]


def gone(server: Server, directory: Path, *ports: int) -> bool:
    """Return True if no process and no file of the server is left."""
    return not directory.exists() and not server.processes and not any(accepts(port) for port in ports)


def test_a_server_stops_when_the_test_run_is_killed() -> None:
    """Processes of another user stop too, and the files are deleted."""
    servers.required(PostgresServer)
    imports = "import time; from support import servers"
    script = f"{imports}; s = servers.postgresql(); print(s.port, s.directory, flush=True); time.sleep(600)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_TESTS) as run:
        assert run.stdout is not None
        port, directory = run.stdout.readline().split()
        assert accepts(int(port))
        run.send_signal(signal.SIGKILL)
    poll(lambda: not accepts(int(port)) and not Path(directory).exists(), "the server is gone")


class WrongServer(PostgresServer):
    """PostgreSQL server with an invalid setting."""

    settings: ClassVar = {"max_connections": "none"}


def test_a_server_that_fails_reports_the_reason() -> None:
    """The error contains the end of the server's log, and no process or file is left."""
    servers.required(PostgresServer)
    server = WrongServer()
    with pytest.raises(ServerFailed, match='invalid value for parameter "max_connections"'):
        server.start()
    assert not server.processes
    assert Path() == server.directory


def test_a_missing_server_is_a_skip_and_in_ci_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTIVE_AZURITE", os.devnull)
    monkeypatch.delenv("RETENTIVE_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is not installed"):
        servers.required(AzuriteServer)
    monkeypatch.setenv("RETENTIVE_SERVERS", "required")
    with pytest.raises(ServerFailed, match="is not installed"):
        servers.required(AzuriteServer)
