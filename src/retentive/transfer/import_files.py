"""Import of files as memories, through the guarded writer of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, Unpack, cast

from retentive.engine.command_handlers import check_free
from retentive.engine.operation import RolledBack, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.storage.contract import Actor, Transaction
from retentive.store import MemoryStore, core_of
from retentive.transfer.archive_writer import TransferProgress
from retentive.transfer.files import mapped_os_errors
from retentive.transfer.sources import Item, Source
from retentive.values.paths import MemoryPath, visible
from retentive.values.provenance import Origin, origin_of
from retentive.values.replies import Replies
from retentive.values.text import is_text

IMPORT = Actor("job", "import")
"""Actor of imported changes."""
Became: TypeAlias = Literal["created", "replaced", "same", "exists", "left", "refused"]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result for one file. `why` is an explanation, which every refused file has.

    The outcome `exists` means that the memory exists with another text and was not changed. The outcome `left` means a
    directory that is never imported, such as `.git`.
    """

    name: str
    path: str | None
    became: Became
    why: str | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A file that was read and can become a memory."""

    name: str
    path: MemoryPath
    text: str


@dataclass(frozen=True, slots=True)
class ImportFiles(WriteOperation[list[FileOutcome]]):
    """Write files as memories in one transaction, with all guards.

    The refusal of one file does not affect the others.
    """

    name = "import"
    files: tuple[_Ready, ...]
    under: str
    overwrite: bool
    dry_run: bool
    replies: Replies
    refused: tuple[FileOutcome, ...] = ()  # files that storage refused in earlier attempts

    def paths(self) -> tuple[str, ...]:
        """The directory into which the files are imported."""
        return (self.under,)

    def apply(self, tx: Transaction, writer: GuardedWriter) -> list[FileOutcome]:
        """Write the files. Raises `RolledBack` with the outcomes of a dry run."""
        outcomes = [*self.refused, *(self._one(one, tx, writer) for one in self.files)]
        if self.dry_run:
            raise RolledBack(outcomes)
        return outcomes

    def without(self, error: RetentiveError) -> ImportFiles | None:
        """The same import, without the file that the storage refused."""
        if not isinstance(error, Refused) or not self.files:
            return None
        at = str(error.values.get("path", ""))
        bad = tuple(one for one in self.files if one.path.text == at) or self.files[:1]
        files = tuple(one for one in self.files if one not in bad)
        refused = (*self.refused, *(_refused(one, error, self.replies) for one in bad))
        return replace(self, files=files, refused=refused)

    def _one(self, one: _Ready, tx: Transaction, writer: GuardedWriter) -> FileOutcome:
        path = one.path
        try:
            writer.check_name(path)
            writer.check(path)
            entry = tx.get(path.text)
            if entry.memory is not None and entry.data == one.text.encode():
                return FileOutcome(one.name, path.text, "same")
            if entry.memory is not None and not self.overwrite:
                return FileOutcome(one.name, path.text, "exists")
            check_free(entry)
            written = writer.put(entry, path, one.text)
        except Refused as refusal:
            if refusal.key == "too_large_to_keep":  # storage refused, and may have rolled back the transaction
                raise
            return _refused(one, refusal, self.replies)
        notes = [self.replies.phrase(note.key, note.values) for note in written.notes if written.altered]
        became: Became = "created" if entry.memory is None else "replaced"
        if entry.data is not None and written.text.encode() == entry.data:
            became = "same"
        return FileOutcome(one.name, path.text, became, " ".join(notes) or None)


class Import:
    """Import of files into the directory `under` of a store.

    All files are written in one transaction. `dry_run` runs the same transaction and rolls it back. `source` and
    `session` are recorded in the provenance of each change.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        under: str,
        overwrite: bool = False,
        dry_run: bool = False,
        **origin: Unpack[Origin],
    ) -> None:
        self._origin = origin_of(**origin)
        with core_of(store).checking(ImportFiles.name, IMPORT):
            self._under = _directory(store.replies, under)
        self._store = store
        self._overwrite = overwrite
        self._dry_run = dry_run

    def run(self, source: Source, progress: TransferProgress | None = None) -> Iterator[FileOutcome]:
        """Import all files and yield the outcome of each. One transaction at the end writes all files.

        If an error of storage is raised, nothing is imported.
        """
        ready: dict[str, _Ready] = {}
        with mapped_os_errors():
            total = source.count() if progress is not None else 0
            for done, item in enumerate(source.items(), start=1):
                one = self._ready(item)
                if isinstance(one, _Ready) and one.path.text in ready:
                    why = "another file of this import has the same path"
                    one = FileOutcome(one.name, one.path.text, "refused", why)
                if isinstance(one, FileOutcome):
                    yield one
                else:
                    ready[one.path.text] = one
                if progress is not None:
                    progress(done, total)
            yield from self._write(list(ready.values()))

    def _ready(self, item: Item) -> _Ready | FileOutcome:
        name = visible(item.name)
        if item.expected:
            return FileOutcome(name, None, "left", str(item.read()))
        try:
            path = MemoryPath.parse(f"{self._under}/{item.name}")
        except Refused as refusal:
            return FileOutcome(name, None, "refused", _sentence(self._store.replies, refusal, item.name))
        data = item.read()
        if isinstance(data, str):
            return FileOutcome(name, None, "refused", data)
        if not is_text(data):
            return FileOutcome(name, None, "refused", "not a text (UTF-8 without NUL)")
        return _Ready(name, path, data.decode())

    def _write(self, ready: Sequence[_Ready]) -> list[FileOutcome]:
        """Write all files, except those that the storage refuses."""
        operation = ImportFiles(tuple(ready), self._under, self._overwrite, self._dry_run, self._store.replies)
        try:
            return core_of(self._store).result_of(operation, IMPORT, **self._origin)
        except RolledBack as dry:
            return cast("list[FileOutcome]", dry.result)


def _refused(one: _Ready, refusal: Refused, replies: Replies) -> FileOutcome:
    return FileOutcome(one.name, None, "refused", _sentence(replies, refusal, one.path.text))


def _directory(replies: Replies, under: str) -> str:
    """Canonical path of the directory to import to. Raises `InvalidInput`."""
    try:
        return MemoryPath.parse(under).text
    except Refused as refusal:
        raise InvalidInput(_sentence(replies, refusal, under)) from None


def _sentence(replies: Replies, refusal: Refused, path: str) -> str:
    """Sentence that explains a refusal, with the path of the memory."""
    values = {"path": visible(path), **refusal.values}
    return replies.error(refusal.key, values).text.removeprefix("Error: ")
