"""ManifestSwap of memory stores in object storage: read, kept, and replaced by compare-and-swap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from retentive.errors import NotFound, OutcomeUnknown, RetentiveError
from retentive.storage.backoff import Backoff
from retentive.storage.objects.cache import Cache
from retentive.storage.objects.manifest import Manifest, decode_manifest
from retentive.storage.objects.ordered_map import OrderedMap
from retentive.storage.objects.reader import Reader
from retentive.storage.objects.records import VERSION
from retentive.storage.objects.requests import BUSY, Missing, Requests, Tag, Taken, Unsure
from retentive.storage.objects.writer_turns import WriterTurns, new_writer

MANIFESTS = "manifests"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 0.25


class Held(NamedTuple):
    """A manifest, and the state of its object."""

    tag: Tag
    manifest: Manifest


class ManifestSwap:
    """The present manifests. The last seen of each is kept, and sent again only if it changed. Threads may share it.

    Threads that replace the manifest of one memory store come one at a time.
    """

    def __init__(self, requests: Requests, cache: Cache, reader: Callable[[str], Reader]) -> None:
        self._requests = requests
        self._cache = cache
        self._reader = reader
        self._writer = new_writer()
        self._contention: dict[str, WriterTurns] = {}

    @staticmethod
    def key(store_id: str) -> str:
        """Where a manifest is."""
        return f"{MANIFESTS}/{store_id}"

    def cached(self, store_id: str) -> Held | None:
        """The manifest as it was seen last."""
        found = self._cache.get(self.key(store_id))
        assert found is None or isinstance(found, Held)
        return found

    def now(self, store_id: str) -> Held:
        """The present manifest; one round trip. Raises `NotFound`."""
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
        """As `now`. Raises `NotFound` also for a memory store that was erased."""
        return alive(self.now(store_id))

    def keep(self, held: Held, size_bytes: int) -> Held:
        """Remember a manifest."""
        self._cache.put(self.key(held.manifest.id), held, size_bytes * 10)
        return held

    def contention(self, store_id: str) -> WriterTurns:
        """The contention for a memory store."""
        return self._contention.setdefault(store_id, WriterTurns(self._writer))

    def forget_contention(self, store_id: str) -> None:
        """Forget what is known of contention, once there is none."""
        if not self.contention(store_id).is_seen:
            self._contention.pop(store_id, None)

    # -- replacing -------------------------------------------------------------------------------------------

    def compare_and_swap(self, held: Held, manifest: Manifest, *, deadline: float) -> tuple[Held, bool | None]:
        """Replace the manifest that is held: the present one, and whether it is this. None: not, but after a doubt.

        A request that failed in doubt may still be carried out. It is sent again with the same bytes over the same
        state: one of the two finds the state gone. So it is done once, or it never will be. Raises `OutcomeUnknown`.
        """
        contention = self.contention(manifest.id)
        commit = contention.new_commit()
        manifest = manifest.committed_as(commit)
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
                    contention.lost()  # Ceph RGW answers 500 to one of two writers that meet
                return now, None if doubtful else False
            if not backoff.wait():
                raise OutcomeUnknown("the storage did not say whether the change was made")

    def _after_attempt(self, store_id: str, *, doubtful: bool) -> Held | None:
        """The present manifest; None if in doubt and it cannot be read."""
        try:
            return self.now(store_id)
        except NotFound:
            raise
        except RetentiveError:
            if not doubtful:
                raise
            return None

    def _landed(self, now: Held, before: Manifest, manifest: Manifest, *, doubtful: bool) -> bool:
        """Whether the present state comes from this one: by the ids of commits, else by its newest version."""
        if manifest.commits[-1] in now.manifest.commits:
            return True
        if not doubtful or manifest.state.newest == before.state.newest or now.manifest.erased:
            return False
        state = OrderedMap(now.manifest.tree, now.manifest.overlay, self._reader(manifest.id))
        return state.get(VERSION + manifest.state.newest) is not None

    def change(self, store_id: str, change: Callable[[Manifest], Manifest]) -> Held:
        """Replace the manifest by what `change` makes of it, however often others do."""
        deadline = time.monotonic() + self._requests.timeout_s
        held = self.now(store_id)
        for _ in self._requests.attempts(BUSY):
            after = change(held.manifest)
            if after is held.manifest:
                break
            held, landed = self.compare_and_swap(held, after, deadline=deadline)
            if landed:
                break
        return held

    def fence(self, store_id: str) -> Held:
        """The present state under a new tag, so that commits tried on the old one fail. Raises `NotFound`."""
        return alive(self.change(store_id, lambda now: now if now.erased else replace(now)))


def alive(held: Held) -> Held:
    """The same. Raises `NotFound` if the memory store was erased."""
    if held.manifest.erased is not None:
        raise NotFound(f"the memory store {held.manifest.id} was erased")
    return held
