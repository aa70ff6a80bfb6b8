"""Migration: memory stores from one place to another, with ids, versions and times, while others go on writing.

What was copied is what the target has: the newest version there says where to go on. So it may be killed at any
moment, and run again, also to fetch what was written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from retentive.errors import Damaged, InvalidInput, Locked, NotFound
from retentive.locations import existing_store
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Backend, Snapshot, StoreInfo, Transaction, Version
from retentive.storage.paging import PAGE_VERSIONS, all_stores, version_pages
from retentive.transfer.archive_writer import Progress, bare, see_hand_edits
from retentive.transfer.kinds import JOTTING_KINDS
from retentive.transfer.present import Present, copy_jottings
from retentive.transfer.restore import check_same, newest_version
from retentive.transfer.versions import History, Taken, batches, between, load_all, take_over

MARK, UNTIL = "migrated", "until"  # a note of the target, which stays there
MAX_ROUNDS = 5  # a source that is written to faster than it can be copied is left behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What came of one memory store: how much it holds, and how many versions were copied now.

    `revision` is that of the source up to which the copy goes; `behind`: the source was written to after that.
    """

    id: str
    key: str | None
    memories: int
    size_bytes: int
    versions: int
    copied: int
    revision: int
    behind: bool
    digest: str


def migrate(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), progress: Progress | None = None
) -> list[Migrated]:
    """Copy all memory stores, or those with these ids or keys, and check that the copies are what they should be.

    A sealed store that is read without keys is copied as it rests, and opens with its own keys at the target, which
    must then be given without keys too. Otherwise it is sealed anew, if the target has keys. Raises `Locked`,
    `InvalidInput` for a target that has other versions of a store, and `Damaged` if a copy is not right.
    """
    chosen = list(all_stores(source)) if not stores else [existing_store(source, name) for name in stores]
    return [_Copy(source, target, info).run(progress) for info in chosen]


class _Copy:
    """One memory store on its way."""

    def __init__(self, source: Backend, target: Backend, info: StoreInfo) -> None:
        self._source = source
        self._target = target
        self._info = info
        self._id = info.id
        self._raw = info.seal is not None and bare(source) is source
        self._copied = 0
        if self._raw and bare(target) is not target:
            raise Locked("the source is sealed: give its keys too, or none for the target, to copy it as it rests")
        if not self._raw:
            capabilities.unlock(source, info)

    def run(self, progress: Progress | None) -> Migrated:
        """Copy, until there is nothing new or there always is."""
        self._make()
        newest, digest, head = self._start(), "", None
        behind = True
        for _ in range(MAX_ROUNDS):
            see_hand_edits(self._source, self._id)
            head = self._source.read(self._id, partial(_Head, after=newest))
            newest = self._copy(head, newest, progress)
            digest = self._settle(head)
            if not head.history.count:
                behind = False
                break
        assert head is not None
        self._follow_removals(newest)
        usage = head.present.usage()
        return Migrated(
            id=self._id,
            key=self._info.key,
            memories=usage.memories,
            size_bytes=usage.size_bytes,
            versions=self._target.read(self._id, lambda snapshot: History(snapshot).count),
            copied=self._copied,
            revision=head.revision,
            behind=behind,
            digest=digest,
        )

    def _make(self) -> None:
        info = self._info
        seal = info.seal if self._raw else None
        made = self._target.create_store(
            key=info.key, name=info.name, seal=seal, store_id=info.id, created_at=info.created_at
        )
        check_same(made, info.id, info.key)
        if not self._raw:
            capabilities.unlock(self._target, made)

    def _start(self) -> str | None:
        """The newest version that the target has. Raises `InvalidInput` if it did not come from the source."""
        newest, marked = self._target.read(self._id, lambda found: (newest_version(found), _marked(found)))
        if newest is not None and newest != marked:  # which the source need not have any more
            try:
                self._source.read(self._id, lambda snapshot: snapshot.version(newest))
            except NotFound:
                said = f"the memory store {self._info.key or self._id} has other versions at the target: erase it there"
                raise InvalidInput(said) from None
        return newest

    def _copy(self, head: _Head, newest: str | None, progress: Progress | None) -> str | None:
        """Copy the versions of a round; the id of the newest that is there then."""
        born = {memory.id: memory.created_at for memory in head.present.memories.values()}
        versions = head.history.oldest_first(lambda ids: self._source.read(self._id, lambda found: between(found, ids)))
        done = 0
        for batch in batches(versions, lambda version: version):
            taken = self._source.read(self._id, partial(load_all, batch=batch, born=born, raw=self._raw))
            self._target.write(self._id, partial(_take, taken=taken))
            newest, done = batch[-1].id, done + len(batch)
            self._copied += len(taken)
            if progress is not None:
                progress(done, head.history.count)
        return newest

    def _settle(self, head: _Head) -> str:
        """Bring about what versions do not tell, and check the copy; the digest of its paths and hashes."""

        def work(tx: Transaction) -> None:
            head.present.bring_about(tx)
            if self._raw and tx.seal != head.seal:
                tx.set_metadata(seal=head.seal)

        self._target.write(self._id, work)
        jotted = [
            (kind, key, value) for kind in JOTTING_KINDS for key, value in self._source.side_records(self._id, kind)
        ]
        copy_jottings(jotted, self._target, self._id)
        return self._target.read(self._id, head.present.check)

    # -- what went from the source since it was copied -------------------------------------------------------

    def _follow_removals(self, newest: str | None) -> None:
        """Redact and remove what was redacted or removed at the source, and check that all else is the same."""
        if newest is None:
            return
        removed: list[str] = []
        redacted: dict[Actor | None, list[str]] = {}
        for there, wanted in self._pairs(newest):
            if wanted is None:
                removed.append(there.id)
            elif wanted.redacted_at is not None and there.redacted_at is None:
                redacted.setdefault(wanted.redacted_by, []).append(there.id)
            elif self._facts(wanted) != self._facts(there):
                raise Damaged(f"the copy of version {there.id} is not what it was copied from")

        def work(tx: Transaction) -> None:
            for actor, ids in redacted.items():
                tx.redact(ids, actor)
            if removed:
                tx.prune(removed)

        if removed or redacted:
            self._target.write(self._id, work, may_use_reserve=True)
            capabilities.purge(self._target)

    def _pairs(self, newest: str) -> Iterator[tuple[Version, Version | None]]:
        """Each version of the copy with that of the source. Raises `Damaged` if one of the source is missing."""
        source, target = (self._newest_first(backend, newest) for backend in (self._source, self._target))
        wanted = next(source, None)
        for there in target:
            if wanted is not None and wanted.id == there.id:
                yield there, wanted
                wanted = next(source, None)
            else:
                yield there, None
        if wanted is not None:
            raise Damaged(f"version {wanted.id} is missing in the copy")

    def _newest_first(self, backend: Backend, newest: str) -> Iterator[Version]:
        def read(before: str | None) -> list[Version]:
            return backend.read(self._id, lambda found: list(found.versions(before=before, limit=PAGE_VERSIONS)))

        return chain.from_iterable(version_pages(read, before=newest + "!"))

    def _facts(self, version: Version) -> Version:
        """What must be the same of a version at both places: of one that is sealed anew, not its seal."""
        return replace(version, seal=version.seal if self._raw else None, redacted_at=None, redacted_by=None)


class _Head:
    """What is copied in one round: the versions after the last, and what the store is with them."""

    def __init__(self, snapshot: Snapshot, *, after: str | None) -> None:
        self.present = Present.of(snapshot)
        self.history = History(snapshot, after=after)
        self.revision = snapshot.revision
        self.seal = snapshot.seal


def _take(tx: Transaction, *, taken: Sequence[Taken]) -> None:
    take_over(tx, taken)
    if taken:
        tx.put_record(MARK, UNTIL, taken[-1].version.id)


def _marked(snapshot: Snapshot) -> str | None:
    """The version copied last."""
    try:
        return snapshot.get_record(MARK, UNTIL)
    except Damaged:  # copied without keys, and now read with them
        return None
