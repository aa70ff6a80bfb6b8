"""Metrics for Prometheus, summed over all worker processes. The labels are routes and codes, never ids."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from retentive.server.maintenance import MaintenanceRun

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
except ImportError:  # the extra `server` has it; /metrics is 404 without
    IS_INSTALLED = False
else:
    IS_INSTALLED = True

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
        return self._of_processes() + _of_maintenance(last_run())

    def _of_processes(self) -> bytes:
        directory = os.environ.get(DIRECTORY)
        if directory is None:
            return generate_latest(self._registry)
        for name in os.listdir(directory):
            if (found := _LIVE.fullmatch(name)) and not _is_running(int(found[1])):
                mark_process_dead(int(found[1]))  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    @property
    def media_type(self) -> str:
        """Media type of the bytes that `text` returns."""
        return CONTENT_TYPE_LATEST


def _of_maintenance(run: MaintenanceRun | None) -> bytes:
    if run is None:
        return b""
    of = CollectorRegistry()
    ended = "retentive_maintenance_last_end_timestamp_seconds"
    Gauge(ended, "End of the last maintenance, of any process.", registry=of).set(run.finished_at)
    Gauge("retentive_maintenance_last_ok", "1 if it succeeded, else 0.", registry=of).set(run.is_ok)
    return generate_latest(of)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@cache
def metrics() -> Metrics | None:
    """Return the metrics of this process, or None if prometheus-client is not installed."""
    return Metrics() if IS_INSTALLED else None
