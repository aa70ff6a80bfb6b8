"""The executor of batches, over a storage that is one dict: which jobs share a commit, and the outcome of each job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from retentive.errors import NotFound, OutcomeUnknown, StoreFull
from retentive.storage.queue import StoreJob, WriteQueue, run_batch, run_together

STORE = "memstore_1"


class _Storage:
    """A dict that each commit replaces completely, like a manifest.

    Each of the next commits raises the next of `failures`, and None lets a commit succeed.
    """

    def __init__(self, failures: Sequence[Exception | None] = (), *, savepoints: bool = True) -> None:
        self.values: dict[str, str] = {}
        self.failures = list(failures)
        self.savepoints = savepoints
        self.batches: list[int] = []

    def attempt(self, jobs: Sequence[StoreJob]) -> None:
        self.batches.append(len(jobs))
        run_together(jobs, self.start, self.commit)

    def start(self, job: StoreJob, changed: Sequence[Any]) -> Any:
        if job.store_id != STORE:
            raise NotFound("there is no such store")
        return _Transaction(self, changed[-1].after if changed else self.values)

    def commit(self, changed: Sequence[Any], _: object) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.values = changed[-1].after if changed else self.values


class _Transaction:
    """The changes of one job to the dict."""

    def __init__(self, storage: _Storage, before: dict[str, str]) -> None:
        self.storage = storage
        self.after = dict(before)
        self.changed = False

    def put(self, key: str, value: str) -> None:
        self.after[key] = value
        self.changed = True

    def finish(self) -> bool:
        return self.changed

    def undo(self, error: Exception) -> None:
        if isinstance(error, StoreFull) or not self.storage.savepoints:
            raise error


def put(key: str, *, fails: Exception | None = None, sees: str | None = None) -> StoreJob:
    """Return a job that writes one key and may then raise an error.

    With `sees`, the job must see the key of an earlier job.
    """

    def work(tx: Any) -> str:
        assert sees is None or sees in tx.after
        tx.put(key, key.upper())
        if fails is not None:
            raise fails
        return key

    return StoreJob(STORE, cast("Callable[[Any], object]", work), may_use_reserve=False)


def outcomes(jobs: Sequence[StoreJob]) -> list[object]:
    """Return the result of each job, or the class of its error."""
    return [job.result if job.error is None else type(job.error) for job in jobs]


@pytest.mark.parametrize(("savepoints", "batches"), [(True, [3]), (False, [3, 1, 1, 1])])
def test_a_job_that_raises_leaves_no_change(savepoints: bool, batches: list[int]) -> None:
    """The other jobs of the batch succeed.

    If the storage cannot undo one job alone, each job is run in a batch of its own.
    """
    storage = _Storage(savepoints=savepoints)
    jobs = [put("a"), put("b", fails=ValueError("no")), put("c", sees="a")]
    run_batch(jobs, storage.attempt)
    assert outcomes(jobs) == ["a", ValueError, "c"]
    assert storage.values == {"a": "A", "c": "C"}
    assert storage.batches == batches


def test_after_a_storage_error_each_job_runs_alone() -> None:
    """The job that does not fit into the space must not make the other jobs fail."""
    storage = _Storage()
    jobs = [put("a"), put("b", fails=StoreFull("full")), put("c")]
    run_batch(jobs, storage.attempt)
    assert outcomes(jobs) == ["a", StoreFull, "c"]
    assert storage.batches == [3, 1, 1, 1]


def test_an_unknown_commit_is_reported_to_jobs_with_changes_and_not_repeated() -> None:
    """A job that raised its own error before the commit keeps that error."""
    storage = _Storage([OutcomeUnknown("lost")])
    jobs = [put("a"), put("b", fails=ValueError("no"))]
    run_batch(jobs, storage.attempt)
    assert outcomes(jobs) == [OutcomeUnknown, ValueError]
    assert storage.batches == [2]


def test_a_leader_interrupted_at_the_commit_leaves_the_outcome_unknown() -> None:
    storage = _Storage([cast("Exception", KeyboardInterrupt())])
    jobs = [put("a"), put("b")]
    with pytest.raises(KeyboardInterrupt):
        run_batch(jobs, storage.attempt)
    assert outcomes(jobs) == [OutcomeUnknown, OutcomeUnknown]


class Interrupting:
    """Mutex that raises `KeyboardInterrupt` right after it was released for the `left`th time."""

    def __init__(self, left: int) -> None:
        self._mutex, self._left = threading.Lock(), left

    def __enter__(self) -> None:
        self._mutex.acquire()

    def __exit__(self, *_: object) -> None:
        self._mutex.release()
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", [1, 2])
def test_an_interrupt_before_the_first_batch_leaves_the_queue_a_leader(left: int) -> None:
    """Once after the job has become the leader, and once after it has taken its batch. The next job runs."""
    ran = []

    def run(jobs: Sequence[StoreJob]) -> None:
        for job in jobs:
            ran.append(job)
            job.error = None

    jobs = WriteQueue(run)
    jobs._mutex = Interrupting(left)  # type: ignore[assignment]
    first, second = (StoreJob("memstore_1", lambda _: None) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        jobs.submit(first)
    assert jobs.submit(second) is None
    assert ran == [second]
