"""`sweep`: idle memories expire, and versions that are no longer kept go."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import click

from retentive.cli import output
from retentive.cli.location import Place, pass_place
from retentive.history.sweep import Expired, Swept
from retentive.opening import Retentive
from retentive.store import MemoryStore


@click.command(cls=output.Command)
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@click.option("--all", "every_store", is_flag=True, help="Sweep every memory store of the place.")
@click.option("--every", metavar="HOURS", type=float, help="Go on, and sweep again every so many hours.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each memory store.")
@pass_place
def sweep(place: Place, *, dry_run: bool, every_store: bool, every: float | None, as_json: bool) -> None:
    """Let idle memories expire, and old versions go, as the settings of the store say.

    Memories expire by the settings expire_after_days and expire_paths, never by default; they can be restored until
    their versions go. Versions go by keep_versions_days and keep_versions. What is read-only stays.
    """
    while True:
        with place.opened() as found:
            for store in _stores(place, found, every_store=every_store):
                with output.progress("Sweeping"):
                    swept = store.sweep(dry_run=dry_run)
                _print(store, swept, dry_run=dry_run, as_json=as_json)
        if every is None:
            return
        threading.Event().wait(every * 3_600)


def _stores(place: Place, found: Retentive, *, every_store: bool) -> Iterator[MemoryStore]:
    if not every_store:
        yield place.chosen(found)
        return
    for info in found.stores():
        yield found.store(info.id)


def _print(store: MemoryStore, swept: Swept, *, dry_run: bool, as_json: bool) -> None:
    verb = "would go" if dry_run else "gone"
    rows = [
        (word, f"{one.idle_days:.0f} days idle", one.path)
        for word, memories in ((verb, swept.expired), ("kept, read-only", swept.kept_read_only))
        for one in memories
    ]
    total = f"{store.key or store.id}: {len(swept.expired)} memories and {swept.versions_pruned} versions {verb}."
    output.emit(
        {
            "store": store.id,
            "dry_run": dry_run,
            "expired": [_object(one) for one in swept.expired],
            "kept_read_only": [_object(one) for one in swept.kept_read_only],
            "versions_pruned": swept.versions_pruned,
        },
        as_json=as_json,
        plain=[*rows, (total,)],
        shown=[output.Aligned(rows, (None, "blue", "cyan")), total],
    )


def _object(one: Expired) -> dict[str, object]:
    return {"path": one.path, "memory_id": one.memory_id, "idle_days": one.idle_days}
