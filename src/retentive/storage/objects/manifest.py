"""Manifest: one state of a memory store, and its replacement by compare-and-swap.

The manifest is the only mutable object of a memory store. It contains the root of the map's tree and a *log*: the
latest edits of the map that are not in the tree yet. Most commits therefore write only a pack and the manifest.
Compaction moves the log to the tree. Other writers only add edits to the log, so the result of a compaction can be used
with every later state until the next compaction, and writers need not wait for it.

Object storage has no queue: the first writer to replace the manifest wins, and the attempts of the others fail. Writers
take turns (`turns.py`); for this, the manifest contains the ids of the latest commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple, cast

from retentive.errors import Damaged, NotFound, OutcomeUnknown, RetentiveError
from retentive.storage.backoff import Backoff
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import OrderedMap, Pages, Rebuild, Sizes, Tree
from retentive.storage.objects.reader import Cache, ObjectStorage, Reader
from retentive.storage.objects.records import (
    GARBAGE,
    MEMORY,
    RECORD,
    VERSION,
    Edits,
    Ref,
    VersionRow,
    all_of,
    pack,
    unpack,
)
from retentive.storage.objects.requests import BUSY, Missing, Tag, Taken, Unsure
from retentive.storage.objects.turns import WriterTurns, turns_alone, turns_on_this_host

MANIFESTS = "manifests"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 0.25
COMMITS_KEPT = 64  # a writer whose reply was lost looks for its commit among these
_CHARS_OF_ROW = 128  # this many characters of edits count as one row


class StoreState(NamedTuple):
    """Counters of a memory store. `newest` is the id of the latest version."""

    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    newest: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a memory store.

    `generation` counts compactions. The edits in `log` are applied on top of the tree. If `has_gaps` is true, the
    history was imported with gaps: a memory may be absent although its newest version is not a deletion.
    """

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    state: StoreState = StoreState()  # noqa: RUF009 - immutable
    generation: int = 0
    commits: tuple[str, ...] = ()
    tree: Tree = Tree()  # noqa: RUF009 - immutable
    log: Edits = field(default_factory=dict, repr=False)
    has_gaps: bool = False
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
        """Edits in the log that concern records and garbage."""
        found = {key: value for key, value in self.log.items() if key[0] in {GARBAGE, RECORD}}
        return cast("dict[str, str | None]", found)

    @property
    def weight(self) -> int:
        """Weight of the log, as a number of rows."""
        edits, memories = self.edits, sum(key[0] == MEMORY for key in self.log)
        others = len(self.log) - memories + sum(len(value or "") for value in edits.values()) // _CHARS_OF_ROW
        return max(memories, others)

    def rebuilt(self, sizes: Sizes, pages: Pages) -> Rebuild:
        """Build a tree that includes all edits of the log. Upload its pages before using it."""
        return Rebuild(self.tree, self.log, pages=pages, sizes=sizes, generation=self.generation)

    def compacted(self, rebuild: Rebuild) -> Manifest:
        """This state with a tree rebuilt from it or from an earlier state.

        Unchanged if another writer has compacted the log.
        """
        if self.generation != rebuild.generation:
            return self
        missing = object()
        log = {key: value for key, value in self.log.items() if rebuild.edits.get(key, missing) != value}
        return replace(self, generation=self.generation + 1, tree=rebuild.tree, log=log)

    def encoded(self) -> bytes:
        """Encode the manifest. If a row of the log is also the row of a present memory, it is encoded only once."""
        rows = [row for key, row in self.log.items() if key[0] == VERSION and isinstance(row, VersionRow)]
        present = [self.log.get(MEMORY + row.path) == row for row in rows]
        vacant = [key[1:] for key, row in self.log.items() if key[0] == MEMORY and row is None]
        value = {name: getattr(self, name) for name in self.__slots__}
        return pack("manifest", value | {"log": [rows, present, vacant, self.edits]})


def decode_manifest(data: bytes, store_id: str) -> Manifest:
    """Decode a manifest. Raises `Damaged`, `UnknownSchema`."""
    value = unpack("manifest", data)
    try:
        (depth, refs), erased, (rows, present, vacant, edits) = value["tree"], value["erased"], value["log"]
        rows = all_of(VersionRow, rows)
        value["tree"] = Tree(depth, tuple(all_of(Ref, refs)))
        value["log"] = {MEMORY + path: None for path in vacant} | {VERSION + row.id: row for row in rows} | edits
        value["log"] |= {MEMORY + row.path: row for row in compress(rows, present)}
        value |= {"commits": tuple(value["commits"]), "erased": erased and tuple(erased)}
        value["state"] = StoreState(*value["state"])
        manifest = Manifest(**value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt and cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store belongs to another memory store")
    return manifest


class Held(NamedTuple):
    """Manifest, and the tag of the object from which it was read."""

    tag: Tag
    manifest: Manifest


class ManifestSwap:
    """Manifests of all stores. A cached manifest is fetched again only if it has changed. Threads may share it.

    The caller must prevent threads from replacing the manifest of one memory store at the same time.
    """

    def __init__(self, storage: ObjectStorage, cache: Cache) -> None:
        self._storage = storage
        self._requests = storage.requests
        self._cache = cache
        self._contention: dict[str, WriterTurns] = {}

    @staticmethod
    def key(store_id: str) -> str:
        return f"{MANIFESTS}/{store_id}"

    def cached(self, store_id: str) -> Held | None:
        """The manifest that was read last, or None. Sends no request."""
        return cast("Held | None", self._cache.get(self.key(store_id)))

    def now(self, store_id: str) -> Held:
        """Current manifest, read in one round trip. Raises `NotFound`."""
        held = self.cached(store_id)
        try:
            found = self._requests.get_unless(self.key(store_id), None if held is None else held.tag)
        except Missing:
            self._cache.drop(self.key(store_id))
            raise NotFound(f"there is no memory store {store_id}") from None
        if found is None:
            assert held is not None
            return held
        data, tag = found
        return self.keep(Held(tag, decode_manifest(data, store_id)), len(data))

    def live(self, store_id: str) -> Held:
        """Current manifest. Raises `NotFound`, also for an erased memory store."""
        return alive(self.now(store_id))

    def keep(self, held: Held, size_bytes: int) -> Held:
        self._cache.put(self.key(held.manifest.id), held, size_bytes * 10)
        return held

    def contention(self, store_id: str) -> WriterTurns:
        turns = self._contention.get(store_id)
        if turns is None:
            requests = self._requests
            turns = (
                turns_alone(timeout_s=requests.timeout_s)
                if requests.is_in_process
                else turns_on_this_host(requests.identity, store_id, timeout_s=requests.timeout_s)
            )
        return self._contention.setdefault(store_id, turns)

    def compare_and_swap(self, held: Held, manifest: Manifest, *, deadline: float) -> tuple[Held, bool | None]:
        """Replace a manifest. Returns the current manifest, and True on success, False if another writer won, or None.

        None means that the current state does not contain the replacement, but the outcome of a request is unknown: the
        request may still take effect. The request is sent again with the same bytes and the same condition, so at most
        one of the two requests succeeds. Raises `OutcomeUnknown`.
        """
        contention = self.contention(manifest.id)
        manifest = replace(manifest, commits=(*manifest.commits, contention.commit_id())[-COMMITS_KEPT:])
        data, doubtful = manifest.encoded(), False
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, deadline=deadline)
        while True:
            try:
                tag = self._requests.replace(self.key(manifest.id), data, held.tag)
                contention.won()
                return self.keep(Held(tag, manifest), len(data)), True
            except Taken:
                contention.lost()
                contention.wait(manifest.commits)
            except Unsure:
                doubtful = True
            now = self._after_attempt(manifest.id, doubtful=doubtful)
            if now is not None and self._landed(now, held.manifest, manifest, doubtful=doubtful):
                return now, True
            if now is not None and (now.tag != held.tag or not doubtful):
                if doubtful:
                    contention.lost()  # Ceph RGW replies 500 to one of two concurrent writers
                return now, None if doubtful else False
            if not backoff.wait():
                raise OutcomeUnknown("the storage did not confirm the change, so its outcome is unknown")

    def _after_attempt(self, store_id: str, *, doubtful: bool) -> Held | None:
        """Read the current manifest. Returns None if it cannot be read and the outcome of the attempt is unknown."""
        try:
            return self.now(store_id)
        except RetentiveError as error:
            if not doubtful or isinstance(error, NotFound):
                raise
            return None

    def _landed(self, now: Held, before: Manifest, manifest: Manifest, *, doubtful: bool) -> bool:
        """Return whether the current state includes this commit.

        The state includes the commit if it lists the commit id, or contains the newest version of the commit.
        """
        if manifest.commits[-1] in now.manifest.commits:
            return True
        if not doubtful or manifest.state.newest == before.state.newest or now.manifest.erased:
            return False
        state = OrderedMap(now.manifest.tree, now.manifest.log, Reader(manifest.id, self._storage).pages)
        return state.get(VERSION + manifest.state.newest) is not None

    def change(self, store_id: str, change: Callable[[Manifest], Manifest]) -> Held:
        """Apply `change` to the manifest. Retries after concurrent commits."""
        deadline, contention = time.monotonic() + self._requests.timeout_s, self.contention(store_id)
        contention.begin()
        try:
            if contention.is_seen and (cached := self.cached(store_id)) is not None:
                contention.wait(cached.manifest.commits)
            held = self.now(store_id)
            for _ in self._requests.attempts(BUSY):
                after = change(held.manifest)
                if after is held.manifest:
                    break
                held, landed = self.compare_and_swap(held, after, deadline=deadline)
                if landed:
                    break
        finally:
            contention.end()
        return held

    def fence(self, store_id: str) -> Held:
        """Rewrite the current state to change its tag, so that commits based on the old tag fail. Raises `NotFound`."""
        return alive(self.change(store_id, lambda now: now if now.erased else replace(now)))


def alive(held: Held) -> Held:
    """Return `held`. Raises `NotFound` if the memory store was erased."""
    if held.manifest.erased is not None:
        raise NotFound(f"the memory store {held.manifest.id} was erased")
    return held
