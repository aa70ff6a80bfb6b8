"""Manifest: one state of a memory store, as a value. No I/O except loading pages.

The manifest is the only mutable object of a memory store; it is replaced by compare-and-swap. It has the root of the
map's tree and a *log*: the latest edits of the map that are not in the tree yet. So most commits write only a pack and
the manifest. Compaction moves the log to the tree. Other writers only add edits to the log, so a compaction also fits
every later state until the next one, and may run beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.contract import StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import Pages, Rebuild, Sizes, Tree
from retentive.storage.objects.records import MEMORY, VERSION, Overlay, Ref, Row, all_of, pack, unpack

COMMITS_KEPT = 64  # a writer whose reply was lost looks for its commit among these
_SPACES_OF_ROWS = {MEMORY, VERSION}
_CHARS_OF_ROW = 128  # characters of edits that count as one row


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

    `generation` counts compactions. `log` is applied on top of the tree.

    `has_gaps`: a memory may be absent although its newest version is not a deletion, in an imported history.
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
    log: Overlay = field(default_factory=dict, repr=False)
    has_gaps: bool = False
    erased: tuple[int, str | None] | None = None  # time and actor

    def info(self) -> StoreInfo:
        created, state = to_datetime(self.created), self.state
        if self.erased is not None:
            return StoreInfo(self.id, None, "", created, 0, 0, erased_at=to_datetime(self.erased[0]))
        return StoreInfo(self.id, self.key, self.name, created, state.memories, state.size_bytes, self.seal)

    @property
    def edits(self) -> dict[str, str | None]:
        """Part of the log that concerns records and garbage."""
        return {
            key: value
            for key, value in self.log.items()
            if key[0] not in _SPACES_OF_ROWS and not isinstance(value, Row)
        }

    @property
    def weight(self) -> int:
        """The weight of the log, in rows."""
        edits, memories = self.edits, sum(key[0] == MEMORY for key in self.log)
        others = len(self.log) - memories + sum(len(value or "") for value in edits.values()) // _CHARS_OF_ROW
        return max(memories, others)

    def rebuilt(self, sizes: Sizes, pages: Pages) -> Rebuild:
        """Tree that includes the whole log. Upload its pages before using it."""
        return Rebuild(self.tree, self.log, pages=pages, sizes=sizes, generation=self.generation)

    def compacted(self, rebuild: Rebuild) -> Manifest:
        """The same state on a tree that was rebuilt from this or an earlier state, without the part of the log in it.

        It is the same object if another writer has compacted since.
        """
        if self.generation != rebuild.generation:
            return self
        missing = object()
        log = {key: value for key, value in self.log.items() if rebuild.edits.get(key, missing) != value}
        return replace(self, generation=self.generation + 1, tree=rebuild.tree, log=log)

    def encoded(self) -> bytes:
        """Encode the manifest as bytes. A row of the log is encoded once, also if its memory is present."""
        rows = [row for key, row in self.log.items() if key[0] == VERSION and isinstance(row, Row)]
        present = [self.log.get(MEMORY + row.path) == row for row in rows]
        vacant = [key[1:] for key, row in self.log.items() if key[0] == MEMORY and row is None]
        value = {name: getattr(self, name) for name in self.__slots__}
        return pack("manifest", value | {"log": [rows, present, vacant, self.edits]})


def decode_manifest(data: bytes, store_id: str) -> Manifest:
    """Decode a manifest. Raises `Damaged`, `UnknownSchema`."""
    value = unpack("manifest", data)
    try:
        (depth, refs), erased, (rows, present, vacant, edits) = value["tree"], value["erased"], value["log"]
        rows = all_of(Row, rows)
        value["tree"] = Tree(depth, tuple(all_of(Ref, refs)))
        value["log"] = {MEMORY + path: None for path in vacant} | {VERSION + row.id: row for row in rows} | edits
        value["log"] |= {MEMORY + row.path: row for row in compress(rows, present)}
        value |= {"commits": tuple(value["commits"]), "erased": erased and tuple(erased)}
        value["state"] = State(*value["state"])
        manifest = Manifest(**value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt: it cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store is that of another")
    return manifest
