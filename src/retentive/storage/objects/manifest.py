"""Manifest: the only mutable object of a memory store. It describes the current state of the store.

The memories, versions and records of a store are in one ordered map. The manifest has the root of the map's tree of
pages, and a *log*: the latest edits of the map, which are not in the tree yet. Most commits therefore write only the
manifest and a pack, which has the new texts. Compaction moves the log into the tree.

Object storage has no queue. The first writer that replaces the manifest wins (`manifest_swap.py`), and the attempts of
other writers fail. The manifest has the ids of the latest commits, so that writers see how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import Tree
from retentive.storage.objects.records import MEMORY, Edits, Ref, decoded, pack, unpack

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

    `generation` is the number of compactions so far. Each commit adds only objects that were made for the generation of
    the manifest that it replaces. `tree` is the root of the tree of pages with the memories,
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
    def weight(self) -> int:
        """Size of the log as a number of rows. Long records count as several rows."""
        values = [value for key, value in self.log.items() if key[0] != MEMORY]
        return sum(1 + (len(value) // _CHARS_OF_ROW if isinstance(value, str) else 0) for value in values)

    def encoded(self) -> bytes:
        value = {name: getattr(self, name) for name in self.__slots__}
        return pack("manifest", value | {"log": list(self.log.items())})


def decode_manifest(data: bytes, store_id: str) -> Manifest:
    """Decode the manifest of the store `store_id`. Raises `Damaged`, or `UnknownSchema` if it has another format."""
    value = unpack("manifest", data)
    try:
        (depth, refs), erased = value["tree"], value["erased"]
        value["tree"] = Tree(depth, tuple(map(Ref._make, refs)))
        value["log"] = {key: decoded(edit) for key, edit in value["log"]}
        value |= {"commits": tuple(value["commits"]), "erased": erased and tuple(erased)}
        value["state"] = StoreState(*value["state"])
        manifest = Manifest(**value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt and cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store contains the id of another memory store")
    return manifest
