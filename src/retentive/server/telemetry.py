"""Observes requests: headers and logs around each request, metrics for Prometheus, spans and metrics for OpenTelemetry.

Spans are named by the conventions for HTTP and for generative AI. Each request has a server span, which continues the
trace of the client. A memory operation has a span inside the span of its request. Spans contain memory texts, paths and
queries only if the environment variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` turns this on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import opentelemetry.metrics
from opentelemetry import propagate, trace
from opentelemetry.metrics import Observation
from opentelemetry.trace import SpanKind, Status, StatusCode
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from starlette.responses import Response

from retentive import __version__
from retentive.server.errors import HttpError, error_response
from retentive.server.metrics import (
    COMMITS,
    DURATIONS,
    LIMITED,
    REGISTRY,
    REQUESTS,
    STORAGE_ERRORS,
    WAITS,
)
from retentive.server.requests import client_address
from retentive.wire.memories import MemoryObject
from retentive.wire.stores import StoreObject

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retentive.server.calls import Route, RouteAnswer, RouteCall

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable that names the directory in which the worker processes store their metrics."""
STORAGE_CODES = frozenset(
    ("storage_read_only", "store_full", "unavailable", "outcome_unknown", "damaged", "unknown_schema", "locked")
)
METHODS = frozenset({"GET", "POST", "DELETE"})
HSTS = b"max-age=31536000"
"""Value of `Strict-Transport-Security`: for a year, browsers use TLS for this host name only (RFC 6797)."""
_LIVE = re.compile(r"gauge_live\w*_(\d+)\.db")
_QUIET: Any = {"record_exception": False, "set_status_on_exception": False}
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
OPERATIONS: Mapping[str, str] = {
    "create_memory_store": "create_memory_store",
    "delete_memory_store": "delete_memory_store",
    "create_memory": "create_memory",
    "update_memory": "update_memory",
    "delete_memory": "delete_memory",
    "erase_memory": "delete_memory",
    "retrieve_memory": "search_memory",
    "list_memories": "search_memory",
    "search_memories": "search_memory",
    "tool view": "search_memory",
    "tool create": "upsert_memory",
    "tool str_replace": "update_memory",
    "tool insert": "update_memory",
    "tool rename": "update_memory",
    "tool delete": "delete_memory",
}
"""Maps the name of a route, or a command of the memory tool, to the value of `gen_ai.operation.name`."""


def metrics_answer(location: Collector) -> Response:
    """Return the response with the metrics of all worker processes of this server, in the text format of Prometheus.

    `location` collects those of the location.
    """
    registry, directory = REGISTRY, os.environ.get(DIRECTORY)
    if directory is not None:
        for name in os.listdir(directory):
            if found := _LIVE.fullmatch(name):
                try:
                    os.kill(int(found[1]), 0)
                except ProcessLookupError:
                    mark_process_dead(int(found[1]))  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    of = CollectorRegistry()
    of.register(location)
    return Response(generate_latest(registry) + generate_latest(of), media_type=CONTENT_TYPE_LATEST)


class Telemetry:
    """Metrics and spans of requests. By default it uses the OpenTelemetry providers of the process."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        self._tracer = trace.get_tracer("retentive.server", __version__, tracers)
        meter = opentelemetry.metrics.get_meter("retentive.server", __version__, meters)
        self._requests = meter.create_histogram("http.server.request.duration", "s", "Duration of HTTP requests")
        self._operations = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of operations")
        self._captures = os.environ.get(CAPTURE, "").lower() in {"true", "span_only", "span_and_event"}

    @contextmanager
    def request(self, scope: Scope, state: Mapping[str, Any]) -> Iterator[None]:
        """Measure a request, and create its span.

        When the block ends, `state` must contain the route, status and code of the request.
        """
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        started, given = time.perf_counter(), scope["method"] if scope["method"] in METHODS else "HTTP"
        method = "_OTHER" if given == "HTTP" else given  # clients may send any text
        try:
            parent = propagate.extract(headers)
            with self._tracer.start_as_current_span(given, parent, SpanKind.SERVER, **_QUIET) as span:
                yield
                found = {"http.request.method": method, "url.scheme": scope.get("scheme", "http")}
                found["http.response.status_code"] = state["status"]
                if route := _route(scope):
                    found["http.route"] = route
                    span.update_name(f"{given} {route}")
                if state["status"] >= 500:
                    found["error.type"] = state.get("code") or str(state["status"])
                    span.set_status(Status(StatusCode.ERROR))
                own = {"retentive.request_id": state["request_id"], "client.address": client_address(scope)}
                span.set_attributes({**found, **own})
                self._requests.record(time.perf_counter() - started, found)
        finally:
            route, method = _route(scope) or "other", "other" if given == "HTTP" else given
            code = state.get("code") or ""
            REQUESTS.labels(route, method, str(state["status"]), code).inc()
            if "is_stream" not in state:
                DURATIONS.labels(route, method).observe(time.perf_counter() - started)
            if code == "rate_limited":
                LIMITED.labels(route, method).inc()
            if code in STORAGE_CODES:
                STORAGE_ERRORS.labels(code).inc()

    def observed(self, route: Route, call: RouteCall, work: Callable[[], RouteAnswer]) -> Callable[[], RouteAnswer]:
        """Return a function that calls `work`, and records its wait for a thread, its span, and whether it changed."""
        queued, given = time.perf_counter(), call.given.get("input")
        command = given.get("command") if route.name == "run_tool" and isinstance(given, Mapping) else None
        operation = OPERATIONS.get(route.name if route.name != "run_tool" else f"tool {command}")
        is_change = route.method != "GET" and route.scopes != ("read",) and command != "view"

        def run() -> RouteAnswer:
            WAITS.observe(time.perf_counter() - queued)
            answer = work() if operation is None else self._operated(operation, call, work)
            if is_change and not getattr(answer, "is_error", False):
                COMMITS.labels(route.path, route.method).inc()
            return answer

        return run

    def _operated(self, operation: str, call: RouteCall, work: Callable[[], RouteAnswer]) -> RouteAnswer:
        """Call `work` in the span of its memory operation."""
        started, kind, error = time.perf_counter(), {"gen_ai.operation.name": operation}, dict[str, str]()
        with self._tracer.start_as_current_span(operation, kind=SpanKind.INTERNAL, attributes=kind, **_QUIET) as span:
            for id_name, attribute in (("memory_store_id", "store"), ("memory_id", "record")):
                if id_name in call.ids:
                    span.set_attribute(f"gen_ai.memory.{attribute}.id", call.ids[id_name])
            query = call.given.get("query")
            if self._captures and isinstance(query, str):
                span.set_attribute("gen_ai.memory.query.text", query)
            try:
                answer = work()
            except Exception as raised:
                error = {"error.type": getattr(raised, "code", type(raised).__name__)}
                span.set_attributes(error)
                span.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                self._operations.record(time.perf_counter() - started, {**kind, **error})
            self._describe(span, answer)
        return answer

    def _describe(self, span: Span, answer: object) -> None:
        if getattr(answer, "is_error", False):
            span.set_attribute("error.type", "tool_error")
        for model, attribute in ((MemoryObject, "record"), (StoreObject, "store")):
            if isinstance(answer, model):
                span.set_attribute(f"gen_ai.memory.{attribute}.id", answer.id)
        records = [answer] if isinstance(answer, MemoryObject) else getattr(answer, "data", None)
        if records is not None:
            span.set_attribute("gen_ai.memory.record.count", len(records))
            if self._captures:
                span.set_attribute("gen_ai.memory.records", f"[{','.join(each.model_dump_json() for each in records)}]")


def exporting(location: Collector) -> tuple[Telemetry, Callable[[], None]]:
    """Return a `Telemetry` that exports to the endpoint in the environment, and a function that stops it.

    The counters and gauges for Prometheus are exported too, named so that a translation to Prometheus has its names.
    `location` collects some of them.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - slow
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - slow
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - slow
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415 - slow
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - slow
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - slow
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - slow

    name = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "retentive"}
    named = {"service.version": __version__, "service.instance.id": str(uuid.uuid4())} | name
    resource = Resource.create(named)
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
    meter = meters.get_meter("retentive.server", __version__)
    create = {"gauge": meter.create_observable_gauge, "counter": meter.create_observable_counter}
    for collector in (REGISTRY, location):
        for family in collector.collect():
            if family.type in create:
                observed = partial(_observed, collector, family.name)
                base = family.name.removesuffix("_seconds")
                unit = "s" if base != family.name else ""
                create[family.type](base.replace("_", ".", 1), [observed], unit, family.documentation)

    def stop() -> None:
        tracers.shutdown()
        meters.shutdown()

    return Telemetry(tracers, meters), stop


def _observed(collector: Collector, name: str, _: CallbackOptions) -> list[Observation]:
    """Return the present values of a metric of Prometheus."""
    samples = [sample for family in collector.collect() if family.name == name for sample in family.samples]
    return [Observation(each.value, each.labels) for each in samples if not each.name.endswith("_created")]


LOGGERS = ("retentive", "uvicorn", "mcp")


class JsonLog(logging.Formatter):
    """Formats log records as lines of JSON.

    An exception is logged without its message, because it may quote a memory.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = described(record.exc_info[1])
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
                named = {name for name, _ in message.get("headers", [])}  # the gateway forwards the id of the API
                added = [] if b"request-id" in named else [(b"request-id", state["request_id"].encode("ascii"))]
                if "workspace_id" in state:
                    added.append((b"anthropic-workspace-id", state["workspace_id"].encode("utf-8")))
                if scope.get("scheme") == "https":
                    added.append((b"strict-transport-security", HSTS))
                added += [(name.encode(), value.encode()) for name, value in state.get("rate", {}).items()]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        try:
            with self._telemetry.request(scope, state):
                try:
                    await self._app(scope, receive, send_with_headers)
                except Exception as error:
                    BUGS.error("request %s failed: %s", state["request_id"], described(error))
                    if not state["status"]:  # otherwise part of the answer is sent, and uvicorn closes the connection
                        bug = HttpError(500, "api_error", "internal error", "error")
                        await error_response(scope, bug)(scope, receive, send_with_headers)
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


def _route(scope: Scope) -> str | None:
    """Return the template of the path, such as `/v1/memory_stores/{memory_store_id}`. None if no route matched."""
    return getattr(scope.get("route"), "path", None)


def _log(scope: Scope, state: dict[str, Any], seconds: float) -> None:
    """Log a request as one line of JSON. The line contains no bodies, no memory paths and no queries."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    store_id = scope.get("path_params", {}).get("memory_store_id", "")
    line = {
        "request_id": state["request_id"],
        "route": _route(scope),
        "method": scope["method"] if scope["method"] in METHODS else "other",
        "status": state["status"],
        "ms": round(seconds * 1000, 1),
        "client": client_address(scope) or None,
        "key_id": state.get("key_id"),
        "workspace_id": state.get("workspace_id"),
        "memory_store_id": store_id if STORE_ID.fullmatch(store_id) else None,  # a client may send any text
        "code": state.get("code"),
    }
    fields = {name: value for name, value in line.items() if value is not None}
    LOG.info("%s", json.dumps(fields), extra={"fields": fields})
