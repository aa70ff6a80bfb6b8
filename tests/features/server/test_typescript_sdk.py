"""The official TypeScript SDK over every route that Anthropic hosts, against `retentive serve`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retentive.server.handlers import ROUTES
from support import node
from support.server_process import started

DRIVER = Path(__file__).parent / "every_route.mjs"
HOSTED = re.compile(
    r"/v1/memory_stores(/\{memory_store_id\}(/archive|/(memories|memory_versions)(/\{\w+\}(/redact)?)?)?)?"
)
KEYS = "/v1/organizations/api_keys"


def hosted() -> set[tuple[str, str]]:
    """Routes of the SDK. It has none that creates a key."""
    found = {(route.method, route.path) for route in ROUTES if HOSTED.fullmatch(route.path)}
    return found | {("GET", KEYS), ("GET", f"{KEYS}/{{api_key_id}}"), ("POST", f"{KEYS}/{{api_key_id}}")}


@pytest.mark.long
def test_the_typescript_sdk_drives_every_hosted_route(tmp_path: Path) -> None:
    """Each route answers with success at least once, and no answer is an error of the server."""
    folder = node.modules(node.SDK)
    with started("--at", f"sqlite:///{tmp_path}/memory.db", directory=tmp_path) as (_, lines):
        key, url = (line.rpartition(" ")[2] for line in (lines[0], lines[-1]))
        printed = node.output(DRIVER, tmp_path, folder, MEMORY_URL=url, MEMORY_KEY=key)
    requests = [line.split() for line in printed.splitlines()]
    assert [request for request in requests if int(request[2]) >= 500] == []
    answered = {(method, path) for method, path, status in requests if status == "200"}
    assert {route for route in hosted() if not any(fits(route, sent) for sent in answered)} == set()
    assert len(hosted()) == 17


def fits(route: tuple[str, str], request: tuple[str, str]) -> bool:
    """True if a request is one of the route."""
    return route[0] == request[0] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route[1]), request[1]) is not None
