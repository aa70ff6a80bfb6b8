"""Operations that read, update and delete a memory by its id. The id of a memory survives renames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from retentive.engine.command_handlers import CommandResult, taken
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import Read, WriteOperation
from retentive.engine.queries import read_fact
from retentive.errors import InvalidInput, NotFound, Phrase, Refused
from retentive.history.past import Past, past_of
from retentive.pipeline import StoreCore
from retentive.storage.contract import Actor, Change, Entry, Memory, Snapshot, Transaction
from retentive.storage.lookup import locate
from retentive.values.commands import check_file_path, check_text
from retentive.values.paths import MemoryPath
from retentive.values.provenance import Origin
from retentive.values.records import Written
from retentive.values.text import decoded

_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class UpdateMemory(WriteOperation[CommandResult]):
    """Replace the text of a memory, its path, or both in one version. None keeps the current text or path.

    If the memory already has the new text and path, nothing changes, and `if_sha256` is not compared with the hash.
    """

    name = "update"
    for_paths = True
    memory_id: str
    text: str | None = None
    path: MemoryPath | None = None
    if_sha256: str | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the id of the memory for the audit entry."""
        return {"memory": self.memory_id}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> CommandResult:
        """Record the change. Raises `NotFound` and `Refused`. The hash is checked first, then the new path."""
        entry = _present(tx, self.memory_id, writer)
        assert entry.memory is not None
        old = MemoryPath.known(entry.memory.path)
        try:
            return self._update(tx, writer, entry, entry.memory, old)
        except Refused as refusal:
            raise _about(refusal, self.path or old) from None

    def _update(
        self, tx: Transaction, writer: GuardedWriter, entry: Entry, memory: Memory, old: MemoryPath
    ) -> CommandResult:
        writer.check(old)
        new = self.path or old
        text = None if self.text is None or self.text.encode() == entry.data else self.text
        if text is None and new == old:
            return CommandResult(version_id=memory.version_id, memory=memory)
        _check_hash(memory, self.if_sha256)
        if new != old:
            writer.check_name(new)
            writer.check(new)
            _check_free(tx, new)
        notes: tuple[Phrase, ...] = ()
        if text is None:
            writer.move([Change(memory, new.text)])
        else:
            notes = writer.put(entry, new, text).notes
        after = tx.find(self.memory_id) or memory
        return CommandResult(notes, version_id=after.version_id, memory=after)

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the id of the version after the update. A repeated request needs it."""
        return {"version": result.version_id}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> CommandResult:
        """Return the result of the first run: the memory as it was right after the update."""
        memory = past_of(tx, kept["version"]).find(self.memory_id)
        return CommandResult(version_id=kept["version"], memory=memory)


@dataclass(frozen=True, slots=True)
class DeleteMemory(WriteOperation[CommandResult]):
    """Delete the memory that has the given id. If `if_sha256` is set, it must be the hash of the text."""

    name = "delete"
    for_paths = True
    may_use_reserve = True
    allowed_when_archived = True
    memory_id: str
    if_sha256: str | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the id of the memory for the audit entry."""
        return {"memory": self.memory_id}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> CommandResult:
        """Delete the memory. The result contains the last state of the memory. Raises `NotFound` and `Refused`."""
        memory = _present(tx, self.memory_id, writer).memory
        assert memory is not None
        path = MemoryPath.known(memory.path)
        try:
            writer.check(path)
            _check_hash(memory, self.if_sha256)
        except Refused as refusal:
            raise _about(refusal, path) from None
        writer.delete([memory])
        return CommandResult(version_id=writer.version_id, memory=memory)

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the id of the version that records the deletion. A repeated request needs it."""
        return {"version": result.version_id}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> CommandResult:
        """Return the result of the first run: the last state of the memory."""
        return CommandResult(version_id=kept["version"], memory=Past(tx, kept["version"]).find(self.memory_id))


def read_memory(memory_id: str) -> Read[tuple[Memory, str]]:
    """Read a memory and its text by the id of the memory. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Memory, str]:
        entry = _present(snapshot, memory_id)
        assert entry.memory is not None
        return entry.memory, decoded(entry.data, path=entry.memory.path)

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
        with self._core.checking("update", actor):
            if text is None and path is None:
                raise InvalidInput("specify a text, a path or both")
            target = None if path is None else self._core.parsed(path)
            _check_sha256(if_sha256)
            try:
                if target is not None:
                    check_file_path(target)
                if text is not None:
                    check_text("text", text)
            except Refused as refusal:
                raise self._core.raised(_about(refusal, target or MemoryPath.known("/memories"))) from None
        operation = UpdateMemory(memory_id, text, target, if_sha256)
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
        with self._core.checking("delete", actor):
            _check_sha256(if_sha256)
        return self._core.written(DeleteMemory(memory_id, if_sha256), self._core.invocation(actor, **origin))


def _present(snapshot: Snapshot, memory_id: str, writer: GuardedWriter | None = None) -> Entry:
    """Return the entry of a memory. Raises `NotFound` if it does not exist, or is hidden from the actor of `writer`."""
    memory = snapshot.find(memory_id)
    entry = Entry() if memory is None else locate(snapshot, memory.path)  # this also detects external edits
    is_hidden = memory is not None and writer is not None and writer.hidden and writer.hidden.blocks(memory.path)
    if entry.memory is None or entry.memory.id != memory_id or is_hidden:
        raise NotFound(f"there is no memory {memory_id}")
    return entry


def _check_free(tx: Transaction, path: MemoryPath) -> None:
    if path.is_root:
        raise Refused("destination_exists", new_path=path.written)
    entry = tx.get(path.text)
    if entry.exists:
        raise taken("destination_exists", tx, path, entry, new_path=path.written)
    if entry.above is not None:
        raise taken("not_a_directory", tx, path, entry, ancestor=path.outward(entry.above))


def _check_hash(memory: Memory, if_sha256: str | None) -> None:
    if if_sha256 is not None and memory.sha256 != if_sha256:
        raise Refused("changed_meanwhile")


def _check_sha256(given: object) -> None:
    if given is not None and not (isinstance(given, str) and _SHA256.fullmatch(given)):
        raise InvalidInput("`if_sha256` must be 64 lowercase hexadecimal digits")


def _about(refusal: Refused, path: MemoryPath) -> Refused:
    """Add a path to a refusal, for the error message. The operation itself named only an id."""
    named = Refused(refusal.key, **({"path": path.written} | refusal.values))
    named.conflicting = refusal.conflicting
    return named
