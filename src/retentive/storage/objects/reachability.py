"""Reachability of objects: finds orphans, and erases texts and pages that are no longer needed.

An object is an orphan if it cannot be reached from the manifest of its store. Its name has the generation of the
manifest for which it was made. Once the manifest has a higher generation, no commit can make the orphan reachable, and
it can be deleted. No clock is needed for this.

After a commit that redacts or removes versions or long records, the writer erases their texts. A writer can crash
before that. Before such a commit, it therefore writes a *mark*, a small object outside the store with references to the
texts. `purge` lists the marks to find the stores that may have texts to erase, and need not read every manifest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from functools import partial

from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.objects.manifest import MANIFESTS, Manifest, ManifestSwap
from retentive.storage.objects.ordered_map import AHEAD
from retentive.storage.objects.reader import PACKS, PAGES, Gone, Reader, by_pack, without
from retentive.storage.objects.records import PACKED, TextRef, is_obsolete, pack, text_in, unpack
from retentive.storage.objects.requests import Missing, Requests, together

_CHECKS = 5  # attempts for one store, since purge and collection may delete objects of the manifest that was just read
_MARKS = "purging"


def reachable(
    manifest: Manifest, reader: Reader, *, values: bool = True, damaged: list[str] | None = None
) -> tuple[set[str], set[TextRef]]:
    """Find all objects that are reachable from a manifest: their names, as `kind/name`, and the texts in the packs.

    With `values=False`, find only pages, and read no leaf. By default, a page that cannot be read raises `Damaged`. If
    the caller passes a list `damaged`, such a page is skipped. Its name is added to the list if the page exists but is
    damaged.
    """
    names, items = set[str](), list(manifest.log.items())
    refs = manifest.tree.refs
    for depth in range(manifest.tree.depth, -1, -1):
        names.update(f"{PAGES}/{ref.name}" for ref in refs)
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
    texts = {text for _, value in items if value is not None and (text := text_in(value))}
    return names | {f"{PACKS}/{text.pack}" for text in texts}, texts


def orphans(manifest: Manifest, reader: Reader) -> set[str]:
    """Return the objects to which the manifest does not refer. A commit in progress may need some of them."""
    names, _ = reachable(manifest, reader)
    return set(reader.listed()) - names


def sweep(manifest: Manifest, reader: Reader, *, packs: bool = False, texts: Set[TextRef] = frozenset()) -> None:
    """Delete every object to which neither `manifest` nor a later manifest of the store can refer.

    By default, only pages are compared, and no leaf is read. With `packs`, those of `texts` that the manifest does not
    contain are erased too.
    """
    listed = [name for kind in (PAGES, PACKS)[: 1 + packs] for name in reader.listed(kind)]
    names, staying = reachable(manifest, reader, values=packs)
    going = [name for name in listed if name not in names and is_obsolete(name.split("/")[1], manifest.generation)]
    reader.requests.delete([reader.key(name) for name in going])
    reader.forget(name.split("/")[1] for name in going)
    still_used = {text.pack for text in staying if text.is_packed}
    erase_texts(sorted(text for text in texts - staying if text.pack not in still_used), reader)


def examine(manifests: ManifestSwap, reader: Callable[[str], Reader], requests: Requests) -> Iterator[Finding]:
    """Yield findings for the missing and damaged objects of every store. Writes nothing, and reads no text."""
    with_objects = {key.split("/")[1] for key in requests.names("stores")}  # listed before the manifests
    with_manifest = [key.rpartition("/")[2] for key in requests.names(MANIFESTS)]
    for store_id in sorted(with_objects.difference(with_manifest)):
        yield found("object_missing", store_id, f"{MANIFESTS}/{store_id}")
    for store_id in with_manifest:
        try:
            yield from _examine_store(manifests, reader(store_id))
        except NotFound:
            continue
        except UnknownSchema:
            yield found("schema_new", store_id)
        except Damaged:
            yield found("object_damaged", store_id, "its manifest")


def _examine_store(manifests: ManifestSwap, reader: Reader) -> list[Finding]:
    held = manifests.live(reader.store_id)
    for _ in range(_CHECKS):
        listed, damaged = reader.listed(), list[str]()
        missing = sorted(reachable(held, reader, damaged=damaged)[0].difference(listed))
        known, held = held, manifests.live(reader.store_id)
        if held.tag == known.tag or not missing:
            break
    codes = [("object_damaged", name) for name in damaged] + [("object_missing", name) for name in missing]
    return [found(code, reader.store_id, name) for code, name in codes]


def put_mark(requests: Requests, store_id: str, texts: Sequence[TextRef] = ()) -> str:
    """Write a mark, a small object with which `purge` finds a store that has data to erase.

    `texts` are references to the texts to erase. Returns the object key of the mark.
    """
    key = f"{_MARKS}/{store_id}/{os.urandom(8).hex()}"
    requests.put(key, pack("mark", texts))
    return key


def marked_texts(requests: Requests, marks: Sequence[str]) -> set[TextRef]:
    """Return references to the texts that marks tell to erase. A mark that another process has deleted is skipped."""
    texts = set[TextRef]()
    for key in marks:
        with suppress(Missing):
            texts.update(map(TextRef._make, unpack("mark", requests.get(key)[0])))
    return texts


def marks_of(requests: Requests, *store_id: str) -> dict[str, list[str]]:
    """Return the keys of the objects that `put_mark` has written, by store id. `store_id` limits this to one store."""
    marks: dict[str, list[str]] = {}
    for key in requests.names("/".join((_MARKS, *store_id))):
        marks.setdefault(key.split("/")[1], []).append(key)
    return marks


def erase_texts(refs: Sequence[TextRef], reader: Reader) -> None:
    """Erase the texts to which `refs` refer: write their packs again without them, and delete packs that become empty.

    If a concurrent reader of an earlier state finds a text missing, it repeats its read with the current state.
    """
    requests, emptied = reader.requests, list[str]()

    def erase(key: str, some: Sequence[TextRef]) -> None:
        with suppress(Missing):
            data, tag = requests.get(key)
            left = without(data, some)
            if left is None:
                emptied.append(key)
            elif left != data:
                requests.replace(key, left, tag)

    packs = by_pack(refs)
    emptied += [reader.key(PACKS, name) for name in packs if name.endswith(PACKED)]  # another pack has the other texts
    erasures = [
        partial(erase, reader.key(PACKS, name), some) for name, some in packs.items() if not name.endswith(PACKED)
    ]
    together([partial(requests.until_done, erasure) for erasure in erasures])
    requests.delete(emptied)
    reader.forget((*refs, *packs))
