"""Metrics that are the same in all processes that serve a location, read from its records when they are asked for.

Nothing here reads all memory stores: what must be counted over all of them was counted by the last maintenance.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from retentive import __version__
from retentive.errors import RetentiveError
from retentive.opening import Retentive
from retentive.server.background import MaintenanceRun, last_run
from retentive.server.webhooks import DEAD, PENDING, Delivery
from retentive.store.backup_runs import BackupRun, last_backup

MAX_COUNTED = 10_000
"""Maximum number of deliveries of each state that are counted."""


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"retentive_{name}", about, value)


class LocationCollector(Collector):
    """Collects the metrics of a location. If its records cannot be read, only the version and `location_up` remain."""

    def __init__(self, opened: Retentive) -> None:
        self._opened = opened

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        build = {"version": __version__, "python_version": platform.python_version()}
        yield InfoMetricFamily("retentive_build", "Version of the server.", build)
        try:
            found = list(self._found())
        except RetentiveError:
            found = []  # `/readyz` reports it too
        yield _gauge("location_up", "1 if the records of the location can be read, else 0.", bool(found))
        yield from found

    def _found(self) -> Iterator[Metric]:
        yield from _of_maintenance(last_run(self._opened.records) or MaintenanceRun(0.0))
        yield from _of_backup(last_backup(self._opened.backend) or BackupRun(0.0, 0.0, 0.0))
        pending, dead = self._deliveries(PENDING), self._deliveries(DEAD)
        states = GaugeMetricFamily(
            "retentive_webhook_deliveries", "Stored deliveries, of each state.", labels=["state"]
        )
        states.add_metric(["pending"], len(pending))
        states.add_metric(["dead"], len(dead))
        yield states
        oldest = min((each.created_at.timestamp() for each in pending), default=0.0)
        yield _gauge("webhook_oldest_pending_timestamp_seconds", "Time of the oldest pending event, or 0.", oldest)
        newest = max((each.due.timestamp() for each in dead), default=0.0)
        yield _gauge("webhook_last_dead_timestamp_seconds", "When a delivery was last given up, or 0.", newest)

    def _deliveries(self, kind: str) -> list[Delivery]:
        return [Delivery.model_validate_json(text) for _, text in self._opened.records.list(kind, limit=MAX_COUNTED)]


def _of_maintenance(run: MaintenanceRun) -> Iterator[Metric]:
    at = "maintenance_last"
    yield _gauge(
        f"{at}_success_timestamp_seconds", "End of the last maintenance that succeeded, or 0.", run.succeeded_at
    )
    yield _gauge(f"{at}_end_timestamp_seconds", "End of the last maintenance, of any process, or 0.", run.finished_at)
    yield _gauge(f"{at}_duration_seconds", "Time that it took.", run.finished_at - run.started_at)
    yield _gauge(f"{at}_ok", "1 if it succeeded, else 0.", run.is_ok and run.finished_at > 0)
    about = "at the last maintenance."
    yield _gauge("stores", f"Memory stores {about}", run.stores)
    yield _gauge("stores_near_limit", f"Those that used 90 % of their limit of memories or bytes {about}", run.near)
    yield _gauge("stores_full", f"Those that had reached their limit of memories or bytes {about}", run.full)
    yield _gauge("proposals_waiting", f"Proposals that waited for review {about}", run.proposals)
    oldest = run.oldest_proposal_at
    yield _gauge("proposals_oldest_timestamp_seconds", "Time of the oldest of them, or 0.", oldest)


def _of_backup(run: BackupRun) -> Iterator[Metric]:
    at = "backup_last"
    yield _gauge(f"{at}_success_timestamp_seconds", "End of the last backup that succeeded, or 0.", run.succeeded_at)
    yield _gauge(f"{at}_end_timestamp_seconds", "End of the last backup of all memory stores, or 0.", run.finished_at)
    yield _gauge(f"{at}_duration_seconds", "Time that it took.", run.finished_at - run.started_at)
    yield _gauge(f"{at}_ok", "1 if it succeeded, else 0.", not run.code and run.finished_at > 0)
