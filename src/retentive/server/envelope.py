"""Headers that every answer has, answers for bugs, and the log of requests."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any

from retentive.server.errors import ApiError
from retentive.server.telemetry import Telemetry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("retentive.server.requests")
BUGS = logging.getLogger("retentive.server")


class Envelope:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["state"] = {**scope.get("state", {}), "request_id": f"req_{os.urandom(12).hex()}", "status": 0}
        started = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *_headers(state)]
            await send(message)

        try:
            with self._telemetry.request(scope, state):
                await self._pass(scope, receive, send_with_headers)
        finally:
            _log(scope, state, time.perf_counter() - started)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer 500 for a bug."""
        state = scope["state"]
        try:
            await self._app(scope, receive, send)
        except Exception:
            BUGS.exception("request %s failed", state["request_id"])
            if state["status"]:
                raise  # the answer has begun, so the connection must be cut
            state["code"] = "error"
            await _send_bug(state["request_id"], send)


def _headers(state: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    found = [(b"request-id", state["request_id"].encode("ascii"))]
    if "workspace_id" in state:
        found.append((b"anthropic-workspace-id", state["workspace_id"].encode("utf-8")))
    return found


async def _send_bug(request_id: str, send: Send) -> None:
    error = ApiError(500, "api_error", "internal error", "error")
    headers = {"content-type": "application/json", **error.headers()}
    raw = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": json.dumps(error.body(request_id)).encode("ascii")})


def _log(scope: Scope, state: dict[str, Any], seconds: float) -> None:
    """Log one line without bodies, memory paths and queries."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    ids = scope.get("path_params", {})
    line = {
        "request_id": state["request_id"],
        "route": state.get("route"),
        "method": scope["method"],
        "status": state["status"],
        "ms": round(seconds * 1000, 1),
        "key_id": state.get("key_id"),
        "workspace_id": state.get("workspace_id"),
        "memory_store_id": ids.get("memory_store_id"),
        "code": state.get("code"),
    }
    fields = {name: value for name, value in line.items() if value is not None}
    LOG.info("%s", json.dumps(fields), extra={"fields": fields})
