"""Audit log of integrations: it records the name of the integration, and calls that are not valid commands."""

from __future__ import annotations

from typing import NoReturn, TypeVar, cast

from retentive.errors import InvalidInput, Refused
from retentive.mounts import Mounts, core_of_tree
from retentive.storage.contract import Actor
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES, Reply

M = TypeVar("M")


def named(memory: M, integration: str) -> M:
    """Return a view of the memory. For calls through this view, the audit log records the name `integration`.

    An object that is neither a memory store nor mounts is returned unchanged.
    """
    return cast("M", memory.through(integration)) if isinstance(memory, MemoryStore | Mounts) else memory


def refused(memory: object, error: Refused, *, actor: Actor | str | None) -> Reply:
    """Return the error reply to a call that is not a valid command.

    The call is recorded in the audit log if `memory` is a memory store or mounts.
    """
    if isinstance(memory, MemoryStore | Mounts):
        return core_of_tree(memory).refused(None, error, actor=actor)
    return getattr(memory, "replies", REPLIES).error(error.key, error.values)


def reject(memory: object, problem: str, *, actor: Actor | str | None) -> NoReturn:
    """Raise `InvalidInput` with the text `problem` for a call that has no id, and record the call in the audit log."""
    if isinstance(memory, MemoryStore | Mounts):
        core_of_tree(memory).reject(InvalidInput(problem), actor)
    raise InvalidInput(problem)
