"""Keeps database connections out of forked children.

SQLite's locks belong to a process, and its bookkeeping of them is copied by a fork: a child that closes or uses an
inherited connection can make the parent's log vanish. So before a fork every backend comes to rest with nothing open,
and parent and child open anew.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """A backend that can come to rest."""

    def quiet(self) -> AbstractContextManager[None]:
        """Hold still, with nothing open."""

    def forget_threads(self) -> None:
        """Drop what belongs to threads that are not in the child."""


_watched: WeakSet[Forkable] = WeakSet()
_resting = ExitStack()


def watch(backend: Forkable) -> None:
    """Bring `backend` to rest over every fork of this process from now on."""
    _watched.add(backend)


def _before() -> None:
    for backend in list(_watched):
        _resting.enter_context(backend.quiet())


def _after_in_parent() -> None:
    _resting.close()


def _after_in_child() -> None:
    _resting.pop_all()  # the parent leaves its rest; here the locks it was made of are made anew
    for backend in list(_watched):
        backend.forget_threads()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
