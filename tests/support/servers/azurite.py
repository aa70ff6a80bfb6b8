"""Azurite: Azure Blob Storage in memory, with conditional requests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .base import HOST, Process, Server, find, program
from .web import Answer, answers, azure_headers, must, request

_PROGRAM = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")


def azurite_directory() -> Path:
    """Return the folder of `npm install --prefix`: `$RETENTIVE_AZURITE`, or `.cache/azurite` of the repository."""
    given = os.environ.get("RETENTIVE_AZURITE")
    return Path(given) if given else Path(__file__).parents[3] / ".cache" / "azurite"


class AzuriteServer(Server):
    """An Azure Blob Storage server that stores everything in memory."""

    name = "azurite"
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's key

    @classmethod
    def available(cls) -> str | None:
        if find("node") is None:
            return "node is not installed"
        return None if (azurite_directory() / _PROGRAM).exists() else "azurite is not installed (.ci/run installs it)"

    def launch(self) -> None:
        self.port = self.free_port()
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
        process = Process(
            [program("node"), str(azurite_directory() / _PROGRAM), "--blobPort", str(self.port), *options],
            log=self.directory / "log",
            directory=self.directory,
        )
        self.processes.append(process)
        process.wait_until(lambda: answers(self.port))

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        return f"http://{HOST}:{self.port}/{self.account}"

    def new_container(self, name: str) -> str:
        """Create a container if it does not exist, and return its name."""
        must(self.request("PUT", f"/{name}?restype=container"), 201, 409)
        return name

    def request(self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Send a signed request and return the answer. `path` begins with the container."""
        whole = f"/{self.account}{path}"
        signed = azure_headers(method, whole, headers, account=self.account, key=self.key, length=len(body))
        return request(self.port, method, whole, body=body, headers=signed)
