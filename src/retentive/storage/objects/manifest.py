"""Manifest: the only mutable object of a memory store. It describes the current state of the store.

The memories, versions and records of a store are in one ordered map. The manifest has the root of the map's tree of
pages, and a *log*: the latest edits of the map, which are not in the tree yet. Most commits therefore write only the
manifest and a pack, which has the new texts. Compaction moves the log into the tree.

Object storage has no queue. The first writer that replaces the manifest by compare-and-swap wins, and the attempts of
other writers fail. The manifest has the ids of the latest commits, so that writers see how many others there are.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from retentive.errors import Damaged, NotFound, OutcomeUnknown, RetentiveError, Unavailable
from retentive.storage.backoff import pauses
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo, to_datetime
from retentive.storage.objects.ordered_map import Tree
from retentive.storage.objects.reader import SIZE_OF_PARSED, Cache
from retentive.storage.objects.records import MEMORY, Edits, Ref, decoded, pack, unpack
from retentive.storage.objects.requests import BUSY, Missing, Requests, Tag, Taken, Unsure

MANIFESTS = "manifests"
COMMITS_KEPT = 64  # a writer whose reply was lost looks for its commit among these
_CHARS_OF_ROW = 128  # this many characters of edits count as one row
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 0.25
_WRITER_CHARS = 8  # at the start of a commit id
_LATEST = 32  # number of latest commits in which other writers are counted
_LONGEST_WAIT_S = 1.0
_SPREAD = 4  # measured with 16 processes: 1.9 attempts for each commit; with 2 it took 2.7, with 1 it took 6


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a memory store.

    `generation` is the number of compactions so far. Each commit adds only objects that were made for the generation of
    the manifest that it replaces. `tree` is the root of the tree with the memories, versions and records. `log` has the
    edits that are not in the tree yet. `newest` is the id of the newest version. `last_at` is the time of the newest
    version or event. `tag` is the tag of the stored object that this manifest was read from, or that it replaces.
    """

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    newest: str = ""
    generation: int = 0
    commits: tuple[str, ...] = ()
    tree: Tree = field(default_factory=Tree)
    log: Edits = field(default_factory=dict, repr=False)
    erased: tuple[int, str | None] | None = None  # time and actor of the erasure
    workspace: str = DEFAULT_WORKSPACE
    properties: str | None = None
    tag: Tag | None = field(default=None, compare=False)

    def info(self) -> StoreInfo:
        created = to_datetime(self.created)
        if self.erased is not None:
            return StoreInfo(self.id, None, "", created, 0, 0, erased_at=to_datetime(self.erased[0]))
        texts = self.seal, None, self.workspace, self.properties
        return StoreInfo(self.id, self.key, self.name, created, self.memories, self.size_bytes, *texts)

    @property
    def weight(self) -> int:
        """Size of the log as a number of rows. Long records count as several rows."""
        values = [value for key, value in self.log.items() if key[0] != MEMORY]
        return sum(1 + (len(value) // _CHARS_OF_ROW if isinstance(value, str) else 0) for value in values)

    def encoded(self) -> bytes:
        value = {name: getattr(self, name) for name in self.__slots__ if name != "tag"}
        return pack("manifest", value | {"log": list(self.log.items())})


def decode_manifest(data: bytes, store_id: str, tag: Tag | None = None) -> Manifest:
    """Decode the manifest of the store `store_id`, from an object with the tag `tag`.

    Raises `Damaged`, or `UnknownSchema` if it has another format.
    """
    value = unpack("manifest", data)
    try:
        (depth, refs), erased = value["tree"], value["erased"]
        value["tree"] = Tree(depth, tuple(map(Ref._make, refs)))
        value["log"] = {key: decoded(edit) for key, edit in value["log"]}
        value |= {"commits": tuple(value["commits"]), "erased": erased and tuple(erased)}
        manifest = Manifest(**value, tag=tag)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the manifest of a memory store is corrupt and cannot be decoded") from None
    if manifest.id != store_id:
        raise Damaged("the manifest of a memory store contains the id of another memory store")
    return manifest


class ManifestSwap:
    """Reads, caches and replaces the manifests of all stores. A manifest that has not changed is not fetched again.

    Threads may share the object, but only one thread at a time may replace the manifest of one memory store.
    """

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache
        self._writer = os.urandom(_WRITER_CHARS // 2).hex()
        self._attempt_s = 0.005  # usual duration of the request that replaces a manifest

    @staticmethod
    def key(store_id: str) -> str:
        return f"{MANIFESTS}/{store_id}"

    def cached(self, store_id: str) -> Manifest | None:
        """Return the manifest of a store from the cache, or None if it is not cached. Sends no request."""
        return cast("Manifest | None", self._cache.get(self.key(store_id)))

    def now(self, store_id: str) -> Manifest:
        """Read the current manifest of a store in one round trip. Raises `NotFound` if the store does not exist."""
        held = self.cached(store_id)
        try:
            data, tag = self._requests.get(self.key(store_id), None if held is None else held.tag)
        except Missing:
            self._cache.drop(self.key(store_id))
            raise NotFound(f"there is no memory store {store_id}") from None
        except Taken:
            assert held is not None
            return held
        return self._keep(decode_manifest(data, store_id, tag), len(data))

    def live(self, store_id: str) -> Manifest:
        """Read the current manifest of a store. Raises `NotFound` if the store does not exist or was erased."""
        return alive(self.now(store_id))

    def create(self, manifest: Manifest) -> Manifest:
        """Write the first manifest of a store. Raises `Taken` if the store exists, and `Unsure`."""
        data = manifest.encoded()
        return self._keep(replace(manifest, tag=self._requests.replace(self.key(manifest.id), data, None)), len(data))

    def _keep(self, manifest: Manifest, size_bytes: int) -> Manifest:
        self._cache.put(self.key(manifest.id), manifest, size_bytes * SIZE_OF_PARSED)
        return manifest

    def compare_and_swap(
        self, held: Manifest, manifest: Manifest, *, deadline: float, losses: int = 0
    ) -> tuple[Manifest, bool | None]:
        """Replace the manifest `held` with `manifest`. Returns the manifest that is now stored, and the result.

        The result is True if the replacement succeeded, and False if another writer was first. The result is None if
        another writer was first, but the storage did not reply to one of the requests of this call. That request may
        still be in progress. If the storage does not reply and the manifest is unchanged, the request is sent again
        with the same bytes and the same condition, so at most one of the requests succeeds. Raises `OutcomeUnknown` if
        the storage has not replied by `deadline`, a value of `time.monotonic`, or if `COMMITS_KEPT` others came later.
        """
        commits = (*manifest.commits, self._writer + os.urandom(4).hex())[-COMMITS_KEPT:]
        manifest, began = replace(manifest, commits=commits), time.monotonic()
        data, doubtful = manifest.encoded(), False
        unknown = OutcomeUnknown("the storage did not confirm the change, so its outcome is unknown")
        retries = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, deadline=deadline)
        while True:
            try:
                tag = self._requests.replace(self.key(manifest.id), data, held.tag)
                self._attempt_s += (time.monotonic() - began - self._attempt_s) / 8
                return self._keep(replace(manifest, tag=tag), len(data)), True
            except Taken:
                self._give_way(manifest, losses, deadline)
            except Unsure:
                doubtful = True
            now = None
            try:
                now = self.now(manifest.id)
            except RetentiveError as error:
                if not doubtful or isinstance(error, NotFound):
                    raise
            if now is not None and commits[-1] in now.commits:
                return now, True
            if now is not None and (now.tag != held.tag or not doubtful):
                if doubtful and len(now.commits) == COMMITS_KEPT and not {*held.commits[-1:]} & {*now.commits}:
                    raise unknown  # so many came later that the manifest may not list the commit any more
                return now, None if doubtful else False  # Ceph RGW replies 500 to one of two concurrent writers
            if not next(retries, False):
                raise unknown

    def _give_way(self, manifest: Manifest, losses: int, deadline: float) -> None:
        """Wait in proportion to the other writers among the latest commits and to the usual time of an attempt.

        The wait is shorter with each attempt that was lost in a row, so no writer starves.
        """
        if time.monotonic() > deadline:
            return
        writers = {commit[:_WRITER_CHARS] for commit in manifest.commits[-_LATEST:]} - {self._writer}
        longest_s = _SPREAD * self._attempt_s * max(len(writers), 1) / (1 + losses)
        time.sleep(random.uniform(0, min(longest_s, _LONGEST_WAIT_S)))  # noqa: S311 - no secret

    def change(self, store_id: str, change: Callable[[Manifest], Manifest]) -> None:
        """Replace the manifest of a store with the result of `change`, which receives the current manifest.

        If it returns the same object, nothing is written. If another writer commits first, `change` is called again.
        """
        deadline, held, landed = time.monotonic() + self._requests.timeout_s, self.now(store_id), None
        while not landed and (after := change(held)) is not held:
            if time.monotonic() > deadline:
                raise Unavailable(BUSY)
            held, landed = self.compare_and_swap(held, after, deadline=deadline)


def alive(manifest: Manifest) -> Manifest:
    """Return the manifest, or raise `NotFound` if the memory store was erased."""
    if manifest.erased is not None:
        raise NotFound(f"the memory store {manifest.id} was erased")
    return manifest
