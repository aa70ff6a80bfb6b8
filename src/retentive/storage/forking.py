"""Fork handling for all backends.

SQLite's locks belong to a process, but a fork copies its bookkeeping of them: a child that closes or uses an inherited
connection can delete the parent's log. So before a fork every backend stops work and closes all connections, and both
sides reopen them. A lock that another thread held at the fork is never released in the child, so objects with locks
replace them there.
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
        """Replace locks and other state that belongs to the parent's threads; called in the child."""


@runtime_checkable
class Quietable(Protocol):
    """`Forkable` that must be idle during a fork."""

    def quiet(self) -> AbstractContextManager[None]:
        """Context in which no work runs and nothing is open that a forked child must not inherit."""


_watched: WeakSet[Forkable] = WeakSet()
_renewals: list[Callable[[], object]] = []
_resting = ExitStack()


def watch(forkable: Forkable) -> None:
    """Renew an object in every forked child from now on; during the fork a `Quietable` is `quiet`."""
    _watched.add(forkable)


def in_child(renew: F) -> F:
    """Call `renew`, which replaces module globals, in every forked child. Usable as a decorator."""
    _renewals.append(renew)
    return renew


def _before() -> None:
    for forkable in list(_watched):
        if isinstance(forkable, Quietable):
            _resting.enter_context(forkable.quiet())


def _after_in_parent() -> None:
    _resting.close()


def _after_in_child() -> None:
    _resting.pop_all()  # only the parent leaves its quiet contexts; the child replaces their locks
    for renew in _renewals:
        renew()
    for forkable in list(_watched):
        forkable.renew_after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
