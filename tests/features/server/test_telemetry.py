"""Metrics, spans and logs of the server. None of them has a text, a memory path or an id where it must not be."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from prometheus_client.parser import text_string_to_metric_families

import retentive
from retentive import MemoryStore
from retentive.server.calls import ServedLocation
from retentive.server.telemetry import CAPTURE, JsonLog, Telemetry
from support.http_api import Api, serving
from support.listener import Answer, Received, listening
from support.served_process import started
from support.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "likes oolong"  # a text, which must be in no log, metric or span
PATH = "/private/notes.md"
STORE = "/v1/memory_stores/{memory_store_id}"


def values(api: Api) -> Counter[str]:
    """The values of all metrics, by name and labels."""
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.body.decode())
    return Counter(
        {
            f"{each.name}{json.dumps(each.labels, sort_keys=True)}": each.value
            for family in families
            for each in family.samples
        }
    )


def named(counted: Counter[str], name: str, **labels: str) -> float:
    return counted[f"{name}{json.dumps(labels, sort_keys=True)}"]


def use(api: Api, store_id: str) -> str:
    """Send a create, an edit by the tool, two reads and two failures. Returns the id of the memory."""
    at, traced = f"/v1/memory_stores/{store_id}", {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    memory = api.post(f"{at}/memories", {"path": PATH, "content": SECRET}, **traced)
    edit = {"command": "str_replace", "path": f"/memories{PATH}", "old_str": "likes", "new_str": "likes oolong, likes"}
    for number, given in enumerate((edit, {"command": "view", "path": f"/memories{PATH}"}, {"command": "delete"})):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": given}
        assert api.post(f"{at}/tool", block).status == 200
    assert api.get(f"{at}/memories?path_prefix=/private/&view=full").status == 200
    assert api.get(f"{at}/memories/mem_unknown").status == 404
    assert api.get("/no/such/route").status == 404
    found: str = memory.body["id"]
    return found


def test_metrics_count_requests_and_changes(api: Api, store: MemoryStore) -> None:
    before = values(api)
    use(api, store.id)
    after = values(api)
    assert SECRET not in str(after)
    assert PATH not in str(after)
    assert store.id not in str(after)
    new = after - before
    create, tool = {"route": f"{STORE}/memories", "method": "POST"}, {"route": f"{STORE}/tool", "method": "POST"}
    assert named(new, "retentive_http_requests_total", **create, status="200", code="") == 1
    assert named(new, "retentive_http_requests_total", **tool, status="200", code="") == 3
    assert named(new, "retentive_http_requests_total", route="other", method="GET", status="404", code="not_found") == 1
    assert named(new, "retentive_commits_total", **create) == named(new, "retentive_commits_total", **tool) == 1
    assert named(new, "retentive_http_request_duration_seconds_count", **tool) == 3
    assert named(new, "retentive_queue_wait_seconds_count") == 6


def test_requests_of_any_method_add_no_label(api: Api) -> None:
    """A client cannot make the metrics grow."""
    before = values(api)
    for method in ("PATCH", "PUT"):
        assert api.send(method, "/v1/memory_stores").status == 405
    new = values(api) - before
    assert sum(value for name, value in new.items() if '"method": "other"' in name and "_total" in name) == 2


@contextmanager
def traced(tmp_path: Path) -> Iterator[tuple[Api, MemoryStore, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        with serving(opened, telemetry=Telemetry(provider)) as api:
            yield api, opened.store("team"), exporter
        provider.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_spans_follow_the_conventions_and_continue_the_trace(tmp_path: Path) -> None:
    with traced(tmp_path) as (api, store, exporter):
        memory_id = use(api, store.id)
    spans = exporter.get_finished_spans()
    inner = [span for span in spans if span.kind is SpanKind.INTERNAL]
    assert [span.name for span in inner] == [
        "create_memory",
        "update_memory",
        "search_memory",
        "delete_memory",
        "search_memory",
        "search_memory",
    ]
    assert all(attributes(span)["gen_ai.operation.name"] == span.name for span in inner)
    assert {attributes(span)["gen_ai.memory.store.id"] for span in inner} == {store.id}
    assert attributes(inner[0])["gen_ai.memory.record.id"] == memory_id
    assert [attributes(span).get("gen_ai.memory.record.count") for span in inner] == [1, None, None, None, 1, None]
    assert [attributes(span).get("error.type") for span in inner] == [None] * 3 + ["tool_error", None, "not_found"]
    request = next(span for span in spans if span.context is not None and span.context == inner[0].parent)
    assert request.kind is SpanKind.SERVER
    assert request.name == f"POST {STORE}/memories"
    assert attributes(request)["http.route"] == f"{STORE}/memories"
    assert attributes(request)["http.response.status_code"] == 200
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    shown = "".join(span.to_json() for span in spans)
    assert SECRET not in shown
    assert PATH not in shown


def test_a_method_without_routes_names_no_span(tmp_path: Path) -> None:
    with traced(tmp_path) as (api, _, exporter):
        assert api.send("PROPFIND", "/v1/memory_stores").status == 405
    (span,) = exporter.get_finished_spans()
    assert (span.name, attributes(span)["http.request.method"]) == ("HTTP /v1/memory_stores", "_OTHER")
    assert attributes(span)["client.address"] == "127.0.0.1"


def test_contents_are_in_spans_only_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    with traced(tmp_path) as (api, store, exporter):
        use(api, store.id)
    listed = [attributes(span) for span in exporter.get_finished_spans() if "gen_ai.memory.records" in attributes(span)]
    assert SECRET in listed[-1]["gen_ai.memory.records"]


class Collector:
    """Receives spans and metrics like an OpenTelemetry collector."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        self.measured: set[str] = set()

    def answer(self, request: Received) -> Answer:
        if request.path == "/v1/traces":
            sent = ExportTraceServiceRequest.FromString(request.body)
            self.spans += [span.name for r in sent.resource_spans for s in r.scope_spans for span in s.spans]
        else:
            measured = ExportMetricsServiceRequest.FromString(request.body)
            self.measured |= {m.name for r in measured.resource_metrics for s in r.scope_metrics for m in s.metrics}
        return 200, b""


@pytest.mark.long
def test_workers_share_metrics_and_export_spans(tmp_path: Path) -> None:
    """The sum is exact on every worker, also after one was killed. The log has a line of JSON for each request."""
    at = f"sqlite:///{tmp_path}/memory.db"
    received = Collector()
    with listening(received.answer) as endpoint:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        with started("--at", at, "--workers", "2", directory=tmp_path, **variables) as (process, lines):
            url, key = lines[-1].rpartition(" ")[2], lines[0].rpartition(" ")[2]
            with retentive.open(at) as opened:
                api, store = Api(url, key, ServedLocation(opened)), opened.store("team")
                use(api, store.id)
                labels = {"route": f"{STORE}/tool", "method": "POST", "status": "200", "code": ""}
                for _ in range(4):  # connections go to either worker
                    assert named(values(api), "retentive_http_requests_total", **labels) == 3
                killed = int(next(iter(children(process.pid))))
                os.kill(killed, signal.SIGKILL)
                until(lambda: killed not in children(process.pid) and len(children(process.pid)) == 2)
                assert named(values(api), "retentive_http_requests_total", **labels) == 3
                assert api.get(f"/v1/memory_stores/{store.id}/memories").status == 200
        assert {f"GET {STORE}/memories", "search_memory"} <= set(received.spans)
        assert {"http.server.request.duration", "gen_ai.client.operation.duration"} <= received.measured
        assert {"retentive.leader", "retentive.maintenance_last_success_timestamp"} <= received.measured
    log = (tmp_path / "log").read_text()
    records = [json.loads(line) for line in log.splitlines()]
    tool = [record for record in records if record.get("route") == f"{STORE}/tool"]
    assert [(each["method"], each["status"], each["memory_store_id"]) for each in tool] == [("POST", 200, store.id)] * 3
    assert all({"time", "level", "request_id", "ms", "key_id", "workspace_id"} <= each.keys() for each in tool)
    assert SECRET not in log
    assert PATH not in log


def children(process_id: int) -> set[int]:
    """Ids of the worker processes."""
    tasks = Path(f"/proc/{process_id}/task")
    ids = [int(each) for task in tasks.iterdir() for each in (task / "children").read_text().split()]
    found = set()
    for each in ids:
        with suppress(OSError):  # it has just ended
            found |= {each} if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes() else set()
    return found


def test_a_log_line_of_a_bug_has_no_message_of_the_exception(tmp_path: Path) -> None:
    try:
        int(SECRET)
    except ValueError as error:
        record = logging.LogRecord("retentive.server", logging.ERROR, __file__, 1, "failed", (), None)
        record.exc_info = (type(error), error, error.__traceback__)
    line = json.loads(JsonLog().format(record))
    assert (line["message"], SECRET in str(line)) == ("failed", False)
    assert line["exception"].startswith("ValueError < test_telemetry.py:")
