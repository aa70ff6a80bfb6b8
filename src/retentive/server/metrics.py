"""Metrics of one server process, as `prometheus_client` keeps them. The names follow the conventions of Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from retentive.storage.contract import Backend

T = TypeVar("T")
REGISTRY = CollectorRegistry()
_LABELS = ("route", "method")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def _counter(name: str, about: str, *labels: str) -> Counter:
    return Counter(f"retentive_{name}", about, labels, registry=REGISTRY)


def _gauge(name: str, about: str, *labels: str) -> Gauge:
    """Return a gauge that adds up the workers of a server. A worker that ended no longer counts."""
    return Gauge(f"retentive_{name}", about, labels, registry=REGISTRY, multiprocess_mode="livesum")


def _seconds(name: str, about: str, *labels: str) -> Histogram:
    return Histogram(f"retentive_{name}_seconds", about, labels, registry=REGISTRY, buckets=_BUCKETS)


REQUESTS = _counter("http_requests", "Answered requests.", *_LABELS, "status", "code")
DURATIONS = _seconds("http_request_duration", "Time of requests.", *_LABELS)
COMMITS = _counter("commits", "Changes that were answered with success.", *_LABELS)
LIMITED = _counter("rate_limited", "Requests over the rate of their key.", *_LABELS)
STORAGE_ERRORS = _counter("storage_errors", "Failures of storage.", "code")
AUTH_FAILURES = _counter("authentication_failures", "Requests with an invalid credential, and failed sign-ins.", "kind")
WAITS = _seconds("queue_wait", "Wait of calls for a thread.")
QUEUED = _gauge("queue_length", "Calls that wait for a thread.")
QUEUE_MAX = _gauge("queue_max", "Calls that may wait for a thread.")
BUSY = _gauge("threads_busy", "Threads that run a call.")
THREADS_MAX = _gauge("threads_max", "Threads that run calls.")
STREAMS = _gauge("event_streams", "Open event streams, those of MCP clients too.")
CONNECTIONS = _gauge("database_connections", "Open connections to the database server.", "state")
CONNECTIONS_MAX = _gauge("database_connections_max", "Connections to the database server that may be open.")
LEADER = _gauge("leader", "1 for the process that does the background work of the location, else 0.")
ATTEMPTS = _counter("webhook_attempts", "Attempts to deliver a webhook event.", "outcome")
for _labelled, _values in (
    (AUTH_FAILURES, ("api_key", "oauth_token", "sign_in")),
    (ATTEMPTS, ("delivered", "failed", "dead")),
    (CONNECTIONS, ("used", "idle")),
):
    for _value in _values:  # so that each exists from the start: the first failure must count as an increase
        _labelled.labels(_value)


def inside(work: Callable[[], T]) -> T:
    """Run a call that has left the queue, and count its thread as busy meanwhile."""
    QUEUED.dec()
    with BUSY.track_inprogress():
        return work()


def sample(backend: Backend, *, leads: bool) -> None:
    """Set the gauges that a process does not count: its connections, and whether it leads. Called every few seconds."""
    LEADER.set(leads)
    if (found := backend.connections()) is not None:
        used, idle, most = found
        CONNECTIONS.labels("used").set(used)
        CONNECTIONS.labels("idle").set(idle)
        CONNECTIONS_MAX.set(most)
