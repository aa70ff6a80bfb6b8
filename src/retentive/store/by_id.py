"""Operations that read, update and delete a memory by its id. The id of a memory survives renames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import entry_at, require_free
from retentive.engine.operation import CommandResult, Outcome, Plan, Read, Write
from retentive.engine.queries import read_fact
from retentive.errors import InvalidInput, NotFound, Refused
from retentive.history.past import Past, past_of
from retentive.storage.contract import Actor, Entry, Memory, Moved, Recorded, Snapshot
from retentive.storage.lookup import locate
from retentive.values.commands import check_file_path, check_text
from retentive.values.paths import MemoryPath
from retentive.values.provenance import Origin
from retentive.values.records import Written
from retentive.values.text import decoded


@dataclass(frozen=True, slots=True)
class ChangeMemory(Write[CommandResult]):
    """Delete the memory that has the given id, or replace its text, its path, or both in one version.

    None keeps the current text or path. If the memory already has the new text and path, nothing changes, and
    `if_sha256` is not compared with the hash of its text. Otherwise the hash is checked first, then the new path.
    """

    for_paths = True
    memory_id: str
    text: str | None = None
    path: MemoryPath | None = None
    if_sha256: str | None = None
    deletes: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]  # depends on the change, as the next two
        return "delete" if self.deletes else "update"

    @property
    def only_removes(self) -> bool:  # type: ignore[override]
        return self.deletes

    allowed_when_archived = only_removes

    def facts(self, result: Any) -> Mapping[str, object]:
        return {"memory": self.memory_id}

    def decide(self, view: Snapshot, guard: Guard) -> Plan[CommandResult]:
        entry, memory = _present(view, self.memory_id, guard)
        old = MemoryPath.known(memory.path)
        new = self.path or old
        with _naming(new):
            if self.path is not None:
                check_file_path(self.path)
            if self.text is not None:
                check_text("text", self.text)
            guard.check(old)
            text = None if self.text is None or self.text.encode() == entry.data else self.text
            if text is None and new == old and not self.deletes:
                return Plan(CommandResult(version_id=memory.version_id, memory=memory))
            if self.if_sha256 not in {None, memory.sha256}:
                raise Refused("changed_meanwhile")
            if self.deletes:
                return Plan(CommandResult(memory=memory), guard.delete(view, [memory]))
            if new != old:
                guard.check_name(new)
                guard.check(new)
                require_free(view, new, entry_at(view, new), "destination_exists", new_path=new.written)
            if text is None:
                plan = Plan(CommandResult(), guard.move(view, [Moved(memory, new.text)]))
            else:
                plan = guard.put(view, entry, new, text)

        def result(after: Snapshot, _: Sequence[Recorded]) -> Plan[CommandResult]:
            present = after.find(self.memory_id) or memory
            return Plan(replace(plan.result, version_id=present.version_id, memory=present))

        return replace(plan, afterwards=result)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        return {"version": outcome.value().version_id or outcome.version_id}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> CommandResult:
        version_id = facts["version"]  # the memory is as it was right after an update, or before a deletion
        past = Past(view, version_id) if self.deletes else past_of(view, version_id)
        return CommandResult(version_id=version_id, memory=past.find(self.memory_id))


def read_memory(memory_id: str) -> Read[tuple[Memory, str]]:
    """Read a memory and its text by the id of the memory. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Memory, str]:
        entry, memory = _present(snapshot, memory_id)
        return memory, decoded(entry.data, path=memory.path)

    return Read("load", work, facts_of=lambda found: read_fact(found[0]))


class ById:
    """Access to the memories of one store by id. Threads may share this object."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<ById of {self._core.id}>"

    def get(self, memory_id: str) -> tuple[Memory, str]:
        """Return a memory and its text by the id of the memory. Raises `NotFound`."""
        return self._core.found(read_memory(memory_id))

    def update(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        path: str | None = None,
        if_sha256: str | None = None,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> Written:
        """Replace the text of a memory, its path, or both, in one version. `Written.memory` is the changed memory.

        If the memory already has the new text and path, nothing changes, and `if_sha256` is not checked.

        Raises `NotFound` for an unknown id, and `Conflict` if `if_sha256` is not the sha256 of the text. The new path
        is checked afterwards. If it is not free, raises `AlreadyExists` or `NotADirectory`. The attribute
        `conflicting` of these two errors is the memory that occupies the path.
        """
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        target = None if path is None else self._core.parsed(path)
        operation = ChangeMemory(memory_id, text, target, if_sha256)
        return self._core.written(operation, self._core.invocation(actor, **origin))

    def delete(
        self,
        memory_id: str,
        *,
        if_sha256: str | None = None,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> Written:
        """Delete the memory that has the given id. `Written.memory` is its last state.

        Raises `NotFound` for an unknown id, and `Conflict` if `if_sha256` is not the sha256 of the text.
        """
        operation = ChangeMemory(memory_id, if_sha256=if_sha256, deletes=True)
        return self._core.written(operation, self._core.invocation(actor, **origin))


def _present(snapshot: Snapshot, memory_id: str, guard: Guard | None = None) -> tuple[Entry, Memory]:
    """Return a memory. Raises `NotFound` if it does not exist, or is hidden from the actor of `guard`."""
    memory = snapshot.find(memory_id)
    entry = Entry() if memory is None else locate(snapshot, memory.path)  # this also detects external edits
    is_hidden = memory is not None and guard is not None and guard.hidden and guard.hidden.blocks(memory.path)
    if entry.memory is None or entry.memory.id != memory_id or is_hidden:
        raise NotFound(f"there is no memory {memory_id}")
    return entry, entry.memory


@contextmanager
def _naming(path: MemoryPath) -> Iterator[None]:
    """Add a path to a refusal, for the error message. The operation itself named only an id."""
    try:
        yield
    except Refused as refusal:
        refusal.values = {"path": path.written} | refusal.values
        raise
