"""Fork handling for all backends.

SQLite's file locks belong to one process, but a forked child inherits SQLite's list of the locks. A child that closes
or uses an inherited connection can therefore delete the log of its parent. To prevent this, every backend stops work
and closes all connections before a fork. Afterwards, parent and child open new connections.

A thread lock that another thread holds during the fork is never released in the child, because that thread does not
exist there. Objects with thread locks therefore replace these locks in the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

F = TypeVar("F", bound=Callable[[], object])


class Forkable(Protocol):
    """Object with state that a forked child must replace, such as thread locks."""

    def renew_after_fork(self) -> None:
        """Replace locks and other state that belongs to threads of the parent process. Called in the forked child."""


@runtime_checkable
class Quietable(Protocol):
    """`Forkable` object that must not do any work during a fork."""

    def quiet(self) -> AbstractContextManager[None]:
        """Stop all work during the context, and close everything that a forked child must not inherit."""


_watched: WeakSet[Forkable] = WeakSet()
_renewals: list[Callable[[], object]] = []
_resting = ExitStack()


def watch(forkable: Forkable) -> None:
    """Register an object, so that its method `renew_after_fork` is called in every forked child.

    If the object is `Quietable`, each fork happens inside the context that its method `quiet` returns.
    """
    _watched.add(forkable)


def in_child(renew: F) -> F:
    """Register the function `renew`, so that it is called in every forked child.

    `renew` replaces globals of a module. It is also returned, so that `in_child` can be used as a decorator.
    """
    _renewals.append(renew)
    return renew


def _before() -> None:
    for forkable in list(_watched):
        if isinstance(forkable, Quietable):
            _resting.enter_context(forkable.quiet())


def _after_in_parent() -> None:
    _resting.close()


def _after_in_child() -> None:
    _resting.pop_all()  # only the parent leaves its quiet contexts; the child replaces the locks in them
    for renew in _renewals:
        renew()
    for forkable in list(_watched):
        forkable.renew_after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
