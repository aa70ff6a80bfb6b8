"""Observes requests: headers and logs around each request, metrics for Prometheus, spans."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from retentive.server.background import MaintenanceRun
from retentive.server.errors import HttpError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retentive.server.calls import Route, RouteAnswer, RouteCall
    from retentive.server.tracing import Tracing

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable that names the directory in which the worker processes store their metrics."""
STORAGE_CODES = frozenset(
    ("storage_read_only", "store_full", "unavailable", "outcome_unknown", "damaged", "unknown_schema", "locked")
)
METHODS = frozenset({"GET", "POST", "DELETE"})
STREAMS = "/events"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LIVE = re.compile(r"gauge_live\w*_(\d+)\.db")


class Metrics:
    """Metrics of one process. Threads may share it."""

    def __init__(self) -> None:
        of = self._registry = CollectorRegistry()
        route = ("route", "method")
        self._requests = Counter(
            "retentive_http_requests", "Answered requests.", (*route, "status", "code"), registry=of
        )
        self._seconds = Histogram(
            "retentive_http_request_duration_seconds", "Time of requests.", route, registry=of, buckets=_SECONDS
        )
        self.commits = Counter("retentive_commits", "Changes that were answered with success.", route, registry=of)
        self.wait = Histogram(
            "retentive_queue_wait_seconds", "Time that calls waited for a thread.", registry=of, buckets=_SECONDS
        )
        self.streams = Gauge("retentive_event_streams", "Open event streams.", registry=of, multiprocess_mode="livesum")
        self._limited = Counter("retentive_rate_limited", "Requests over the rate of their key.", route, registry=of)
        self._storage = Counter("retentive_storage_errors", "Failures of storage.", ("code",), registry=of)

    def count_request(self, method: str, state: Mapping[str, Any], seconds: float) -> None:
        """Count a finished request. `state` has its route, status and error code, and `seconds` is its duration."""
        route, code = state.get("route") or "other", state.get("code") or ""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(state["status"]), code).inc()
        if not route.endswith(STREAMS):
            self._seconds.labels(route, method).observe(seconds)
        if state["status"] == 429:
            self._limited.labels(route, method).inc()
        if code in STORAGE_CODES:
            self._storage.labels(code).inc()

    def text(self, last_run: Callable[[], MaintenanceRun | None]) -> bytes:
        """Return the metrics of all worker processes of this server, in the text format of Prometheus."""
        run = last_run()
        if run is None:
            return self._of_processes()
        of = CollectorRegistry()
        ended = "retentive_maintenance_last_end_timestamp_seconds"
        Gauge(ended, "End of the last maintenance, of any process.", registry=of).set(run.finished_at)
        Gauge("retentive_maintenance_last_ok", "1 if it succeeded, else 0.", registry=of).set(run.is_ok)
        return self._of_processes() + generate_latest(of)

    def _of_processes(self) -> bytes:
        directory = os.environ.get(DIRECTORY)
        if directory is None:
            return generate_latest(self._registry)
        for name in os.listdir(directory):
            if found := _LIVE.fullmatch(name):
                try:
                    os.kill(int(found[1]), 0)
                except ProcessLookupError:
                    mark_process_dead(int(found[1]))  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    @property
    def media_type(self) -> str:
        """Media type of the bytes that `text` returns."""
        return CONTENT_TYPE_LATEST


@cache
def metrics() -> Metrics:
    """Return the metrics of this process."""
    return Metrics()


LOGGERS = ("retentive", "uvicorn", "mcp")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Metrics and tracing of a server. Each is None if it is not configured."""

    metrics: Metrics | None = None
    tracing: Tracing | None = None

    @contextmanager
    def request(self, scope: Scope, state: Mapping[str, Any]) -> Iterator[None]:
        """Measure a request until the block ends.

        By then, `state` must contain the route, status and code of the request.
        """
        started, metrics = time.perf_counter(), self.metrics
        is_stream = metrics is not None and scope["path"].endswith(STREAMS)
        if metrics is not None and is_stream:
            metrics.streams.inc()
        try:
            with nullcontext() if self.tracing is None else self.tracing.request(scope, state):
                yield
        finally:
            if metrics is not None:
                metrics.count_request(scope["method"], state, time.perf_counter() - started)
                if is_stream:
                    metrics.streams.dec()

    def observed(self, route: Route, call: RouteCall, work: Callable[[], RouteAnswer]) -> Callable[[], RouteAnswer]:
        """Return a function that calls `work` and observes this call.

        It records how long the call waited, the span of the call, and whether a change was made.
        """
        queued, metrics = time.perf_counter(), self.metrics

        def run() -> RouteAnswer:
            if metrics is not None:
                metrics.wait.observe(time.perf_counter() - queued)
            answer = work() if self.tracing is None else self.tracing.operation(route, call, _command(call), work)
            if metrics is not None and _is_change(route, call) and not getattr(answer, "is_error", False):
                metrics.commits.labels(route.path, route.method).inc()
            return answer

        return run


def _command(call: RouteCall) -> str:
    """Return the command in the input of a tool_use block, or an empty string if there is none."""
    given = call.given.get("input")
    found = given.get("command") if isinstance(given, Mapping) else None
    return found if isinstance(found, str) else ""


def _is_change(route: Route, call: RouteCall) -> bool:
    if route.method == "GET" or route.scopes == ("read",):
        return False
    return not (route.name == "run_tool" and _command(call) == "view")


class JsonLog(logging.Formatter):
    """Formats log records as lines of JSON.

    An exception is logged as its type and its lines of code. Its message is left out, because it may quote a memory.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["frames"] = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(line, ensure_ascii=False)


def log_as_json(*, requests: bool) -> None:
    """Write the logs of the server to standard error as JSON. With `requests`, each request is logged too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLog())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("retentive.server").setLevel(logging.INFO)
    logging.getLogger("retentive.server.requests").setLevel(logging.INFO if requests else logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.ERROR)  # the warnings of this package quote requests


LOG = logging.getLogger("retentive.server.requests")
STORE_ID = re.compile(r"memstore_[0-9a-f]{32}")
BUGS = logging.getLogger("retentive.server")


class Envelope:
    """ASGI middleware around all routes, which adds headers, handles bugs and logs requests."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, then log it. An unexpected exception becomes status 500."""
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
                try:
                    await self._app(scope, receive, send_with_headers)
                except Exception as error:
                    BUGS.error("request %s failed: %s", state["request_id"], described(error))
                    if not state["status"]:  # otherwise part of the answer is sent, and uvicorn closes the connection
                        state["code"], bug = "error", HttpError(500, "api_error", "internal error", "error")
                        body = bug.body(state["request_id"])
                        named = {"content-type": "application/json", "content-length": str(len(body)), **bug.headers()}
                        headers = [(name.encode(), value.encode()) for name, value in named.items()]
                        await send_with_headers({"type": "http.response.start", "status": 500, "headers": headers})
                        await send_with_headers({"type": "http.response.body", "body": body})
        finally:
            _log(scope, state, time.perf_counter() - started)


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
