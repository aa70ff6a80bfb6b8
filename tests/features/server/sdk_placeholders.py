"""A proxy for the generated tests of the SDK. They send placeholders, such as the id `memory_store_id`.

For each request the proxy makes a memory store with a memory of two versions, and puts in their ids, hashes and valid
values. Everything else passes unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_BODY = {"memory_stores/memory_store_id": {"name": "renamed"}, "memories/memory_id": {"content": "y"}}
_DROPPED = frozenset({"page"})


class Requests:
    """JSON requests to the server."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.key = parts.hostname or "", parts.port, key

    def send(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of an answer."""
        connection = HTTPConnection(self.host, self.port, timeout=30)
        try:
            kept = {name: value for name, value in headers.items() if name.lower() in _PASSED}
            connection.request(method, target, body, kept | {"authorization": f"Bearer {self.key}"})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def post(self, target: str, body: object) -> dict[str, Any]:
        """The JSON of an answer, which must be 200."""
        status, _, text = self.send("POST", target, json.dumps(body).encode(), {"content-type": "application/json"})
        assert status == 200, (target, text)
        found: dict[str, Any] = json.loads(text)
        return found


_PASSED = frozenset({"content-type", "accept", "anthropic-beta", "anthropic-version", "traceparent"})


def _made(api: Requests) -> dict[str, str]:
    """Values for the placeholders: a new store, its memory, the older of its versions, and the hash of its content."""
    store = api.post("/v1/memory_stores", {"name": "conformance"})["id"]
    memories = f"/v1/memory_stores/{store}/memories"
    first = api.post(memories, {"path": "/made", "content": "x"})
    second = api.post(f"{memories}/{first['id']}", {"content": "xx"})
    return {
        "memory_store_id": store,
        "memory_id": first["id"],
        "memory_version_id": first["memory_version_id"],
        "hash": second["content_sha256"],
    }


def _query(query: str, made: Mapping[str, str]) -> str:
    valid = {"limit": "1", "path_prefix": "/", "memory_id": made["memory_id"], "expected_content_sha256": made["hash"]}
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(name, valid.get(name, value)) for name, value in pairs if name not in _DROPPED])


def _body(path: str, body: bytes, made: Mapping[str, str]) -> bytes:
    given = json.loads(body or b"{}")
    if not given:
        found = next((valid for end, valid in _BODY.items() if path.endswith(end)), None)
        return body if found is None else json.dumps(found).encode()
    if given.get("precondition"):
        given["precondition"]["content_sha256"] = made["hash"]
    return json.dumps(given).encode()


def handler(url: str, key: str) -> type[BaseHTTPRequestHandler]:
    """Handler of the requests of the proxy for a server."""
    api = Requests(url, key)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            made, parts = _made(api), urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = "/".join(quote(made.get(segment, segment)) for segment in parts.path.split("/"))
            sent = _body(parts.path, body, made) if self.command == "POST" else body
            query = _query(parts.query, made)
            status, headers, text = api.send(
                self.command, f"{path}?{query}" if query else path, sent, dict(self.headers)
            )
            self.send_response(status)
            for name, value in headers:
                if re.fullmatch("content-type|request-id|x-should-retry|anthropic-.*", name, re.IGNORECASE):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = _pass
        do_POST = _pass
        do_DELETE = _pass

        def log_message(self, *_: object) -> None:
            pass

    return Proxy
