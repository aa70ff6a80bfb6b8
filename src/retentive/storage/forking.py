"""One place that handles forks of this process.

SQLite's locks belong to a process, and its bookkeeping of them is copied by a fork: a child that closes or uses an
inherited connection can make the parent's log vanish. So before a fork every backend comes to rest with nothing open,
and parent and child open anew. A lock that another thread held at the fork is never released in the child: whatever has
locks makes new ones there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

F = TypeVar("F", bound=Callable[[], object])


class Forkable(Protocol):
    """An object that a forked child renews before it uses it."""

    def forget_threads(self) -> None:
        """In the child: replace locks, and all else that belongs to threads of the parent."""


@runtime_checkable
class Quietable(Protocol):
    """A `Forkable` that the parent must not leave in the middle of its work."""

    def quiet(self) -> AbstractContextManager[None]:
        """Context in which no work runs, and nothing is open that a forked child must not inherit."""


_watched: WeakSet[Forkable] = WeakSet()
_renewals: list[Callable[[], object]] = []
_resting = ExitStack()


def watch(forkable: Forkable) -> None:
    """Renew an object in every forked child from now on; over the fork it is `quiet`, if it can be."""
    _watched.add(forkable)


def in_child(renew: F) -> F:
    """Call a function, which renews globals of its module, in every forked child. Usable as a decorator."""
    _renewals.append(renew)
    return renew


def _before() -> None:
    for forkable in list(_watched):
        if isinstance(forkable, Quietable):
            _resting.enter_context(forkable.quiet())


def _after_in_parent() -> None:
    _resting.close()


def _after_in_child() -> None:
    _resting.pop_all()  # the parent ends its rest; here the locks of it are replaced
    for renew in _renewals:
        renew()
    for forkable in list(_watched):
        forkable.forget_threads()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
