"""Commits of one memory store: the root replaced by compare-and-swap, tried again until it is clear what came of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from retentive.errors import NotFound, OutcomeUnknown, RetentiveError, Unavailable
from retentive.storage.contract import Transaction
from retentive.storage.objects.cache import Cache
from retentive.storage.objects.compaction import Fold, due, fold
from retentive.storage.objects.contention import Crowd, new_writer
from retentive.storage.objects.immutables import Gone, Immutables, NewObjects
from retentive.storage.objects.manifest import Root, decode_root, encode_root
from retentive.storage.objects.purge import Sweeping, passed, put_mark
from retentive.storage.objects.requests import Missing, Requests, Tag, Taken, Unsure, together, within
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.objects.transaction import Means, ObjectsTransaction
from retentive.storage.queue import StoreJob

TEXT_GOOD_FOR_S = 3_600.0  # how long a text may wait for its commit; those of crashed writers are collected after a day
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.004, 0.25


class Held(NamedTuple):
    """A root, and which state of the object it is."""

    tag: Tag
    root: Root


class Prepared(NamedTuple):
    """A fold whose objects are written, and when that began."""

    fold: Fold
    began: float


@dataclass(slots=True)
class _Ran:
    """What came of a job, until its commit makes it so."""

    job: StoreJob
    result: object = None
    error: Exception | None = None
    changed: bool = False
    removed: bool = False


class Roots:
    """The roots of memory stores, as they are now. The last seen of each is kept, and asked for only if it changed."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache

    @staticmethod
    def key(store_id: str) -> str:
        """Where a root lies."""
        return f"roots/{store_id}"

    def cached(self, store_id: str) -> Held | None:
        """The root as it was seen last."""
        found = self._cache.get(self.key(store_id))
        assert found is None or isinstance(found, Held)
        return found

    def now(self, store_id: str) -> Held:
        """The root as it is; one round trip. Raises `NotFound`."""
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
        return self.keep(Held(tag, decode_root(data, store_id)), len(data))

    def live(self, store_id: str) -> Held:
        """As `now`. Raises `NotFound` also for a memory store that was erased."""
        return alive(self.now(store_id))

    def keep(self, held: Held, size_bytes: int) -> Held:
        """Remember a root."""
        self._cache.put(self.key(held.root.id), held, size_bytes * 10)
        return held


def alive(held: Held) -> Held:
    """The same. Raises `NotFound` if the memory store was erased."""
    if held.root.erased is not None:
        raise NotFound(f"the memory store {held.root.id} was erased")
    return held


class Committer:
    """Runs the batches of writers. Threads may share it; those of one memory store come one at a time."""

    def __init__(
        self,
        requests: Requests,
        roots: Roots,
        objects: Callable[[str], Immutables],
        means: Means,
    ) -> None:
        self._requests = requests
        self._roots = roots
        self._objects = objects
        self._means = means
        self._writer = new_writer()
        self._due: dict[str, Held] = {}
        self._crowds: dict[str, Crowd] = {}
        self.sweeping = Sweeping()

    def run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        """Run all jobs and commit them together; each has its outcome then."""
        try:
            self._run(store_id, jobs)
        except RetentiveError as error:
            for job in jobs:
                job.error = error

    def rehearse(self, store_id: str, work: Callable[[Transaction], object]) -> None:
        """Run work of one who has to wait anyway, for nothing but to have read what it reads when its turn comes.

        Those of a batch run one after the other, and each would wait for its texts: 48 of the 84 ms of a batch.
        """
        held = self._roots.cached(store_id)
        if held is not None:
            with suppress(Exception):  # it will be met again
                work(ObjectsTransaction(alive(held).root, self._objects(store_id), NewObjects(), self._means))

    def _run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        written = set[str]()
        try:
            self._run_until_done(store_id, jobs, written)
        except NotFound:  # it was erased meanwhile, and this must not be left of it
            objects = self._objects(store_id)
            self._requests.delete([objects.key(*name.split("/")) for name in sorted(written)])
            raise

    def _run_until_done(self, store_id: str, jobs: Sequence[StoreJob], written: set[str]) -> None:
        started, began = time.monotonic(), time.time()
        new, marks = NewObjects(), list[str]()
        cached = self._roots.cached(store_id)
        held, fresh = (self._roots.now(store_id), True) if cached is None else (cached, False)
        named = set[str]()  # by this commit, or by a try that was in doubt
        while True:
            new.again()
            root, ran, made = self._work(alive(held).root, jobs, new)
            self._write_new(store_id, {name: new.named[name.partition("/")[2]] for name in made - written})
            written |= made
            known, held = held, alive(self._looked_again(held, ran, fresh=fresh))
            fresh = True
            if held.tag != known.tag:
                continue
            if not any(one.changed for one in ran):
                break
            if time.time() - began > TEXT_GOOD_FOR_S:
                raise Unavailable("the command was held up for too long")
            if any(one.removed for one in ran):
                marks.append(put_mark(self._requests, store_id))
            _in_doubt(ran)
            deadline = started + self._requests.timeout_s
            held, landed = self.replace(held, root, deadline=deadline)
            if landed is not False:
                named |= made
            if landed:
                break
            if not within(deadline):
                raise Unavailable("too many others write to the memory store")
        _tell(ran)
        self._committed(known.root, root, held)
        self.sweeping.committed(held.root, marks, written - named)

    def _committed(self, before: Root, root: Root, held: Held) -> None:
        if not self._crowd(root.id).is_there:
            self._crowds.pop(root.id, None)
        if due(before, root, self._means.sizes):
            self._due[root.id] = held

    def _looked_again(self, held: Held, ran: Sequence[_Ran], *, fresh: bool) -> Held:
        """The root to decide on: a refusal must not come from a state that has passed, nor from what is collected.

        In a crowd it is looked at with the texts already written, so that little time passes until its commit.
        """
        crowd = self._crowd(held.root.id)
        if not fresh and (crowd.is_there or not all(one.changed for one in ran)):
            crowd.wait(held.root.commits)
            return self._roots.now(held.root.id)
        if any(isinstance(one.error, Gone) for one in ran):
            return self._roots.now(held.root.id)
        return held

    def _crowd(self, store_id: str) -> Crowd:
        """Threads come one at a time for each store, so that to find none is no race."""
        return self._crowds.setdefault(store_id, Crowd(self._writer))

    def _work(self, root: Root, jobs: Sequence[StoreJob], new: NewObjects) -> tuple[Root, list[_Ran], set[str]]:
        """Run all jobs, each on what those before it left; what one raised leaves nothing."""
        every: list[_Ran] = []
        made = set[str]()
        objects = self._objects(root.id)
        for job in jobs:
            transaction = ObjectsTransaction(root, objects, new, self._means)
            ran = _Ran(job)
            every.append(ran)
            try:
                ran.result = job.work(transaction)
                after = transaction.after()
            except Exception as error:
                ran.error = error
                continue
            ran.changed, ran.removed = transaction.has_changed, transaction.has_removed
            if ran.changed:
                root = after
                made |= transaction.made
        return root, every, made

    def _write_new(self, store_id: str, named: Mapping[str, bytes]) -> None:
        """Write what a commit is about to name."""
        objects = self._objects(store_id)
        self.write_all(store_id, named)
        for name, data in named.items():
            kind, _, bare = name.partition("/")
            objects.keep(kind, bare, data)

    def write_all(self, store_id: str, named: Mapping[str, bytes]) -> None:
        """Write immutable objects, several at a time; they are named with their kind, as in `texts/`."""
        objects = self._objects(store_id)
        together([partial(self._requests.put, objects.key(*name.split("/")), data) for name, data in named.items()])

    def replace(self, held: Held, root: Root, *, deadline: float) -> tuple[Held, bool | None]:
        """Replace the root that is held; what is there now, and whether that was done: None if not, after a doubt.

        A request that failed in doubt may still be carried out. It is sent again with the same bytes over the same
        state: one of the two finds the state gone. So it is done once, or it never will be. Raises `OutcomeUnknown`.
        """
        crowd = self._crowd(root.id)
        commit = crowd.new_commit()
        root = root.committed_as(commit)
        data, doubtful = encode_root(root), False
        for tries in range(1_000_000):
            try:
                tag = self._requests.replace(Roots.key(root.id), data, held.tag)
                crowd.won()
                return self._roots.keep(Held(tag, root), len(data)), True
            except Taken:
                crowd.lost()
                crowd.wait(root.commits)
            except Unsure:
                doubtful = True
            now = self._looked_after(root.id, doubtful=doubtful)
            if now is not None and self._landed(now, held.root, root, commit, doubtful=doubtful):
                return now, True
            if now is not None and (now.tag != held.tag or not doubtful):
                if doubtful:
                    crowd.lost()  # Ceph RGW says 500 to one of two that meet
                return now, None if doubtful else False
            if not within(deadline):
                raise OutcomeUnknown("the storage did not say whether the change was made")
            _pause(tries + 3)
        raise AssertionError("unreachable")

    def _looked_after(self, store_id: str, *, doubtful: bool) -> Held | None:
        """The root after an attempt; None if in doubt and it cannot be seen."""
        try:
            return self._roots.now(store_id)
        except NotFound:
            raise
        except RetentiveError:
            if not doubtful:
                raise
            return None

    def _landed(self, now: Held, before: Root, root: Root, commit: str, *, doubtful: bool) -> bool:
        if commit in now.root.commits:
            return True
        if not doubtful or root.newest <= before.newest or now.root.erased:  # a fold, a note, another seal
            return False
        return ObjectsSnapshot(now.root, self._objects(root.id)).record_of(root.newest) is not None

    def touch(self, held: Held) -> Held | None:
        """The same state under a new tag, so that commits being tried on it will fail; None if it has passed."""
        deadline = time.monotonic() + self._requests.timeout_s
        held, landed = self.replace(held, held.root, deadline=deadline)
        return held if landed else None

    # -- folding ---------------------------------------------------------------------------------------------

    def due(self, store_id: str) -> Held | None:
        """The state whose log is to be folded, if some is; told to one who asks."""
        return self._due.pop(store_id, None)

    def prepare(self, held: Held) -> Prepared:
        """Write the pages and the history a log becomes. Others, also of this process, may commit meanwhile."""
        began = time.time()
        made = fold(held.root, self._means.sizes, self._objects(held.root.id).pages)
        self.write_all(held.root.id, made.objects)
        return Prepared(made, began)

    def use(self, store_id: str, prepared: Prepared) -> None:
        """Commit a fold, unless somebody else folded. For a writer that is alone in this process."""
        made, deadline = prepared.fold, time.monotonic() + self._requests.timeout_s
        objects = self._objects(store_id)
        try:
            held = self._roots.live(store_id)
            landed: bool | None = False
            while not landed and made.fits(alive(held).root) and within(deadline):
                if time.time() - prepared.began > TEXT_GOOD_FOR_S:
                    return
                held, landed = self.replace(held, made.applied(held.root), deadline=deadline)
            going = [] if landed else passed(list(made.objects), held.root, objects)
        except NotFound:
            going = list(made.objects)
        self._requests.delete([objects.key(*name.split("/")) for name in going])  # it may hold what is blanked by now

    def change(self, store_id: str, change: Callable[[Root], Root]) -> Held:
        """Replace the root by what `change` makes of it, however often others do. For one that is alone here."""
        deadline = time.monotonic() + self._requests.timeout_s
        held = self._roots.now(store_id)
        while within(deadline):
            after = change(held.root)
            if after is held.root:
                return held
            held, landed = self.replace(held, after, deadline=deadline)
            if landed:
                return held
        raise Unavailable("too many others write to the memory store")


def _tell(ran: Sequence[_Ran]) -> None:
    for one in ran:
        one.job.result, one.job.error = one.result, one.error


def _in_doubt(ran: Sequence[_Ran]) -> None:
    """Should this thread be interrupted now, what its jobs did is not known."""
    for one in ran:
        one.job.error = OutcomeUnknown("the commit was interrupted")


def _pause(tries: int) -> None:
    longest = min(_FIRST_PAUSE_S * 2 ** min(tries, 20), _LONGEST_PAUSE_S)
    time.sleep(random.uniform(0, longest))  # noqa: S311 - spreads those who wait, hides nothing
