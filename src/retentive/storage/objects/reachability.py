"""Reachability of objects: finds orphans, and erases texts and pages that are no longer needed.

An object is an orphan if it cannot be reached from the manifest of its store. After a commit that redacts or removes
versions or long records, the writer erases their texts.

A writer can crash before it has erased the texts. Before such a commit, it therefore writes a *mark*, a small object
outside the store with references to the texts. `purge` lists the marks to find the stores that may have texts to erase,
and need not read every manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.objects.manifest import MANIFESTS, Manifest
from retentive.storage.objects.manifest_swap import ManifestSwap
from retentive.storage.objects.ordered_map import AHEAD
from retentive.storage.objects.reader import PACKS, PAGES, Gone, ObjectStorage, Reader, by_pack, pack_of, without
from retentive.storage.objects.records import is_obsolete, pack, text_in, unpack
from retentive.storage.objects.requests import Missing, Requests, together
from retentive.storage.objects.side_records import SIDE
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.paths import ROOT

COLLECT_AFTER_S = 86_400.0
_CHECKS = 5  # attempts for one store, since purge and collection may delete objects of the manifest that was just read
_MARKS = "purging"


@dataclass(slots=True)
class Reach:
    """Objects that are reachable from a manifest, as `kind/name`, and references to the texts in the packs."""

    pages: set[str] = field(default_factory=set)
    packs: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        """Return True if an object is reachable or contains side records."""
        return name in self.pages or name in self.packs or name.startswith(SIDE)


def reachable(manifest: Manifest, reader: Reader, *, values: bool = True, damaged: list[str] | None = None) -> Reach:
    """Find all objects that are reachable from a manifest. With `values=False`, find only pages, and read no leaf.

    By default, a page that cannot be read raises `Damaged`. If the caller passes a list `damaged`, such a page is
    skipped. Its name is added to the list if the page exists but is damaged.
    """
    reach, items = Reach(), list(manifest.log.items())
    refs = manifest.tree.refs
    for depth in range(manifest.tree.depth, -1, -1):
        reach.pages.update(f"{PAGES}/{ref.name}" for ref in refs)
        step, pages = AHEAD if damaged is None else 1, []
        for start in range(0, len(refs) if depth or values else 0, step):
            try:
                pages += reader.pages(refs[start : start + step])
            except Damaged as error:
                if damaged is None:
                    raise
                damaged += [] if isinstance(error, Gone) else [f"{PAGES}/{refs[start].name}"]
        for page in pages:
            items += [item for item in zip(page.keys, page.values, strict=True) if item[0] not in manifest.log]
        refs = tuple(ref for page in pages for ref in page.refs)
    reach.texts = {text for _, value in items if value is not None and (text := text_in(value))}
    reach.packs = {f"{PACKS}/{pack_of(text)}" for text in reach.texts}
    return reach


def collect(before: datetime, *, manifests: ManifestSwap, reader: Reader) -> int:
    """Delete unreachable objects that were last written before `before`. Returns their number.

    The objects are listed before the manifest is read, so an object that a commit adds between these steps counts as
    reachable. Before the deletion, the manifest is written again with a new tag, so that commits in progress fail. They
    are tried again, but writers never commit objects that are older than an hour.
    """
    old = [name for name, at in reader.listed().items() if at < before and not name.startswith(SIDE)]
    if old:
        reach = reachable(manifests.fence(reader.store_id).manifest, reader)
        old = [name for name in old if not reach.has(name)]
        reader.storage.requests.delete([reader.key(name) for name in old])
    return len(old)


def examine(storage: ObjectStorage, manifests: ManifestSwap, before: datetime) -> Iterator[Finding]:
    """Yield findings for the missing and damaged objects of every store, and for orphans that are older than `before`.

    Writes nothing. The texts in packs are not read.
    """
    with_objects = {key.split("/")[1] for key, _ in storage.requests.names("stores")}  # listed before the manifests
    with_manifest = [key.rpartition("/")[2] for key, _ in storage.requests.names(MANIFESTS)]
    for store_id in sorted(with_objects.difference(with_manifest)):
        yield found("object_missing", store_id, f"{MANIFESTS}/{store_id}")
    for store_id in with_manifest:
        try:
            yield from _examine_store(manifests, Reader(store_id, storage), before)
        except NotFound:
            continue
        except UnknownSchema:
            yield found("schema_new", store_id)
        except Damaged:
            yield found("object_damaged", store_id, "its manifest")


def _examine_store(manifests: ManifestSwap, reader: Reader, before: datetime) -> list[Finding]:
    held = manifests.live(reader.store_id)
    for _ in range(_CHECKS):
        listed = reader.listed()
        findings = _compare(held.manifest, reader, listed, before)
        known, held = held, manifests.live(reader.store_id)
        if held.tag == known.tag or not any(one.code == "object_missing" for one in findings):
            break
    return findings


def _compare(manifest: Manifest, reader: Reader, listed: dict[str, datetime], before: datetime) -> list[Finding]:
    """Return findings for missing and damaged objects of one store, and for orphans if there is no other finding.

    `listed` has the existing objects, each with the time of its last write. Orphans count only if they are older than
    `before`.
    """
    damaged = list[str]()
    reach = reachable(manifest, reader, damaged=damaged)
    wrong = [found("object_damaged", manifest.id, name) for name in damaged]
    wrong += [
        found("object_missing", manifest.id, name) for name in sorted((reach.pages | reach.packs) - listed.keys())
    ]
    orphans = sum(at < before and not reach.has(name) for name, at in listed.items())
    if orphans and not wrong:
        wrong.append(found("objects_left", manifest.id, f"{orphans} objects"))
    for name in (name for name in listed if name.startswith(SIDE)):
        with suppress(Missing):
            try:
                unpack(SIDE, reader.storage.requests.get(reader.key(name))[0])
            except Damaged:
                wrong.append(found("object_damaged", manifest.id, name))
    return wrong


def corrected(manifest: Manifest, reader: Reader) -> Manifest:
    """Return a manifest with correct counters of memories, bytes and revisions.

    Returns `manifest` itself if its counters are already correct.
    """
    if manifest.erased is not None:
        return manifest
    snapshot = ObjectsSnapshot(manifest, reader)
    sizes = [memory.size_bytes for memory, _ in snapshot.list(ROOT)]
    newest = next(snapshot.versions(limit=1), None)
    revision = max(manifest.state.revision, 0 if newest is None else newest.revision)
    state = manifest.state._replace(revision=revision, memories=len(sizes), size_bytes=sum(sizes))
    return manifest if state == manifest.state else replace(manifest, state=state)


def put_mark(requests: Requests, store_id: str, texts: Sequence[str] = ()) -> str:
    """Write a mark, a small object with which `purge` finds a store that has data to erase.

    `texts` are references to the texts to erase. Returns the object key of the mark.
    """
    key = f"{_MARKS}/{store_id}/{os.urandom(8).hex()}"
    requests.put(key, pack("mark", texts))
    return key


def marked_texts(requests: Requests, marks: Sequence[str]) -> set[str]:
    """Return references to the texts that marks tell to erase. A mark that another process has deleted is skipped."""
    texts = set[str]()
    for key in marks:
        with suppress(Missing):
            texts.update(unpack("mark", requests.get(key)[0]))
    return texts


def marks_of(requests: Requests, store_id: str | None = None) -> dict[str, list[str]]:
    """Return the keys of the objects that `put_mark` has written, by store id. `store_id` limits this to one store."""
    marks: dict[str, list[str]] = {}
    for key, _ in requests.names(_MARKS if store_id is None else f"{_MARKS}/{store_id}"):
        marks.setdefault(key.split("/")[1], []).append(key)
    return marks


def erase_texts(refs: Sequence[str], reader: Reader) -> None:
    """Erase the texts to which `refs` refer: write their packs again without them, and delete packs that become empty.

    If a concurrent reader of an earlier state finds a text missing, it repeats its read with the current state.
    """
    requests, packs = reader.storage.requests, by_pack(refs).items()
    erasures = [partial(_erase, reader.key(PACKS, pack), some, requests) for pack, some in packs]
    emptied = together([partial(requests.until_done, erase) for erase in erasures])
    requests.delete([key for key in emptied if key is not None])
    reader.forget(refs)


def _erase(key: str, refs: Sequence[str], requests: Requests) -> str | None:
    """Write the pack at `key` again without the texts to which `refs` refer.

    If no text would remain, the pack is not written. The result is then `key`, and the caller must delete the pack. In
    all other cases, the result is None.
    """
    try:
        data, tag = requests.get(key)
    except Missing:
        return None
    left = without(data, refs)
    if left is not None and left != data:
        requests.replace(key, left, tag)
    return key if left is None else None


def delete_obsolete(manifest: Manifest, reader: Reader) -> None:
    """Delete every page to which neither `manifest` nor a later manifest of the store can refer."""
    names = [name.partition("/")[2] for name in reader.listed(PAGES)]
    reach = reachable(manifest, reader, values=False)
    going = [each for each in names if not reach.has(f"{PAGES}/{each}") and is_obsolete(each, manifest.generation)]
    reader.storage.requests.delete([reader.key(PAGES, name) for name in going])
    reader.forget(going)
