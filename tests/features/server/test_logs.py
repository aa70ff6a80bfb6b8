"""Logs of the server: ids and codes, and nothing that a client sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from threading import Semaphore
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.server.keys import id_in
from retentive.server.telemetry import Envelope, Telemetry
from support.http_api import Api

SECRET = "quetzalcoatl"
LOGGERS = ("", "retentive", "retentive.server", "retentive.server.requests", "uvicorn", "uvicorn.error", "asyncio")


REQUESTS = Semaphore(0)
"""Released for each logged request, which may be after its answer has arrived."""


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record once, though several loggers pass it on."""
        if record not in self.records:
            self.records.append(record)
            self.lines.append(self.format(record))
            if record.name == "retentive.server.requests":
                REQUESTS.release()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Lines of all logs, with tracebacks."""
    handler, before = Lines(), {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)
        logging.getLogger(name).addHandler(handler)
    yield handler.lines
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).removeHandler(handler)


def requests_in(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith('{"request_id"')]


def test_requests_are_logged_without_what_clients_send(api: Api, store: MemoryStore, at: str, lines: list[str]) -> None:
    made = api.post(f"{at}/memories", {"path": f"/{SECRET}.md", "content": SECRET}).body["id"]
    api.post(f"{at}/memories", {"path": f"/{SECRET}.md", "content": SECRET})
    api.get(f"{at}/memories?path_prefix=/{SECRET}/")
    api.get(f"{at}/memories?{SECRET}={SECRET}")
    api.get(f"{at}/memories/{SECRET}")
    api.get(f"/v1/memory_stores/{SECRET}/memories/{made}")
    api.get(f"/{SECRET}")
    api.send("POST", f"{at}/memories", f'{{"{SECRET}": NaN}}'.encode())
    api.send("PATCH", f"{at}/memories", SECRET.encode())
    api.get(at, authorization=f"Bearer {SECRET}", x_a=SECRET, retentive_actor=f"session:{SECRET}")
    api.get(at, retentive_actor=f"session:{SECRET}")
    api.get(at, anthropic_workspace_id=SECRET)
    new = api.post("/v1/organizations/api_keys", {"name": SECRET}).body["api_key"]
    assert all(REQUESTS.acquire(timeout=20) for _ in range(13))
    found = requests_in(lines)
    assert len(found) == 13
    assert [each for each in lines if SECRET in each.lower() or api.key in each or new in each] == []
    assert found[0] == {
        "request_id": found[0]["request_id"],
        "route": "/v1/memory_stores/{memory_store_id}/memories",
        "method": "POST",
        "status": 200,
        "ms": found[0]["ms"],
        "client": "127.0.0.1",
        "key_id": id_in(api.key),
        "workspace_id": "wrkspc_default",
        "memory_store_id": store.id,
    }
    assert found[1]["code"] == "already_exists"
    assert [(each.get("route"), each["method"]) for each in found[8:10]] == [
        (found[0]["route"], "other"),
        ("/v1/memory_stores/{memory_store_id}", "GET"),
    ]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_bug_is_logged_without_its_message(lines: list[str], has_begun: bool) -> None:
    """It gets 500, or its connection is cut. The log has its place in the code."""

    async def broken(_: Any, __: Any, send: Any) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ExceptionGroup(SECRET, [ValueError(SECRET)])

    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(
        Envelope(broken, Telemetry())({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)
    )
    assert [each["status"] for each in sent if "status" in each] == [200 if has_begun else 500]
    (line,) = [each for each in lines if "failed" in each]
    assert line.split(": ")[1].startswith("ValueError < test_logs.py:")
    assert SECRET not in str(lines) + str(sent)
