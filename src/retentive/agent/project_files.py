"""Memories of a project, read and written in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, Unpack

from retentive.engine.command_handlers import HANDLERS
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import AuditOnly, WriteOperation
from retentive.errors import Refused, RetentiveError
from retentive.frozen import dataclass
from retentive.integrations.memory import Author
from retentive.mounts.tree import Mounts, place_of
from retentive.storage.contract import Transaction
from retentive.store import MemoryStore
from retentive.values.commands import Write
from retentive.values.paths import MemoryPath
from retentive.values.text import decoded

T = TypeVar("T")


class ProjectFiles:
    """Reads and writes the memories of a project by name, in one transaction.

    `max_bytes` is the size limit for each memory; 0 means no limit.
    """

    def __init__(self, tx: Transaction, writer: GuardedWriter, directory: MemoryPath) -> None:
        self._tx = tx
        self._writer = writer
        self._directory = directory
        self.max_bytes = writer.settings.max_memory_bytes

    def exists(self, name: str) -> bool:
        """Return True if there is a memory or a directory with this name."""
        return self._tx.get(self._path(name).text).exists

    def read(self, name: str) -> str | None:
        """Return the text of a memory, or None if it does not exist."""
        entry = self._tx.get(self._path(name).text)
        return None if entry.memory is None else decoded(entry.data)

    def put(self, name: str, text: str) -> None:
        """Write the memory `name`. Raises `Refused` with the path of the memory. A refused write changes nothing."""
        path = self._path(name)
        try:
            HANDLERS[Write](self._tx, self._writer, Write(path, text))
        except Refused as refusal:
            raise Refused(refusal.key, **({"path": path.written} | refusal.values)) from None

    def _path(self, name: str) -> MemoryPath:
        directory = self._directory
        return MemoryPath.parse(f"{directory.outward(directory.text)}/{name}").within(directory.mount)


@dataclass(frozen=True, slots=True)
class ChangeProject(WriteOperation[T], Generic[T]):
    """Operation that calls `work` with the memories of a project, in one transaction.

    `work` may be called more than once, because a transaction can be repeated.
    """

    name = "project"
    path: MemoryPath
    work: Callable[[ProjectFiles], T]

    def apply(self, tx: Transaction, writer: GuardedWriter) -> T:
        """Call `work` with access to the memories of the project, and return its result."""
        return self.work(ProjectFiles(tx, writer, self.path))


def change_project(
    memory: MemoryStore | Mounts, directory: str, work: Callable[[ProjectFiles], T], **author: Unpack[Author]
) -> T:
    """Run `work` in one transaction: all its changes are made, or none. Raises `Refused` and `RetentiveError`."""
    core, path = place_of(memory, directory, operation=ChangeProject.name)
    return core.result_of(ChangeProject(path, work), **author)


def error_of_refusal(memory: MemoryStore | Mounts, directory: str, refusal: Refused) -> RetentiveError:
    """Convert a refusal to an error. The message of the error is the text that a model would get as the reply."""
    core, path = place_of(memory, directory, operation=ChangeProject.name)
    return core.error(refusal, AuditOnly(ChangeProject.name, written=(path,)))
