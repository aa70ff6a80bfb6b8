"""The argument `memory` of integrations, and their part of the audit log: their names, and calls that are no commands.

`memory` can be a location, an opened location, a memory store, mounts, or another object with a method `execute`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar, cast

from retentive import opening
from retentive.errors import InvalidInput, Refused
from retentive.mounts import Mounts, core_of_tree
from retentive.opening import Retentive
from retentive.storage.contract import Actor
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES, Replies, Reply

if TYPE_CHECKING:  # anyio is imported late
    from retentive.aio import AsyncMemoryStore, AsyncMounts, AsyncRetentive

M = TypeVar("M")
MemoryLocation: TypeAlias = "str | os.PathLike[str] | Retentive | AsyncRetentive | AsyncMemoryStore | AsyncMounts"
"""A location as for `retentive.open`, an opened location, an async memory store, or async mounts."""
ActorLike: TypeAlias = Actor | str | None
_NO_SETTINGS: Mapping[str, Any] = {}


class SupportsExecute(Protocol):
    """Object that runs commands: a `MemoryStore`, `Mounts`, or your own implementation.

    `execute` must also accept `source` and `session` if the application passes them to the integration.
    """

    def execute(self, command: object, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """Run a command, given as the raw input of a tool call. `tool_use_id` is the id of the call, if it has one.

        After a crash, a call may be repeated with the same id; the repeated call must change nothing. If the method has
        a parameter `run`, the name of the run in which the id is unique is passed to it, if there is one.
        """


def open_memory(
    memory: MemoryLocation | SupportsExecute,
    store: str | None = None,
    *,
    replies: Replies | None = None,
    keys: opening.Keys | None = None,
    api_key: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] = _NO_SETTINGS,
    method: str = "execute",
) -> tuple[Any, Callable[[], None]]:
    """Open `memory` if it is a location.

    Returns two values. The first is an object that has the method named `method`. The second is a function that closes
    the location if this call opened it. Raises storage errors, and `InvalidInput` for an option that would have no
    effect.
    """
    memory = unwrapped(memory)
    if store is not None and not isinstance(store, str):
        raise InvalidInput(f"`store` must be the key or id of a memory store, not {type(store).__name__}")
    given = dict(settings) | {
        name: value
        for name, value in (("replies", replies), ("keys", keys), ("api_key", api_key), ("ca_file", ca_file))
        if value is not None
    }
    if isinstance(memory, str | os.PathLike):
        opened = opening.open(memory, **given)
        try:
            return opened.store(store), opened.close
        except BaseException:
            opened.close()
            raise
    if isinstance(memory, Retentive):
        key = store or opening.DEFAULT_KEY
        _refuse(given, "an opened location", f"`retentive.open(...).store({key!r}).read_only()`")
        return memory.store(store), _close_nothing
    if not callable(getattr(memory, method, None)):
        raise InvalidInput(
            "`memory` must be a location (a directory, sqlite:///...), an opened location, a MemoryStore, Mounts, "
            f"or an object with an `{method}` method"
        )
    if method == "execute":
        check_takes_ids(cast("SupportsExecute", memory))
    kind = "mounts" if isinstance(memory, Mounts) else "a memory store"
    if store is not None:
        raise InvalidInput(
            f"`store` has no effect on {kind}, because `store` selects a memory store in a location; pass a location "
            f"instead, for example MemoryTool('./memory', store={store!r})"
        )
    of_mounts = "a `Mounts` of read-only stores, which `MemoryStore.read_only()` returns"
    _refuse(given, kind, "the result of its method `read_only()`" if kind == "a memory store" else of_mounts)
    return memory, _close_nothing


def id_options(memory: SupportsExecute, tool_use_id: str | None, run: str | None = None) -> dict[str, str]:
    """Return the arguments `tool_use_id` and `run` for a call of `execute`, as a dict.

    Arguments that are None are left out, and `run` too if `memory.execute` does not accept it. Raises `InvalidInput` if
    it does not accept `tool_use_id`.
    """
    if tool_use_id is None:
        return {}
    check_takes_ids(memory)
    return {"tool_use_id": tool_use_id} | ({"run": run} if run is not None and _takes(memory, "run") else {})


def check_takes_ids(memory: SupportsExecute) -> None:
    """Raise `InvalidInput` if `memory.execute` cannot be given the id of a call: a repeated call would run twice."""
    if not _takes(memory, "tool_use_id"):
        raise InvalidInput(
            f"the method `execute` of {type(memory).__name__} must have a parameter `tool_use_id`: after a crash, a "
            "call is repeated with the same id, and must then change nothing more"
        )


def _takes(memory: SupportsExecute, name: str) -> bool:
    parameters = inspect.signature(memory.execute).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def unwrapped(memory: Any) -> Any:
    """Return the sync object of an async memory store, mounts or location. Other objects are returned unchanged."""
    sync = getattr(memory, "sync", None)
    return sync if isinstance(sync, MemoryStore | Mounts | Retentive) else memory


def _refuse(given: Mapping[str, object], kind: str, read_only: str) -> None:
    """Raise `InvalidInput` if any option is given, because options have no effect on a memory that is already open."""
    for name in given:
        instead = f"pass {read_only}" if name == "read_only" else f"pass it to `retentive.open`: {name}=..."
        raise InvalidInput(f"`{name}` has no effect on {kind}; {instead}")


def _close_nothing() -> None:
    pass


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
