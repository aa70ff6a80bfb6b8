"""Commits of one memory store: the root replaced by compare-and-swap, tried again until it is clear what came of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from commonplace.backends.base import Clock, NewId, Transaction
from commonplace.backends.objects_cache import Cache
from commonplace.backends.objects_crowd import Crowd, new_writer
from commonplace.backends.objects_folding import Fold, Sizes, due, fold
from commonplace.backends.objects_requests import Missing, Requests, Tag, Taken, Unsure, together, within
from commonplace.backends.objects_root import Root, decode_root, encode_root
from commonplace.backends.objects_snapshot import Gone, Immutables, NewTexts, ObjectsSnapshot, ObjectsTransaction
from commonplace.backends.queue import StoreJob
from commonplace.errors import CommonplaceError, NotFound, OutcomeUnknown, Unavailable

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

    def keep(self, held: Held, size_bytes: int) -> Held:
        """Remember a root."""
        self._cache.put(self.key(held.root.id), held, size_bytes * 10)
        return held


class Committer:
    """Runs the batches of writers. Threads may share it; those of one memory store come one at a time."""

    def __init__(
        self,
        requests: Requests,
        roots: Roots,
        objects: Callable[[str], Immutables],
        *,
        clock: Clock,
        new_id: NewId,
        sizes: Sizes,
    ) -> None:
        self._requests = requests
        self._roots = roots
        self._objects = objects
        self._clock = clock
        self._new_id = new_id
        self._sizes = sizes
        self._writer = new_writer()
        self._due: dict[str, Held] = {}
        self._crowds: dict[str, Crowd] = {}

    def run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        """Run all jobs and commit them together; each has its outcome then."""
        try:
            self._run(store_id, jobs)
        except CommonplaceError as error:
            for job in jobs:
                job.error = error

    def rehearse(self, store_id: str, work: Callable[[Transaction], object]) -> None:
        """Run work of one who has to wait anyway, for nothing but to have read what it reads when its turn comes.

        Those of a batch run one after the other, and each would wait for its texts: 48 of the 84 ms of a batch.
        """
        held = self._roots.cached(store_id)
        if held is not None:
            objects = self._objects(store_id)
            with suppress(Exception):  # it will be met again
                work(ObjectsTransaction(held.root, objects, clock=self._clock, new_id=self._new_id, texts=NewTexts()))

    def _run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        started, began = time.monotonic(), time.time()
        texts, written = NewTexts(), set[str]()
        cached = self._roots.cached(store_id)
        held, fresh = (self._roots.now(store_id), True) if cached is None else (cached, False)
        while True:
            texts.again()
            root, ran = self._work(held.root, jobs, texts)
            self._write_texts(held.root, root, texts, written)
            known, held = held, self._looked_again(held, ran, fresh=fresh)
            fresh = True
            if held.tag != known.tag:
                continue
            if not any(one.changed for one in ran):
                break
            if time.time() - began > TEXT_GOOD_FOR_S:
                raise Unavailable("the command was held up for too long")
            _in_doubt(ran)
            deadline = started + self._requests.timeout_s
            held, landed = self.replace(held, root, deadline=deadline)
            if landed:
                break
            if not within(deadline):
                raise Unavailable("too many others write to the memory store")
        for one in ran:
            one.job.result, one.job.error = one.result, one.error
        if not self._crowd(store_id).is_there:
            self._crowds.pop(store_id, None)
        if due(known.root, root, self._sizes):
            self._due[store_id] = held

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

    def _work(self, root: Root, jobs: Sequence[StoreJob], texts: NewTexts) -> tuple[Root, list[_Ran]]:
        """Run all jobs, each on what those before it left; what one raised leaves nothing."""
        every: list[_Ran] = []
        objects = self._objects(root.id)
        for job in jobs:
            transaction = ObjectsTransaction(root, objects, clock=self._clock, new_id=self._new_id, texts=texts)
            ran = _Ran(job)
            every.append(ran)
            try:
                ran.result = job.work(transaction)
            except Exception as error:
                ran.error = error
                continue
            ran.changed = transaction.has_changed
            if ran.changed:
                root = transaction.after()
        return root, every

    def _write_texts(self, before: Root, after: Root, texts: NewTexts, written: set[str]) -> None:
        objects = self._objects(after.id)
        new = after.log[len(before.log) :]
        used = {record.text for record in new if record.text is not None}
        names = [name for name in used if name in texts.named and name not in written]
        self.write_all(after.id, "texts", {name: texts.named[name] for name in names})
        for name in names:
            objects.keep_text(name, texts.named[name])
        written.update(names)

    def write_all(self, store_id: str, kind: str, named: dict[str, bytes]) -> None:
        """Write immutable objects, several at a time."""
        objects = self._objects(store_id)
        together([partial(self._requests.put, objects.key(kind, name), data) for name, data in named.items()])

    def replace(self, held: Held, root: Root, *, deadline: float) -> tuple[Held, bool]:
        """Replace the root that is held; what is there now, and whether that was done.

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
                return now, False
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
        except CommonplaceError:
            if not doubtful:
                raise
            return None

    def _landed(self, now: Held, before: Root, root: Root, commit: str, *, doubtful: bool) -> bool:
        if commit in now.root.commits:
            return True
        if not doubtful or len(root.log) <= len(before.log):  # a fold, or nothing but another seal
            return False
        first = root.log[len(before.log)].id
        return ObjectsSnapshot(now.root, self._objects(root.id)).record_of(first) is not None

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
        made = fold(held.root, self._sizes, self._objects(held.root.id).pages)
        pages = {ref.name for ref in made.pages}
        for kind, is_page in (("pages", True), ("history", False)):
            named = {name: data for name, data in made.objects.items() if (name in pages) == is_page}
            self.write_all(held.root.id, kind, named)
        return Prepared(made, began)

    def use(self, store_id: str, prepared: Prepared) -> None:
        """Commit a fold, unless somebody else folded. For a writer that is alone in this process."""
        made, deadline = prepared.fold, time.monotonic() + self._requests.timeout_s
        held, landed = self._roots.now(store_id), False
        while not landed and made.fits(held.root) and within(deadline):
            if time.time() - prepared.began > TEXT_GOOD_FOR_S:
                return
            held, landed = self.replace(held, made.applied(held.root), deadline=deadline)


def _in_doubt(ran: Sequence[_Ran]) -> None:
    """Should this thread be interrupted now, what its jobs did is not known."""
    for one in ran:
        one.job.error = OutcomeUnknown("the commit was interrupted")


def _pause(tries: int) -> None:
    longest = min(_FIRST_PAUSE_S * 2 ** min(tries, 20), _LONGEST_PAUSE_S)
    time.sleep(random.uniform(0, longest))  # noqa: S311 - spreads those who wait, hides nothing
