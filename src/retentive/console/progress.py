"""Progress of a long call, for a page that is streamed while the call runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeAlias, TypeVar

from retentive.errors import RetentiveError
from retentive.server.envelope import BUGS, described

R = TypeVar("R")
ReportDone: TypeAlias = Callable[[int], None]
CALLS = 2
"""Maximum number of long calls, other than searches, that a process runs at the same time."""
SEARCHES = 8
"""Maximum number of searches with progress that a process runs at the same time."""
SEARCH_WAIT_S = 5.0
"""Longest time that a search waits until it may start."""
GAP_S = 0.5
"""Shortest time between two reports of progress."""
_running = BoundedSemaphore(CALLS)
_searching = BoundedSemaphore(SEARCHES)


@dataclass(frozen=True, slots=True)
class ProgressStep(Generic[R]):
    """Progress of a long call. `done` is the number of items done so far.

    The last step has the result of the call, or the code of an error as `problem`. An unexpected error has the code
    `internal_error`, and is logged.
    """

    done: int = 0
    result: R | None = None
    problem: str = ""


class _StoppedError(Exception):
    """Raised to stop a call because the page was closed."""


def steps_of(work: Callable[[ReportDone], R], *, is_search: bool = False) -> Generator[ProgressStep[R], None, None]:
    """Run a call in a thread and yield its progress. The call starts when the first step is requested.

    `work` gets a function by which it reports the number of items done. When the generator is closed, the call stops at
    its next report. If too many long calls are running, the only step has the problem `overloaded`. Searches are
    counted apart from other calls, and wait up to `SEARCH_WAIT_S` for another search to end.
    """
    places = _searching if is_search else _running
    if not places.acquire(timeout=SEARCH_WAIT_S if is_search else 0):
        yield ProgressStep(problem="overloaded")
        return
    told: SimpleQueue[ProgressStep[R] | None] = SimpleQueue()
    closed: list[None] = []
    Thread(target=_run, args=(work, told, closed, places), name="retentive-long-call", daemon=True).start()
    try:
        while (step := told.get()) is not None:
            yield step
    finally:
        closed.append(None)


def only_step_of(work: Callable[[ReportDone], R]) -> Iterator[ProgressStep[R]]:
    """Run a short call (usually under 1 s) when the first step is requested, and yield only its result.

    The page can send its head before the call. Unlike `steps_of`, this function needs no thread, and the number of
    calls is not limited.
    """
    yield _last_step(work, lambda _: None)


class Incomplete(Exception):
    """Raised at the end of a streamed page that lacks a part, so that no browser caches the page as complete."""


class Later(Generic[R]):
    """Part of a streamed page that is made when the template first uses it, after the head was sent."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work

    @cached_property
    def step(self) -> ProgressStep[R]:
        """A step with the part as its `result`, or with the code of an error as its `problem`."""
        return _last_step(lambda _: self._work(), lambda _: None)

    def check(self) -> str:
        """Return an empty text if the part could be made. Otherwise raise `Incomplete`."""
        if self.step.problem:
            raise Incomplete(self.step.problem)
        return ""


def _last_step(work: Callable[[ReportDone], R], report: ReportDone) -> ProgressStep[R]:
    try:
        return ProgressStep(result=work(report))
    except RetentiveError as error:
        return ProgressStep(problem=error.code)
    except _StoppedError:
        raise
    except Exception as error:
        BUGS.error("a call of a console page failed: %s", described(error))
        return ProgressStep(problem="internal_error")


def _run(
    work: Callable[[ReportDone], R],
    told: SimpleQueue[ProgressStep[R] | None],
    closed: list[None],
    places: BoundedSemaphore,
) -> None:
    due = time.monotonic() + GAP_S

    def report(done: int) -> None:
        nonlocal due
        if closed:
            raise _StoppedError
        if time.monotonic() >= due:
            due = time.monotonic() + GAP_S
            told.put(ProgressStep(done))

    try:
        told.put(_last_step(work, report))
    except _StoppedError:
        pass
    finally:
        places.release()
        told.put(None)
