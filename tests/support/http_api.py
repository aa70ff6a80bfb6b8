"""Server for tests: uvicorn in a thread, over an open location, and a client that checks every answer."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

import retentive
from retentive.server.application import Server, application
from retentive.server.calls import ServedLocation
from retentive.server.openapi import document
from retentive.server.protocol import ClientConnection

HOST = "127.0.0.1"
STARTED_S = 30
UNLISTED = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/.well-known/", "/mcp", "/oauth/")


@dataclass
class Answer:
    """Answer of the server. `body` is the parsed JSON, or the bytes of another media type."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.body["error"]
        return error


@dataclass
class Api:
    """Sends requests with a key. `check` compares each answer with the OpenAPI document."""

    url: str
    key: str
    place: ServedLocation
    server: Server | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def with_key(self, *scopes: str, **options: Any) -> Api:
        """The same server with a new key of the same workspace."""
        made = self.place.keys.create("test", scopes=scopes, **options)
        return Api(self.url, made.text, self.place)

    def send_as(self, actor: str) -> Api:
        """The same key, with an actor in the header."""
        return Api(self.url, self.key, self.place, headers={"retentive-actor": actor})

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.send("POST", path, None if body is None else json.dumps(body).encode(), headers)

    def initialize(self, path: str = "/mcp?store=team") -> Answer:
        """Begin a session of MCP."""
        headers = {"accept": "application/json, text/event-stream", "content_type": "application/json"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        return self.post(path, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.send("DELETE", path, headers=headers)

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request on a new connection. Underscores in the names of headers are hyphens."""
        given = {name.replace("_", "-"): value for name, value in {**self.headers, **(headers or {})}.items()}
        sent = {"authorization": f"Bearer {self.key}"} if self.key and "x-api-key" not in given else {}
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or HOST, parts.port, timeout=30)
        try:
            connection.request(method, path, body, {**sent, **given})
            response = connection.getresponse()
            data, found = response.read(), {name.lower(): value for name, value in response.getheaders()}
        finally:
            connection.close()
        is_json = found.get("content-type") == "application/json"
        answer = Answer(response.status, found, json.loads(data) if is_json else data)
        check(method, path, answer)
        return answer


def api_of(url: str, key: str, opened: retentive.Retentive) -> Api:
    """The API of a server in another process, over the location `opened`."""
    return Api(url, key, ServedLocation(opened))


def another_version(opened: retentive.Retentive, kind: str) -> None:
    """Rewrite the records of a kind as another version of retentive may: with other fields, spaces and escapes."""
    for name, text in opened.records.list(kind):
        opened.records.put(kind, name, json.dumps({**json.loads(text), "added": None}))


def check(method: str, path: str, answer: Answer) -> None:
    """Compare an answer with the OpenAPI document and with the rules for all answers."""
    assert re.fullmatch(r"req_[0-9a-f]{24}", answer.headers["request-id"])
    if answer.status >= 400 and "jsonrpc" not in answer.body:
        assert answer.body["request_id"] == answer.headers["request-id"]
        assert ("x-should-retry" in answer.headers) == (answer.status in {409, 500, 507})
        assert ("retry-after" in answer.headers) == (answer.status in {429, 503})
    operation = _operation(method, path.partition("?")[0])
    if operation is None:
        assert answer.status in {404, 405} or path.startswith(UNLISTED)
        return
    assert str(answer.status) in operation["responses"], f"{method} {path}: {answer.status} is not documented"
    documented = operation["responses"][str(answer.status)]
    components: Any = document()["components"]
    content = components["responses"].get(documented.get("$ref", "").rpartition("/")[2], documented)["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": document()["components"]}
        Draft202012Validator(schema).validate(answer.body)


def fields_in(model: type[BaseModel] | None) -> dict[str, dict[str, Any]]:
    """Schemas of the fields of a query or a body. Those of required fields have `required`."""
    found = {} if model is None else model.model_json_schema()
    needed = found.get("required", ())
    return {name: {**each, "required": name in needed} for name, each in found.get("properties", {}).items()}


@cache
def _patterns() -> list[tuple[re.Pattern[str], Any]]:
    paths: Any = document()["paths"]
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), found) for path, found in paths.items()]


def _operation(method: str, path: str) -> Any:
    return next((found.get(method.lower()) for pattern, found in _patterns() if pattern.fullmatch(path)), None)


def with_key(app: ASGIApp, key: str) -> ASGIApp:
    """The application, whose requests all have a key."""

    async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            others = [(name, value) for name, value in scope["headers"] if name != b"x-api-key"]
            scope = {**scope, "headers": [*others, (b"x-api-key", key.encode())]}
        await app(scope, receive, send)

    return keyed


@contextmanager
def serving(
    opened: retentive.Retentive,
    *,
    http: type[ClientConnection] = ClientConnection,
    tls: Mapping[str, Any] | None = None,
    more: Callable[[Server], Iterable[BaseRoute]] = lambda _: (),
    adds_key: bool = False,
    port: int = 0,
    to_private: bool = False,
    **options: Any,
) -> Iterator[Api]:
    """Serve an open location on the loopback interface while the block runs. The key is that of an admin.

    With `adds_key`, each request gets this key, for programs that send none.
    """
    place = ServedLocation(opened, webhooks_to_private=to_private)
    served = Server(place, **options)
    key = place.keys.create("admin of the tests", scopes=("admin",))
    made = application(served, more=more(served))
    app = with_key(made, key.text) if adds_key else made
    listener = socket.create_server((HOST, port))
    listener = socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, http=http, ws="none", timeout_graceful_shutdown=5, **(tls or {})
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield Api(f"http://{HOST}:{listener.getsockname()[1]}", key.text, place, served)
    finally:
        server.should_exit = True
        thread.join(STARTED_S)
        listener.close()
