"""Spans and metrics for OpenTelemetry, named by its conventions for HTTP and for generative AI.

Each request has a server span, which continues the trace of the client. A memory operation has a span inside the span
of its request. Spans contain memory texts, paths and queries only if the environment variable
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` turns this on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from retentive import __version__
from retentive.wire.memories import MemoryObject
from retentive.wire.stores import StoreObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from starlette.types import Scope

    from retentive.server.calls import Route, RouteCall

T = TypeVar("T")
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
}
"""Maps the name of a route to the value of `gen_ai.operation.name`."""
COMMANDS: Mapping[str, str] = {
    "view": "search_memory",
    "create": "upsert_memory",
    "str_replace": "update_memory",
    "insert": "update_memory",
    "rename": "update_memory",
    "delete": "delete_memory",
}
"""Maps a command of the memory tool to the value of `gen_ai.operation.name`."""


class Tracing:
    """Creates spans. By default it uses the OpenTelemetry providers of the process."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        self._tracer = trace.get_tracer("retentive.server", __version__, tracers)
        meter = metrics.get_meter("retentive.server", __version__, meters)
        self._requests = meter.create_histogram("http.server.request.duration", "s", "Duration of HTTP requests")
        self._operations = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of operations")
        self._captures = os.environ.get(CAPTURE, "").lower() in {"true", "span_only", "span_and_event"}

    @contextmanager
    def request(self, scope: Scope, state: Mapping[str, Any]) -> Iterator[None]:
        """Create the span of a request.

        When the block ends, `state` must contain the route, status and code of the request.
        """
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method, started = scope["method"], time.perf_counter()
        with self._tracer.start_as_current_span(
            method, propagate.extract(headers), SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            yield
            found = {"http.request.method": method, "url.scheme": scope.get("scheme", "http")}
            found["http.response.status_code"] = state["status"]
            if route := state.get("route"):
                found["http.route"] = route
                span.update_name(f"{method} {route}")
            if state["status"] >= 500:
                found["error.type"] = state.get("code") or str(state["status"])
                span.set_status(Status(StatusCode.ERROR))
            span.set_attributes({**found, "retentive.request_id": state["request_id"]})
            self._requests.record(time.perf_counter() - started, found)

    def operation(self, route: Route, call: RouteCall, command: str, work: Callable[[], T]) -> T:
        """Call `work` in the span of its memory operation, if the route or the command of the tool has one."""
        name = COMMANDS.get(command) if route.name == "run_tool" else OPERATIONS.get(route.name)
        if name is None:
            return work()
        started, kind, error = time.perf_counter(), {"gen_ai.operation.name": name}, dict[str, str]()
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.INTERNAL, attributes=kind, record_exception=False, set_status_on_exception=False
        ) as span:
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


def exporting() -> tuple[Tracing, Callable[[], None]]:
    """Return a `Tracing` that exports to the endpoint in the environment, and a function that flushes and stops it."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - slow
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - slow
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - slow
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415 - slow
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - slow
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - slow
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - slow

    given = {"service.version": __version__} | (
        {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "retentive"}
    )
    resource = Resource.create(given)
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)

    def stop() -> None:
        tracers.shutdown()
        meters.shutdown()

    return Tracing(tracers, meters), stop
