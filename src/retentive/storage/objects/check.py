"""Read-only check of memory stores in object storage: missing objects, damaged objects and orphans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.objects.garbage import reachable
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.manifest_swap import MANIFESTS, Held, ManifestSwap
from retentive.storage.objects.reader import PACKS, PAGES, Gone, Reader
from retentive.storage.objects.records import check_name, unpack
from retentive.storage.objects.requests import Listed, Missing, Requests
from retentive.storage.objects.side_records import SIDE
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.paths import ROOT

_TRIES = 5  # concurrent writers may delete objects that the manifest just read still refers to


def examine(
    requests: Requests, manifests: ManifestSwap, reader_of: Callable[[str], Reader], before: datetime
) -> Iterator[Finding]:
    """Yield missing objects, damaged objects and orphans older than `before`, for every store."""
    for listed in requests.names(MANIFESTS):
        store_id = listed.key.rpartition("/")[2]
        try:
            yield from _examine_store(store_id, requests, manifests, reader_of(store_id), before)
        except NotFound:
            continue
        except UnknownSchema:
            yield found("schema_new", store_id)
        except Damaged:
            yield found("object_damaged", store_id, "its manifest")


def _examine_store(
    store_id: str, requests: Requests, manifests: ManifestSwap, reader: Reader, before: datetime
) -> Iterator[Finding]:
    held = manifests.live(store_id)
    for _ in range(_TRIES):
        listed = list(requests.names(f"stores/{store_id}"))
        findings = list(_compare(held, reader, listed, before))
        now = manifests.live(store_id)
        if now.tag == held.tag or not any(one.code == "object_missing" for one in findings):
            break
        held = now
    yield from findings
    yield from _side_records(store_id, requests, listed)


def _compare(held: Held, reader: Reader, listed: Sequence[Listed], before: datetime) -> Iterator[Finding]:
    """Compare reachable objects with existing ones. If some could not be read, orphans are not reported."""
    store_id, wrong = held.manifest.id, list[Finding]()

    def on_damage(name: str, error: Damaged) -> None:
        if not isinstance(error, Gone):
            wrong.append(found("object_damaged", store_id, f"{PAGES}/{name}"))

    reach, orphans = reachable(held.manifest, reader, on_damage=on_damage), 0
    for kind, needed in ((PAGES, reach.pages), (PACKS, reach.packs)):
        under = reader.key(kind, "")
        there = {one.key.removeprefix(under): one.modified for one in listed if one.key.startswith(under)}
        wrong += [found("object_missing", store_id, f"{kind}/{name}") for name in sorted(needed - there.keys())]
        known = needed | reach.garbage
        orphans += sum(modified < before for name, modified in there.items() if name not in known)
    yield from wrong
    if orphans and not wrong:
        yield found("objects_left", store_id, f"{orphans} objects")


def _side_records(store_id: str, requests: Requests, listed: Iterable[Listed]) -> Iterator[Finding]:
    for key in (one.key for one in listed if f"stores/{store_id}/{SIDE}/" in one.key):
        try:
            data, _ = requests.get(key)
            unpack(SIDE, check_name(key, data))
        except Missing:  # merged into another part meanwhile
            continue
        except Damaged:
            yield found("object_damaged", store_id, f"{SIDE}/" + key.rpartition("/")[2])


def corrected(manifest: Manifest, reader: Reader) -> Manifest:
    """Manifest with counts recomputed from its memories and versions; the same object if they were right."""
    if manifest.erased is not None:
        return manifest
    snapshot = ObjectsSnapshot(manifest, reader)
    sizes = [size for _, size in snapshot.sizes(ROOT)]
    newest = next(snapshot.versions(limit=1), None)
    revision = max(manifest.state.revision, 0 if newest is None else newest.revision)
    state = manifest.state._replace(revision=revision, memories=len(sizes), size_bytes=sum(sizes))
    return manifest if state == manifest.state else replace(manifest, state=state)
