"""moto: S3 in memory, with conditional requests."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from .base import HOST, Process, Server
from .web import Answer, answers, must, request, s3_headers


class MotoServer(Server):
    """An S3 server that stores everything in memory."""

    name = "moto"
    access_key = "testing"
    secret_key = "testing"
    region = "us-east-1"

    @classmethod
    def available(cls) -> str | None:
        there = find_spec("moto") and find_spec("flask")
        return None if there else "moto[server] is not installed"

    def launch(self) -> None:
        self.port = self.free_port()
        process = Process(
            [sys.executable, "-P", str(Path(__file__).with_name("moto_app.py")), HOST, str(self.port)],
            log=self.directory / "log",
            directory=self.directory,
        )
        self.processes.append(process)
        process.wait_until(lambda: answers(self.port))

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://{HOST}:{self.port}"

    def new_bucket(self, name: str) -> str:
        """Create a bucket if it does not exist, and return its name."""
        answer = self.request("PUT", f"/{name}")
        for _ in range(20):  # moto fails if two threads create their first buckets at the same time
            if answer.status != 500:
                break
            time.sleep(0.1)
            answer = self.request("PUT", f"/{name}")
        must(answer, 200)
        return name

    def request(self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Send a signed request and return the answer. `path` begins with the bucket."""
        signed = s3_headers(method, path, headers, access_key=self.access_key, secret_key=self.secret_key)
        return request(self.port, method, path, body=body, headers=signed)
