"""Fair queue for the writers of one process, with group commit.

If each thread writes with its own connection, 64 clients reach 970 commits per second and a p99 of 932 ms, because
SQLite's lock is neither fair nor shared. With this queue, they reach 13,800 commits per second and a p99 of 8 ms
(measured on two cores, ext4).

There is no background thread. The first caller in the queue is the leader: it runs the jobs of all waiting callers as
one batch, in one transaction. Then the next waiting caller becomes the leader.

`WriteQueue` collects jobs into batches. `run_batch` attempts all jobs of a batch together; if that fails, it attempts
each job alone. `run_together` makes one attempt: it runs the jobs in one transaction, commits once, and sets the
outcome of each job.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import OutcomeUnknown, RetentiveError, Unavailable
from retentive.storage.backoff import LOCK_TIMEOUT_S
from retentive.storage.contract import Transaction

if TYPE_CHECKING:
    from retentive.storage.lock_file import LockFile

MAX_BATCH = 256  # limits how long the first job of a batch waits for the last
_INTERRUPTED = "the command was interrupted before it began"
_CUT_SHORT = "the outcome of the commit is unknown, because the command was interrupted"


@dataclass(slots=True, eq=False)
class StoreJob:
    """Work of one caller on one memory store, and its outcome: a `result`, or an `error` to raise in his thread."""

    store_id: str
    work: Callable[[Transaction], object]
    _: KW_ONLY
    first_path: str | None = None
    may_use_reserve: bool = False
    wait: bool = True  # false: the job fails at once if another one holds a lock
    timeout_s: float = LOCK_TIMEOUT_S
    deadline: float = field(init=False)
    result: object = field(default=None, init=False)
    error: BaseException | None = field(default_factory=lambda: Unavailable(_INTERRUPTED), init=False)
    finished: bool = field(default=False, init=False)
    alone: bool = field(default=False, init=False)  # true if the job waits in the queue but must not be part of a batch
    turn: threading.Lock | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.timeout_s if self.wait else 0.0


class WriteQueue:
    """Queue that runs jobs in batches, in the order of arrival. Threads may share it.

    `run_batch` runs the jobs of one batch and must set the outcome of every job. `lock` is held while a batch runs, so
    that other processes wait.
    """

    def __init__(self, run_batch: Callable[[Sequence[StoreJob]], None], *, lock: LockFile | None = None) -> None:
        self._run_batch = run_batch
        self._lock = lock
        self._mutex = threading.Lock()
        self._waiting: deque[StoreJob] = deque()
        self._leader: StoreJob | None = None  # the job whose thread runs a batch, or is about to
        self._batch: list[StoreJob] = []  # the jobs that the leader has taken

    def submit(self, job: StoreJob) -> object:
        """Run `job`, or wait until another thread has run it. Returns the result of the job, or raises its error."""
        try:
            if self._must_lead(job):
                if self._lock is not None:
                    self._lock.acquire(deadline=job.deadline)
                self._take()
                self._run_batch(self._batch)
        finally:
            self._leave(job)
        if job.error is not None:
            raise job.error
        return job.result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until the running batch has ended. During the context, no batch runs, and new jobs wait."""
        job = StoreJob("", lambda _: None)
        try:
            if not self._must_lead(job, alone=True):
                raise AssertionError("another thread ran the job that pauses the queue")
            yield
        finally:
            self._leave(job, has_lock=False)

    def _must_lead(self, job: StoreJob, *, alone: bool = False) -> bool:
        with self._mutex:
            if self._leader is None:
                self._leader = job  # from here on, `_leave` hands the queue over
                if not alone:
                    self._waiting.append(job)
                return True
            if not job.wait:
                raise Unavailable("another thread is writing")
            job.alone, job.turn = alone, threading.Lock()
            job.turn.acquire()
            self._waiting.append(job)
        job.turn.acquire()
        if alone:
            with self._mutex:
                self._waiting.remove(job)
        return not job.finished

    def _take(self) -> None:
        with self._mutex:
            waiting, batch = self._waiting, self._batch
            while waiting and len(batch) < MAX_BATCH and not (batch and (waiting[0].alone or not batch[0].wait)):
                batch.append(waiting[0])
                waiting.popleft()

    def _leave(self, job: StoreJob, *, has_lock: bool = True) -> None:
        """End the part of a job in the queue, also after an interrupt. If it leads, the next job becomes the leader."""
        if job.finished:
            return
        with self._mutex:
            if job in self._waiting and job not in self._batch:
                self._waiting.remove(job)
            if self._leader is not job:  # another thread runs the job; its outcome is discarded
                return
        if self._lock is not None and has_lock:
            self._lock.release()  # before the handover, so that the next leader finds the lock free
        with self._mutex:
            done, self._batch = self._batch, []
            while self._waiting and self._waiting[0] in done:  # an interrupt came while the jobs were taken
                self._waiting.popleft()
            head = self._leader = self._waiting[0] if self._waiting else None
        for other in done:
            other.finished = True
        for waking in (*done, head):
            if waking is not None and waking is not job and waking.turn is not None:
                waking.turn.release()


class BatchTransaction(Transaction):
    """Transaction of one job, within the transaction of the database that the jobs of a batch share."""

    changed: bool

    @abstractmethod
    def finish(self) -> bool:
        """Complete a job that ran without an error. Returns True if it has changed something."""

    @abstractmethod
    def undo(self, error: Exception) -> None:
        """Undo the changes of a job that raised `error`.

        Raises `error` if they can be undone only together with the changes of all jobs.
        """


X = TypeVar("X", bound=BatchTransaction)


class BatchFailed(Exception):
    """A batch failed for a reason that affects all jobs, such as a lock of another process.

    Each job of the batch fails with the error `cause`.
    """

    def __init__(self, cause: RetentiveError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def run_batch(jobs: Sequence[StoreJob], attempt: Callable[[Sequence[StoreJob]], object]) -> None:
    """Run all jobs together and set the outcome of every job. If this fails, each job runs alone.

    `attempt` runs jobs with `run_together`. If it raises, nothing was committed. If it raises `BatchFailed`, all jobs
    fail.
    """
    try:
        if jobs:
            attempt(jobs)
    except BatchFailed as failure:
        for job in jobs:
            job.error = failure.cause
    except Exception as error:
        if len(jobs) == 1:
            jobs[0].error = error
        else:
            for job in jobs:
                run_batch([job], attempt)


def run_together(
    jobs: Sequence[StoreJob],
    start: Callable[[StoreJob, Sequence[X]], X],
    commit: Callable[[Sequence[X], Sequence[Exception | None]], object],
) -> list[X]:
    """Run jobs one after the other in one transaction of the database, commit once, and set the outcome of each job.

    `start` returns the transaction of one job, which sees the changes of those before it. `commit` gets the
    transactions that changed something, and the error of each job. It is called even without changes, because some
    backends must then check that the jobs have read the current state. It raises `OutcomeUnknown` if the commit may
    have succeeded. After any other error, no change has an effect.

    Returns the transactions that changed something. Returns an empty list if the outcome of the commit is unknown. If
    the shared transaction fails, its error is raised, and the jobs have no final outcome.
    """
    results: list[object] = []
    errors: list[Exception | None] = []
    changed: list[X] = []
    for job in jobs:
        transaction, result, error = start(job, changed), None, None
        try:
            result = job.work(transaction)
            if transaction.finish():
                changed.append(transaction)
        except Exception as raised:
            error = raised
            transaction.undo(raised)
        results.append(result)
        errors.append(error)
    if changed:
        for job in jobs:
            job.error = OutcomeUnknown(_CUT_SHORT)  # the outcome if this thread is interrupted now
    try:
        commit(changed, errors)
    except OutcomeUnknown as unknown:
        for job, error in zip(jobs, errors, strict=True):
            job.error = error or unknown
        return []
    for job, result, error in zip(jobs, results, errors, strict=True):
        job.result, job.error = result, error
    return changed
