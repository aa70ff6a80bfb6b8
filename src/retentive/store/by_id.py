"""Operations that read, update and delete a memory by its id. The id of a memory survives renames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Unpack

from retentive.engine.core import StorePart
from retentive.engine.guard import Guard
from retentive.engine.handlers import entry_at, require_free
from retentive.engine.lists import read_fact
from retentive.engine.operation import CommandResult, Plan, Read, Write
from retentive.errors import InvalidInput, NotFound, Refused
from retentive.history.revisions import Past, past_of
from retentive.storage.contract import Entry, Memory, Moved, Recorded, Snapshot
from retentive.storage.lookup import locate
from retentive.values.commands import check_file_path, check_text
from retentive.values.paths import MemoryPath
from retentive.values.records import By, Written
from retentive.values.text import decoded


def update_memory(
    memory_id: str, text: str | None, path: MemoryPath | None, if_sha256: str | None
) -> Write[CommandResult]:
    """Replace the text of the memory that has the given id, its path, or both in one version. None keeps it.

    If the memory already has the new text and path, nothing changes, and `if_sha256` is not compared with the hash of
    its text. Otherwise the hash is checked first, then the new path.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[CommandResult]:
        entry, memory = _present(view, memory_id, guard)
        old = MemoryPath.known(memory.path)
        new = path or old
        with _naming(new):
            if path is not None:
                check_file_path(path)
            if text is not None:
                check_text("text", text)
            guard.check(old)
            new_text = None if text is None or text.encode() == entry.data else text
            if new_text is None and new == old:
                return Plan(CommandResult(version_id=memory.version_id, memory=memory))
            _check_hash(memory, if_sha256)
            if new != old:
                guard.check_name(new)
                guard.check(new)
                require_free(view, new, entry_at(view, new), "destination_exists", new_path=new.written)
            if new_text is None:
                plan = Plan(CommandResult(), guard.move(view, [Moved(memory, new.text)]))
            else:
                plan = guard.put(view, entry, new, new_text)

        def result(after: Snapshot, _: Sequence[Recorded]) -> Plan[CommandResult]:
            present = after.find(memory_id) or memory
            return Plan(replace(plan.result, version_id=present.version_id, memory=present))

        return replace(plan, afterwards=result)

    return _by_id(memory_id, Write("update", work, path), past_of)


def delete_memory(memory_id: str, if_sha256: str | None) -> Write[CommandResult]:
    """Delete the memory that has the given id."""

    def work(view: Snapshot, guard: Guard) -> Plan[CommandResult]:
        _, memory = _present(view, memory_id, guard)
        with _naming(MemoryPath.known(memory.path)):
            guard.check(MemoryPath.known(memory.path))
            _check_hash(memory, if_sha256)
            return Plan(CommandResult(memory=memory), guard.delete(view, [memory]))

    return _by_id(memory_id, Write("delete", work, only_removes=True), Past)


def _by_id(
    memory_id: str, operation: Write[CommandResult], then: Callable[[Snapshot, str], Snapshot]
) -> Write[CommandResult]:
    """Complete an operation on one memory. `then` returns the state in which its result has the memory."""
    return replace(
        operation,
        facts=lambda _: {"memory": memory_id},
        facts_kept=lambda outcome, _: {"version": outcome.value().version_id or outcome.version_id},
        rebuilt=lambda facts, view: CommandResult(
            version_id=facts["version"], memory=then(view, facts["version"]).find(memory_id)
        ),
        under_review="propose",
        allowed_when_archived=operation.only_removes,
        for_paths=True,
    )


def read_memory(memory_id: str) -> Read[tuple[Memory, str]]:
    """Read a memory and its text by the id of the memory. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Memory, str]:
        entry, memory = _present(snapshot, memory_id)
        return memory, decoded(entry.data, path=memory.path)

    return Read("load", work, facts=lambda found: read_fact(found[0]))


class ById(StorePart):
    """Access to the memories of one store by id. Threads may share this object."""

    def get(self, memory_id: str) -> tuple[Memory, str]:
        """Return a memory and its text by the id of the memory. Raises `NotFound`."""
        return self._context.result_of(read_memory(memory_id))

    def update(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        path: str | None = None,
        if_sha256: str | None = None,
        **by: Unpack[By],
    ) -> Written:
        """Replace the text of a memory, its path, or both, in one version. `Written.memory` is the changed memory.

        If the memory already has the new text and path, nothing changes, and `if_sha256` is not checked.

        Raises `NotFound` for an unknown id, and `Conflict` if `if_sha256` is not the sha256 of the text. The new path
        is checked afterwards. If it is not free, raises `AlreadyExists` or `NotADirectory`. The attribute
        `conflicting` of these two errors is the memory that occupies the path.
        """
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        target = None if path is None else self._context.parsed(path)
        return self._context.written(update_memory(memory_id, text, target, if_sha256), self._context.invocation(**by))

    def delete(self, memory_id: str, *, if_sha256: str | None = None, **by: Unpack[By]) -> Written:
        """Delete the memory that has the given id. `Written.memory` is its last state.

        Raises `NotFound` for an unknown id, and `Conflict` if `if_sha256` is not the sha256 of the text.
        """
        return self._context.written(delete_memory(memory_id, if_sha256), self._context.invocation(**by))


def _present(snapshot: Snapshot, memory_id: str, guard: Guard | None = None) -> tuple[Entry, Memory]:
    """Return a memory. Raises `NotFound` if it does not exist, or is hidden from the actor of `guard`."""
    memory = snapshot.find(memory_id)
    entry = Entry() if memory is None else locate(snapshot, memory.path)  # this also detects external edits
    is_hidden = memory is not None and guard is not None and guard.hidden and guard.hidden.blocks(memory.path)
    if entry.memory is None or entry.memory.id != memory_id or is_hidden:
        raise NotFound(f"there is no memory {memory_id}")
    return entry, entry.memory


def _check_hash(memory: Memory, if_sha256: str | None) -> None:
    if if_sha256 not in {None, memory.sha256}:
        raise Refused("changed_meanwhile")


@contextmanager
def _naming(path: MemoryPath) -> Iterator[None]:
    """Add a path to a refusal, for the error message. The operation itself named only an id."""
    try:
        yield
    except Refused as refusal:
        refusal.values = {"path": path.written} | refusal.values
        raise
