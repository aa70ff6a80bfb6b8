"""Manifest: one state of a memory store, as a value. No I/O except loading pages.

The manifest is the only mutable object of a memory store; it is replaced by compare-and-swap. It has the root of the
map's tree and a *log*: the rows of the latest versions and the latest edits to records and garbage that are not in the
tree yet. So most commits write only a pack and the manifest. Compaction moves the log to the tree. Other writers only
append to the log, so a compaction also fits every later state until the next one, and may run beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.contract import StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import Pages, Rebuild, Sizes, Tree
from retentive.storage.objects.records import Overlay, Page, Ref, Row, Value, add_rows, all_of, pack, unpack

COMMITS_KEPT = 64  # a writer whose reply was lost looks for its commit among these
_CHARS_OF_ROW = 128  # characters of edits that count as one row


class Erased(NamedTuple):
    """Time and actor of the erasure of a memory store."""

    at: int
    by: str | None


class State(NamedTuple):
    """Counters of a memory store. `newest` is the id of the latest version."""

    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    newest: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a memory store.

    `generation` counts compactions. `overlay` is the log and the edits merged by key, applied on top of the tree.

    `gaps` are memories that are absent although their newest version is not a deletion: it was imported redacted.
    """

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    state: State = State()  # noqa: RUF009 - immutable
    generation: int = 0
    commits: tuple[str, ...] = ()
    tree: Tree = Tree()  # noqa: RUF009 - immutable
    log: tuple[Row, ...] = ()
    edits: Mapping[str, str | None] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    erased: Erased | None = None
    overlay: Overlay = field(default_factory=dict, compare=False, repr=False)

    def info(self) -> StoreInfo:
        """`StoreInfo` of the memory store."""
        created, state = to_datetime(self.created), self.state
        if self.erased is not None:
            return StoreInfo(self.id, None, "", created, 0, 0, erased_at=to_datetime(self.erased.at))
        return StoreInfo(self.id, self.key, self.name, created, state.memories, state.size_bytes, self.seal)

    @property
    def weight(self) -> int:
        """The weight of the log, in rows."""
        chars = sum(len(value or "") for value in self.edits.values())
        return len(self.log) + len(self.edits) + chars // _CHARS_OF_ROW

    def committed_as(self, commit: str) -> Manifest:
        """This state with the id of a commit appended."""
        return replace(self, commits=(*self.commits, commit)[-COMMITS_KEPT:])

    def with_edits(self, edits: Mapping[str, str | None]) -> Manifest:
        """This state with additional edits to records and garbage."""
        return replace(self, edits={**self.edits, **edits}, overlay={**self.overlay, **edits})

    def encoded(self) -> bytes:
        """Encode the manifest as bytes."""
        return pack("manifest", {name: getattr(self, name) for name in self.__slots__ if name != "overlay"})


def decode_manifest(data: bytes, store_id: str) -> Manifest:
    """Decode a manifest. Raises `Damaged`, `UnknownSchema`."""
    value = unpack("manifest", data)
    try:
        (depth, refs), erased = value["tree"], value["erased"]
        value["tree"] = Tree(depth, tuple(all_of(Ref, refs)))
        value["log"] = tuple(all_of(Row, value["log"]))
        value |= {name: tuple(value[name]) for name in ("commits", "gaps")}
        value |= {"state": State(*value["state"]), "erased": None if erased is None else Erased(*erased)}
        manifest = Manifest(**value, overlay=overlay_of(value["log"], value["edits"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt: it cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store is that of another")
    return manifest


def overlay_of(log: Iterable[Row], edits: Mapping[str, str | None]) -> Overlay:
    """Merge a log and edits into one overlay."""
    overlay: dict[str, Value | None] = {}
    add_rows(overlay, log)
    return {**overlay, **edits} if edits else overlay


@dataclass(frozen=True, slots=True)
class Compaction:
    """New tree that includes the first `count` rows and the `edits` of a log. Upload `pages` before using it.

    `began` is the time before their upload.
    """

    generation: int
    count: int
    edits: Mapping[str, str | None]
    tree: Tree
    pages: Mapping[str, tuple[bytes, Page]]
    began: float = field(default_factory=time.time)

    def fits(self, manifest: Manifest) -> bool:
        """True if no other writer has compacted since."""
        return manifest.generation == self.generation and len(manifest.log) >= self.count

    def applied(self, manifest: Manifest) -> Manifest:
        """The same state on the new tree, without the compacted part of the log."""
        log, missing = manifest.log[self.count :], object()
        edits = {key: value for key, value in manifest.edits.items() if self.edits.get(key, missing) != value}
        made = replace(manifest, generation=manifest.generation + 1, tree=self.tree, log=log, edits=edits)
        return replace(made, overlay=overlay_of(log, edits))


def compact(manifest: Manifest, sizes: Sizes, pages: Pages) -> Compaction:
    """Move the whole log of a manifest to the tree."""
    generation = manifest.generation
    rebuilt = Rebuild(manifest.tree, manifest.overlay, pages=pages, sizes=sizes, generation=generation)
    return Compaction(generation, len(manifest.log), manifest.edits, rebuilt.tree, rebuilt.written)


def is_due(before: Manifest, after: Manifest, sizes: Sizes) -> bool:
    """True if a commit grew the log past a multiple of `sizes.log`, so a failed compaction is tried again later."""
    return after.weight // sizes.log > before.weight // sizes.log
