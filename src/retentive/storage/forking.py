"""Fork handling for all backends.

SQLite's locks belong to a process, but a fork copies the list of these locks. A child that closes or uses an inherited
connection can therefore delete the parent's log. Before a fork, every backend therefore stops work and closes all
connections; parent and child then open new ones. If another thread holds a lock during the fork, the lock is never
released in the child, so objects with locks replace them in the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

F = TypeVar("F", bound=Callable[[], object])


class Forkable(Protocol):
    """Object that must be renewed in a forked child."""

    def renew_after_fork(self) -> None:
        """Replace locks and other state that belongs to threads of the parent. Called in the child."""


@runtime_checkable
class Quietable(Protocol):
    """`Forkable` that must be idle during a fork."""

    def quiet(self) -> AbstractContextManager[None]:
        """Context in which no work runs, and nothing is open that a forked child must not inherit."""


_watched: WeakSet[Forkable] = WeakSet()
_renewals: list[Callable[[], object]] = []
_resting = ExitStack()


def watch(forkable: Forkable) -> None:
    """Register an object: it is renewed in every forked child and, if it is `Quietable`, is `quiet` during a fork."""
    _watched.add(forkable)


def in_child(renew: F) -> F:
    """Call `renew`, which replaces module globals, in every forked child. It can be used as a decorator."""
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
