"""Wraps every request: adds headers to the response, sends status 500 if there is a bug, and logs the request."""

from __future__ import annotations

import json
import logging
import os
import re
import time
import traceback
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from retentive.server.errors import HttpError
from retentive.server.telemetry import Telemetry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("retentive.server.requests")
STORE_ID = re.compile(r"memstore_[0-9a-f]{32}")
BUGS = logging.getLogger("retentive.server")


class Envelope:
    """ASGI middleware around all routes, which adds headers, handles bugs and logs requests."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, then log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["state"] = {**scope.get("state", {}), "request_id": f"req_{os.urandom(12).hex()}", "status": 0}
        started = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                added = [(b"request-id", state["request_id"].encode("ascii"))]
                if "workspace_id" in state:
                    added.append((b"anthropic-workspace-id", state["workspace_id"].encode("utf-8")))
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        try:
            with self._telemetry.request(scope, state):
                await self._pass(scope, receive, send_with_headers)
        finally:
            _log(scope, state, time.perf_counter() - started)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application. If it raises an unexpected exception, send status 500."""
        state = scope["state"]
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            BUGS.error("request %s failed: %s", state["request_id"], described(error))
            if state["status"]:
                return  # part of the answer is sent already, and uvicorn closes the connection
            state["code"], bug = "error", HttpError(500, "api_error", "internal error", "error")
            body, headers = bug.body(state["request_id"]), bug.headers()
            await Response(body, bug.status, headers, media_type="application/json")(scope, receive, send)


def described(error: BaseException) -> str:
    """Return the type of an error and the places in its traceback.

    The message of the error is left out, because it may quote the body of a request or a memory.
    """
    frames = traceback.extract_tb(error.__traceback__)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        frames += traceback.extract_tb(error.__traceback__)
    places = [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    return " < ".join([type(error).__name__, *places])


def _log(scope: Scope, state: dict[str, Any], seconds: float) -> None:
    """Log a request as one line of JSON. The line contains no bodies, no memory paths and no queries."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    store_id = scope.get("path_params", {}).get("memory_store_id", "")
    line = {
        "request_id": state["request_id"],
        "route": state.get("route"),
        "method": scope["method"],
        "status": state["status"],
        "ms": round(seconds * 1000, 1),
        "key_id": state.get("key_id"),
        "workspace_id": state.get("workspace_id"),
        "memory_store_id": store_id if STORE_ID.fullmatch(store_id) else None,  # a client may send any text
        "code": state.get("code"),
    }
    fields = {name: value for name, value in line.items() if value is not None}
    LOG.info("%s", json.dumps(fields), extra={"fields": fields})
