"""Metrics that are the same in all processes that serve a location, read from its records when they are asked for.

Nothing here reads all memory stores: what must be counted over all of them was counted by the last maintenance.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Lock

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from retentive import __version__
from retentive.errors import RetentiveError
from retentive.opening import Retentive
from retentive.server.background import MaintenanceRun, last_run
from retentive.server.kinds import RecordKind
from retentive.server.webhooks import DEAD, PENDING, Delivery
from retentive.store.backup_runs import last_backup

MAX_COUNTED = 10_000
"""Maximum number of deliveries of each state that are counted."""


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"retentive_{name}", about, float(value))


class LocationCollector(Collector):
    """Collects the metrics of a location. If its records cannot be read, only the version and `location_up` remain."""

    def __init__(self, opened: Retentive) -> None:
        self._opened = opened
        self._lock = Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. One thread at a time reads them, since anybody may ask."""
        build = {"version": __version__, "python_version": platform.python_version()}
        yield InfoMetricFamily("retentive_build", "Version of the server.", build)
        found = list[Metric]()
        with self._lock, suppress(RetentiveError):  # `/readyz` reports it too
            found = [*_of_runs(self._opened), *_of_webhooks(self._opened)]
        yield _gauge("location_up", "1 if the records of the location can be read, else 0.", bool(found))
        yield from found


def _of_runs(opened: Retentive) -> Iterator[Metric]:
    run = last_run(opened.records) or MaintenanceRun(0.0)
    backup = {"started_at": 0.0, "finished_at": 0.0, "succeeded_at": 0.0} | last_backup(opened.backend)
    maintenance = {each: getattr(run, each) for each in ("started_at", "finished_at", "succeeded_at")}
    yield from _of_run("maintenance", maintenance, is_ok=run.is_ok)
    yield from _of_run("backup", backup, is_ok=not backup.get("code", ""))
    about = "at the last maintenance."
    yield _gauge("stores", f"Memory stores {about}", run.stores)
    yield _gauge("stores_near_limit", f"Those that used 90 % of their limit of memories or bytes {about}", run.near)
    yield _gauge("stores_full", f"Those that had reached their limit of memories or bytes {about}", run.full)
    yield _gauge("proposals_waiting", f"Proposals that waited for review {about}", run.proposals)
    yield _gauge("proposals_oldest_timestamp_seconds", "Time of the oldest of them, or 0.", run.oldest_proposal_at)


def _of_run(name: str, run: Mapping[str, float], *, is_ok: bool) -> Iterator[Metric]:
    at, ended = f"{name}_last", run["finished_at"]
    yield _gauge(f"{at}_success_timestamp_seconds", f"End of the last {name} with success, or 0.", run["succeeded_at"])
    yield _gauge(f"{at}_end_timestamp_seconds", f"End of the last {name}, by any process, or 0.", ended)
    yield _gauge(f"{at}_duration_seconds", "Time that it took.", ended - run["started_at"])
    yield _gauge(f"{at}_ok", "1 if it succeeded, else 0.", is_ok and ended > 0)


def _of_webhooks(opened: Retentive) -> Iterator[Metric]:
    pending, dead = (RecordKind(opened.records, kind, Delivery).list(limit=MAX_COUNTED) for kind in (PENDING, DEAD))
    states = GaugeMetricFamily("retentive_webhook_deliveries", "Stored deliveries by state.", labels=["state"])
    states.add_metric(["pending"], len(pending))
    states.add_metric(["dead"], len(dead))
    yield states
    oldest = min((each.created_at.timestamp() for each in pending), default=0.0)
    yield _gauge("webhook_oldest_pending_timestamp_seconds", "Time of the oldest pending event, or 0.", oldest)
    newest = max((each.due.timestamp() for each in dead), default=0.0)
    yield _gauge("webhook_last_dead_timestamp_seconds", "When a delivery was last given up, or 0.", newest)
