"""Imports files as memories. Every rule about writing applies to an import too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Literal, TypeAlias, Unpack, get_args

from retentive.engine.guard import Guard
from retentive.engine.handlers import check_free
from retentive.engine.operation import DryRun, Outcome, Plan, Write
from retentive.engine.pending import Pending
from retentive.errors import InvalidInput, Refused
from retentive.remote import remote_store
from retentive.storage.contract import Actor, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.transfer.archive_writer import TransferProgress, spool
from retentive.transfer.files import mapped_os_errors
from retentive.transfer.sources import Item, Source, left_out
from retentive.values.paths import ROOT, MemoryPath, is_editor_file, visible_path
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Recorded
from retentive.values.replies import Replies
from retentive.values.text import is_text

IMPORT = Actor("job", "import")
"""Actor of imported changes."""
Became: TypeAlias = Literal["created", "replaced", "same", "exists", "left", "refused"]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result for one file. `why` explains the result; for a refused file, it is never None.

    `exists` means that the path already has a memory with another text, and that this memory was kept. `left` means
    that the item is never imported: a reserved name such as `.git`, or a temporary or backup file of an editor.
    """

    name: str
    path: str | None
    became: Became
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """File that can become a memory. Its text is in a temporary file, so that it needs no RAM."""

    number: int
    name: str
    path: MemoryPath
    start: int
    size: int
    is_of_editor: bool = False  # taken up only if a command has made a memory of this name

    def text(self, texts: IO[bytes]) -> str:
        """Return the text. `texts` is the temporary file."""
        texts.seek(self.start)
        return texts.read(self.size).decode()


@dataclass(frozen=True, slots=True)
class ImportFiles(Write[list[FileOutcome]]):
    """Write files as memories in one transaction.

    Every rule about writing applies. A refused file does not stop the others.
    """

    name = "import"
    files: tuple[ReadyFile, ...]
    texts: IO[bytes] = field(repr=False)
    under: str
    overwrite: bool
    replies: Replies
    refused: tuple[tuple[ReadyFile, FileOutcome], ...] = ()  # files that storage has refused in this import

    def paths(self) -> tuple[str, ...]:
        """Return the directory into which the files are imported."""
        return (self.under,)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[list[FileOutcome]]:
        """Decide each file over the files before it, and return the outcome for each."""
        after = Pending(view)
        outcomes = [*(outcome for _, outcome in self.refused), *(self._one(one, after, guard) for one in self.files)]
        return Plan(outcomes, after.changes)

    def without(self, error: Refused) -> ImportFiles:
        """Return the same import without the file that storage refused, or without all if the refusal is not of one."""
        at, is_of_file = str(error.values.get("path", "")), error.key == "too_large_to_keep"
        bad = tuple(one for one in self.files if one.path.text == at) or self.files[: 1 if is_of_file else None]
        files = tuple(one for one in self.files if one not in bad)
        refused = (*self.refused, *((one, _refused(one, error, self.replies)) for one in bad))
        return replace(self, files=files, refused=refused)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the number, the outcome and the reason of each file, without the path of the file."""
        files = (*(one for one, _ in self.refused), *self.files)
        pairs = zip(files, outcome.value(), strict=True)
        return {"files": [[one.number, _BECAME.index(it.became), *_without_path(it.why, one)] for one, it in pairs]}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> list[FileOutcome]:
        """Return the outcomes of the first attempt.

        The repeated request sends the files again. Names and paths are taken from these files.
        """
        files = {one.number: one for one in self.files}
        outcomes: list[FileOutcome] = []
        for number, code, *parts in facts["files"]:
            one, became = files[number], _BECAME[code]
            path = None if became in {"refused", "left"} else one.path.text
            outcomes.append(FileOutcome(one.name, path, became, _with_path(parts, one)))
        return outcomes

    def _one(self, one: ReadyFile, view: Pending, guard: Guard) -> FileOutcome:
        path, text = one.path, one.text(self.texts)
        try:
            entry = view.get(path.text)
            if one.is_of_editor and entry.memory is None:
                return FileOutcome(one.name, None, "left", _OF_EDITOR)
            guard.check_name(path)
            guard.check(path)
            if entry.memory is not None and entry.data == text.encode():
                return FileOutcome(one.name, path.text, "same")
            if entry.memory is not None and not self.overwrite:
                return FileOutcome(one.name, path.text, "exists")
            check_free(entry)
            guarded = guard.put(view, entry, path, text)
        except Refused as refusal:
            return _refused(one, refusal, self.replies)
        view.add(guarded.changes)
        notes = [self.replies.phrase(note.key, note.values) for note in guarded.notes if guarded.altered]
        became: Became = "created" if entry.memory is None else "replaced" if guarded.changes else "same"
        return FileOutcome(one.name, path.text, became, " ".join(notes) or None)


class Import:
    """Import of files into the directory `under` of a memory store.

    All files are written in one transaction. With `dry_run`, nothing is written. The provenance
    of each change has the `source` and the `session`. If changes by the actor need a review, the import
    becomes a proposal, and `is_proposed` is True after the run. For a memory store on a server, the actor is the actor
    of the requests.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        under: str,
        overwrite: bool = False,
        dry_run: bool = False,
        actor: Actor | None = IMPORT,
        **origin: Unpack[Origin],
    ) -> None:
        self._origin = origin_of(**origin)
        with core_of(store).checking(ImportFiles.name, actor):
            self._under = _directory(store.replies, under)
        self._store = store
        self._actor = actor
        self.is_proposed = False
        self._overwrite = overwrite
        self._dry_run = dry_run

    def run(self, source: Source, progress: TransferProgress | None = None) -> Iterator[FileOutcome]:
        """Import all files, and yield the outcome for each.

        All files are written in one transaction at the end. Until then their texts are in a temporary file. If storage
        fails, nothing is imported.
        """
        ready: dict[str, ReadyFile] = {}
        left: set[str] = set()
        with mapped_os_errors(), spool() as texts:
            total = source.count() if progress is not None else 0
            for done, item in enumerate(source.items(), start=1):
                if not item.is_memory and (above := left_out(item.name)) is not None:
                    if above not in left:
                        yield FileOutcome(visible_path(above), None, "left", "holds no memories")
                    left.add(above)
                    continue
                one = self._ready(item, done, texts)
                if isinstance(one, ReadyFile) and one.path.text in ready:
                    why = "another file of this import has the same path"
                    one = FileOutcome(one.name, one.path.text, "refused", why)
                if isinstance(one, FileOutcome):
                    yield one
                else:
                    ready[one.path.text] = one
                if progress is not None:
                    progress(done, total)
            yield from self._write(tuple(ready.values()), texts)

    def _ready(self, item: Item, number: int, texts: IO[bytes]) -> ReadyFile | FileOutcome:
        name = visible_path(item.name)
        try:
            path = MemoryPath.parse(f"{self._under}/{item.name}")
        except Refused as refusal:
            return FileOutcome(name, None, "refused", _sentence(self._store.replies, refusal, item.name))
        is_of_editor = not item.is_memory and is_editor_file(path.text.rpartition("/")[2])
        data = item.read()
        why = data if isinstance(data, str) else None if is_text(data) else "not a text (UTF-8 without NUL)"
        if isinstance(data, str) or why is not None:
            return FileOutcome(name, None, *(("left", _OF_EDITOR) if is_of_editor else ("refused", why)))
        start = texts.seek(0, 2)
        texts.write(data)
        return ReadyFile(number, name, path, start, len(data), is_of_editor)

    def _write(self, ready: tuple[ReadyFile, ...], texts: IO[bytes]) -> Sequence[FileOutcome]:
        """Write all files except those that storage refuses."""
        remote = remote_store(self._store)
        if remote is not None:
            from retentive.transfer.over_http import send_files  # noqa: PLC0415 - rarely needed

            outcomes, self.is_proposed = send_files(
                remote, ready, texts, self._under, overwrite=self._overwrite, dry_run=self._dry_run, **self._origin
            )
            return outcomes
        operation = ImportFiles(ready, texts, self._under, self._overwrite, self._store.replies)
        core = core_of(self._store)
        call = core.invocation(self._actor, **self._origin)
        if self._dry_run:
            return core.run(DryRun(operation), call).value()
        outcome = core.run(operation, call)
        while operation.files and isinstance(outcome.error, Refused):  # storage refused a file; import the others
            operation = operation.without(outcome.error)
            outcome = core.run(operation, call)
        self.is_proposed = outcome.proposed
        return outcome.value()


_OF_EDITOR = "a temporary or backup file of an editor"
_BECAME: tuple[Became, ...] = get_args(Became)
_NOT_KEPT = "refused in the first attempt; the reason is no longer known"


def _without_path(why: str | None, one: ReadyFile) -> Sequence[str | None]:
    """Split a reason at the path of the file, and return the parts.

    If the reason contains another path, return [].
    """
    parts = [None] if why is None else why.split(visible_path(one.path.text))
    return [] if any(ROOT + "/" in part for part in parts if part is not None) else parts


def _with_path(kept: Sequence[str | None], one: ReadyFile) -> str | None:
    if kept == [None]:
        return None
    return visible_path(one.path.text).join(map(str, kept)) if kept else _NOT_KEPT


def _refused(one: ReadyFile, refusal: Refused, replies: Replies) -> FileOutcome:
    return FileOutcome(one.name, None, "refused", _sentence(replies, refusal, one.path.text))


def _directory(replies: Replies, under: str) -> str:
    """Return the canonical path of the directory to import into. Raises `InvalidInput`."""
    try:
        return MemoryPath.parse(under).text
    except Refused as refusal:
        raise InvalidInput(_sentence(replies, refusal, under)) from None


def _sentence(replies: Replies, refusal: Refused, path: str) -> str:
    """Return a sentence that explains a refusal. The sentence contains the path of the memory."""
    values = {"path": visible_path(path), **refusal.values}
    return replies.error(refusal.key, values).text.removeprefix("Error: ")
