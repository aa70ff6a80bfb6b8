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
from typing import Any
from weakref import WeakSet

_watched: WeakSet[Any] = WeakSet()
_resting = ExitStack()


def watch(forkable: Any) -> None:
    """Register an object with state that a forked child must replace, such as thread locks.

    Its method `renew_after_fork()` is called in every forked child, to replace what belongs to threads of the parent.
    If it has a method `quiet()`, the fork happens inside the context that this method returns. The context stops all
    work, and closes everything that a forked child must not inherit.
    """
    _watched.add(forkable)


def _before() -> None:
    for forkable in list(_watched):
        quiet: Callable[[], AbstractContextManager[None]] | None = getattr(forkable, "quiet", None)
        if quiet is not None:
            _resting.enter_context(quiet())


def _after_in_child() -> None:
    _resting.pop_all()  # only the parent leaves its quiet contexts; the child replaces the locks in them
    for forkable in list(_watched):
        forkable.renew_after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_parent=_resting.close, after_in_child=_after_in_child)
