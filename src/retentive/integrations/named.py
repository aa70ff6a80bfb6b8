"""The name of an integration in the audit log, and the entries of calls that are no command."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NoReturn, TypeVar, cast

from retentive.errors import InvalidInput, Refused
from retentive.mounts import Mounts, core_of_tree
from retentive.storage.contract import Actor
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES, Reply

M = TypeVar("M")


def named(memory: M, integration: str) -> M:
    """Return the memory with `integration` set as the name for its audit log.

    An object of another class is returned unchanged.
    """
    return cast("M", memory.through(integration)) if isinstance(memory, MemoryStore | Mounts) else memory


def refused(memory: object, error: Refused, *, actor: Actor | str | None) -> Reply:
    """Reply to a call that is not a valid command, with its audit entry. A memory of another class has no entry."""
    if isinstance(memory, MemoryStore | Mounts):
        return core_of_tree(memory).refused(None, error, actor=actor)
    return getattr(memory, "replies", REPLIES).error(error.key, error.values)


def reject(memory: object, problem: str, *, actor: Actor | str | None) -> NoReturn:
    """Raise `InvalidInput` for a call without an id, and add its audit entry as `refused` does."""
    with core_of_tree(memory).checking(None, actor) if isinstance(memory, MemoryStore | Mounts) else nullcontext():
        raise InvalidInput(problem)
