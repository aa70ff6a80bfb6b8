"""Audit log of integrations: the name of the integration, and entries for calls that are not commands."""

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
    """Return the memory with `integration` as the name in its audit log.

    An object that is neither a memory store nor mounts is returned unchanged.
    """
    return cast("M", memory.through(integration)) if isinstance(memory, MemoryStore | Mounts) else memory


def refused(memory: object, error: Refused, *, actor: Actor | str | None) -> Reply:
    """Reply to a call that is not a valid command, and audit it if `memory` is a memory store or mounts."""
    if isinstance(memory, MemoryStore | Mounts):
        return core_of_tree(memory).refused(None, error, actor=actor)
    return getattr(memory, "replies", REPLIES).error(error.key, error.values)


def reject(memory: object, problem: str, *, actor: Actor | str | None) -> NoReturn:
    """Raise `InvalidInput` for a call without an id, and audit it as `refused` does."""
    with core_of_tree(memory).checking(None, actor) if isinstance(memory, MemoryStore | Mounts) else nullcontext():
        raise InvalidInput(problem)
