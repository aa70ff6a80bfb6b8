"""Imports files as memories. Every rule about writing applies to an import too."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, Unpack, get_args

from retentive.engine.guard import Guard
from retentive.engine.handlers import check_free
from retentive.engine.operation import DryRun, Outcome, Plan, WriteOperation
from retentive.engine.pending import Pending
from retentive.errors import InvalidInput, Refused
from retentive.remote import remote_store
from retentive.storage.contract import Actor, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.transfer.files import TransferProgress, counted, mapped_os_errors, pieces, spool
from retentive.transfer.sources import LAYOUT, Item, Source, left_out
from retentive.transfer.tar import add_entry, new_tar
from retentive.values.paths import ROOT, MemoryPath, is_editor_file, visible_path
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Recorded
from retentive.values.replies import REPLIES
from retentive.values.text import is_text

if TYPE_CHECKING:
    from retentive.remote.store import ImportOptions, RemoteStore

IMPORT = Actor("job", "import")
"""Actor of imported changes."""
Became: TypeAlias = Literal["created", "replaced", "same", "exists", "left", "refused"]
_BECAME: tuple[Became, ...] = get_args(Became)
_OF_EDITOR = "a temporary or backup file of an editor"


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


class ImportOutcome(NamedTuple):
    """Result of an import. `is_proposed` is True if the changes were recorded as a proposal."""

    files: list[FileOutcome]
    is_proposed: bool


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """File that can become a memory. Its text is in a temporary file, so that it needs no RAM."""

    name: str
    path: MemoryPath
    start: int
    size: int
    is_of_editor: bool = False  # taken up only if a command has made a memory of this name

    def became(self, became: Became, why: str | None = None) -> FileOutcome:
        """Return the outcome for this file."""
        return FileOutcome(self.name, None if became in {"left", "refused"} else self.path.text, became, why)


@dataclass(frozen=True, slots=True)
class ImportFiles(WriteOperation[list[FileOutcome]]):
    """Write files as memories in one transaction.

    Every rule about writing applies. A refused file does not stop the others.
    """

    name = "import"
    files: Sequence[ReadyFile]
    texts: IO[bytes] = field(repr=False)
    under: str
    overwrite: bool
    refused: Mapping[str, str] = field(default_factory=dict)
    """Reasons for the files, by path, that storage has refused in this import."""

    def paths(self) -> tuple[MemoryPath, ...]:
        """Return the directory into which the files are imported."""
        return (MemoryPath.known(self.under),)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[list[FileOutcome]]:
        """Decide each file over the files before it, and return the outcome for each."""
        after, outcomes = Pending(view), list[FileOutcome]()
        for file in self.files:
            try:
                outcomes.append(self._decide(file, after, guard))
            except Refused as refusal:
                outcomes.append(file.became("refused", _sentence(refusal, file.path.text)))
        return Plan(outcomes, after.changes)

    def _decide(self, file: ReadyFile, after: Pending, guard: Guard) -> FileOutcome:
        if file.path.text in self.refused:
            return file.became("refused", self.refused[file.path.text])
        self.texts.seek(file.start)
        data, entry = self.texts.read(file.size), after.get(file.path.text)
        if file.is_of_editor and entry.memory is None:
            return file.became("left", _OF_EDITOR)
        guard.check_name(file.path)
        guard.check(file.path)
        if entry.memory is not None and entry.data == data:
            return file.became("same")
        if entry.memory is not None and not self.overwrite:
            return file.became("exists")
        check_free(entry)
        guarded = guard.put(after, entry, file.path, data.decode())
        after.add(guarded.changes)
        masked = guarded.result.notes if guarded.result.is_masked else ()
        notes = " ".join(REPLIES.phrase(note.key, note.values) for note in masked)
        return file.became(
            "created" if entry.memory is None else "replaced" if guarded.changes else "same", notes or None
        )

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the outcome and the reason for each file, with the path of the file as `{}`."""
        kept = list[tuple[int, str | None]]()
        for file, each in zip(self.files, outcome.value(), strict=True):
            why = None if each.why is None else each.why.replace(visible_path(file.path.text), "{}")
            if why is not None and ROOT + "/" in why:
                why = "refused in the first attempt; the reason is no longer known"  # it names another path
            kept.append((_BECAME.index(each.became), why))
        return {"files": kept}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> list[FileOutcome]:
        """Return the outcomes of the first attempt, for the same files."""
        return [
            file.became(_BECAME[number], why and why.replace("{}", visible_path(file.path.text)))
            for file, (number, why) in zip(self.files, facts["files"], strict=True)
        ]


def import_files(
    store: MemoryStore,
    files: Source,
    *,
    under: str,
    overwrite: bool = False,
    dry_run: bool = False,
    actor: Actor | None = IMPORT,
    progress: TransferProgress | None = None,
    **origin: Unpack[Origin],
) -> ImportOutcome:
    """Import files into the directory `under` of a memory store, and return the outcome for each.

    All files are written in one transaction at the end. Until then their texts are in a temporary file. If storage
    fails, nothing is imported. With `dry_run`, nothing is written. The provenance of each change has the `source` and
    the `session`. If changes by the actor need a review, the import becomes a proposal. For a memory store on a server,
    the actor is the actor of the requests.
    """
    known = origin_of(**origin)
    try:
        under = MemoryPath.parse(under).text
    except Refused as refusal:
        raise InvalidInput(_sentence(refusal, under)) from None
    ready, outcomes = dict[str, ReadyFile](), dict[FileOutcome, None]()  # a reserved directory has one outcome
    with mapped_os_errors(), spool() as texts:
        for item in counted(files.items(), progress):
            file = _prepared(item, under, texts)
            if isinstance(file, ReadyFile) and file.path.text in ready:
                file = file.became("refused", "another file of this import has the same path")
            if isinstance(file, ReadyFile):
                ready[file.path.text] = file
            else:
                outcomes[file] = None
        operation = ImportFiles(tuple(ready.values()), texts, under, overwrite)
        remote = remote_store(store)
        if remote is not None:
            options: ImportOptions = {"overwrite": overwrite, "dry_run": dry_run, **known}
            written, is_proposed = _send(remote, operation, **options)
        elif dry_run:
            core = core_of(store)
            written, is_proposed = core.run(DryRun(operation), core.invocation(actor, **known)).value(), False
        else:
            written, is_proposed = _write(store, operation, actor, known)
    return ImportOutcome([*outcomes, *written], is_proposed)


def _prepared(item: Item, under: str, texts: IO[bytes]) -> ReadyFile | FileOutcome:
    """Write the text of a file to the end of `texts`. Return where it is, or the reason why it cannot be a memory."""
    above = left_out(item.name)
    if above is not None:
        return FileOutcome(visible_path(above), None, "left", "holds no memories")
    name = visible_path(item.name)
    try:
        path = MemoryPath.parse(f"{under}/{item.name}")
    except Refused as refusal:
        return FileOutcome(name, None, "refused", _sentence(refusal, item.name))
    is_of_editor, data = is_editor_file(path.text.rpartition("/")[2]), item.read()
    if isinstance(data, bytes) and is_text(data):
        start = texts.seek(0, 2)
        texts.write(data)
        return ReadyFile(name, path, start, len(data), is_of_editor)
    if is_of_editor:
        return FileOutcome(name, None, "left", _OF_EDITOR)
    return FileOutcome(name, None, "refused", data if isinstance(data, str) else "not a text (UTF-8 without NUL)")


def _write(
    store: MemoryStore, operation: ImportFiles, actor: Actor | None, origin: Origin
) -> tuple[list[FileOutcome], bool]:
    """Run an import. If storage refuses a file, run it again without this file."""
    core, refused = core_of(store), dict[str, str]()
    call = core.invocation(actor, **origin)
    outcome = core.run(operation, call)
    while isinstance(error := outcome.error, Refused):
        left = [file for file in operation.files if file.path.text not in refused]
        bad = [file for file in left if file.path.text == error.values.get("path")]
        if not bad and error.key == "too_large_to_keep":
            bad = sorted(left, key=lambda file: file.size)[-1:]
        if not bad:
            break
        refused[bad[0].path.text] = _sentence(error, bad[0].path.text)
        outcome = core.run(replace(operation, refused=dict(refused)), call)
    return outcome.value(), outcome.proposed


def _send(
    store: RemoteStore, operation: ImportFiles, **options: Unpack[ImportOptions]
) -> tuple[list[FileOutcome], bool]:
    """Send the files to the server of the memory store, as a tar file."""
    under, names = operation.under, dict[str, str]()
    with spool() as raw:
        with new_tar(raw, tarfile.PAX_FORMAT) as tar:
            for file in operation.files:
                names[visible_path(file.path.text[len(under) + 1 :])] = file.name
                operation.texts.seek(file.start)
                add_entry(tar, LAYOUT + file.path.text[len(under) :], file.size, operation.texts)
        found = store.upload(lambda: pieces(raw), under, **options)
    outcomes = [FileOutcome(names[each.name], each.path, each.outcome, each.reason) for each in found.files]
    return outcomes, found.proposed


def _sentence(refusal: Refused, path: str) -> str:
    """Return a sentence that explains a refusal. The sentence contains the path of the memory."""
    values = {"path": visible_path(path), **refusal.values}
    return REPLIES.error(refusal.key, values).text.removeprefix("Error: ")
