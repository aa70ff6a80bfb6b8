"""Manifest: the only mutable object of a memory store. It describes the current state of the store.

The memories, versions and records of a store are in one ordered map. The manifest has the root of the map's tree of
pages, and a *log*: the latest edits of the map, which are not in the tree yet. Most commits therefore write only the
manifest and a pack, which has the new texts. Compaction moves the log into the tree. Other writers may add edits to the
log meanwhile. The new tree can be used with these edits too, so the writers need not wait for a compaction.

Object storage has no queue. The first writer that replaces the manifest wins (`manifest_swap.py`), and the attempts of
other writers fail. The manifest has the ids of the latest commits, so that writers see how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple, cast

from retentive.errors import Damaged
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import Rebuild, Tree
from retentive.storage.objects.records import (
    MEMORY,
    RECORD,
    VERSION,
    Edits,
    Ref,
    VersionRow,
    pack,
    unpack,
)

MANIFESTS = "manifests"
COMMITS_KEPT = 64  # a writer whose reply was lost looks for its commit among these
_CHARS_OF_ROW = 128  # this many characters of edits count as one row


class StoreState(NamedTuple):
    """Counters of a memory store.

    `newest` is the id of the newest version. `last_at` is the time of the newest version or event.
    """

    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    newest: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a memory store.

    `generation` is the number of compactions so far. `tree` is the root of the tree of pages with the memories,
    versions and records. `log` has the edits that are not in the tree yet.
    """

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    state: StoreState = field(default_factory=StoreState)
    generation: int = 0
    commits: tuple[str, ...] = ()
    tree: Tree = field(default_factory=Tree)
    log: Edits = field(default_factory=dict, repr=False)
    erased: tuple[int, str | None] | None = None  # time and actor of the erasure
    workspace: str = DEFAULT_WORKSPACE
    properties: str | None = None

    def info(self) -> StoreInfo:
        created, state = to_datetime(self.created), self.state
        if self.erased is not None:
            return StoreInfo(self.id, None, "", created, 0, 0, erased_at=to_datetime(self.erased[0]))
        texts = self.seal, None, self.workspace, self.properties
        return StoreInfo(self.id, self.key, self.name, created, state.memories, state.size_bytes, *texts)

    @property
    def edits(self) -> dict[str, str | None]:
        """The edits in the log that concern records."""
        found = {key: value for key, value in self.log.items() if key[0] == RECORD}
        return cast("dict[str, str | None]", found)

    @property
    def weight(self) -> int:
        """Size of the log as a number of rows. Long records count as several rows."""
        edits, memories = self.edits, sum(key[0] == MEMORY for key in self.log)
        others = len(self.log) - memories + sum(len(value or "") for value in edits.values()) // _CHARS_OF_ROW
        return max(memories, others)

    def compacted(self, rebuild: Rebuild) -> Manifest:
        """Return this state with the tree of `rebuild`, which was made from this state or an earlier one.

        The edits that this tree includes are removed from the log. The generation must still be that of `rebuild`.
        """
        missing = object()
        log = {key: value for key, value in self.log.items() if rebuild.edits.get(key, missing) != value}
        return replace(self, generation=self.generation + 1, tree=rebuild.tree, log=log)

    def encoded(self) -> bytes:
        """Return the bytes of the manifest. A row of the log that is both a version and a memory is encoded once."""
        rows = [row for key, row in self.log.items() if key[0] == VERSION and isinstance(row, VersionRow)]
        present = [self.log.get(MEMORY + row.path) == row for row in rows]
        vacant = [key[1:] for key, row in self.log.items() if key[0] == MEMORY and row is None]
        value = {name: getattr(self, name) for name in self.__slots__}
        return pack("manifest", value | {"log": [rows, present, vacant, self.edits]})


def decode_manifest(data: bytes, store_id: str) -> Manifest:
    """Decode the manifest of the store `store_id`. Raises `Damaged`, or `UnknownSchema` if it has another format."""
    value = unpack("manifest", data)
    try:
        (depth, refs), erased, (rows, present, vacant, edits) = value["tree"], value["erased"], value["log"]
        rows = list(map(VersionRow._make, rows))
        value["tree"] = Tree(depth, tuple(map(Ref._make, refs)))
        value["log"] = {MEMORY + path: None for path in vacant} | {VERSION + row.id: row for row in rows} | edits
        value["log"] |= {MEMORY + row.path: row for row in compress(rows, present)}
        value |= {"commits": tuple(value["commits"]), "erased": erased and tuple(erased)}
        value["state"] = StoreState(*value["state"])
        manifest = Manifest(**value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt and cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store contains the id of another memory store")
    return manifest
