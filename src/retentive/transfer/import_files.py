"""Imports the files of a directory or of a tar file as memories. Every rule about writing applies to an import too."""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Literal, NamedTuple, TypeAlias, Unpack, get_args

from retentive.engine.guard import Guard
from retentive.engine.handlers import check_free
from retentive.engine.operation import Facts, Outcome, Plan, Write
from retentive.engine.pending import Pending
from retentive.errors import InvalidInput, NotFound, Refused, TooLarge
from retentive.remote import remote_store
from retentive.storage.contract import Actor, Snapshot
from retentive.storage.disk import expanded, need_posix
from retentive.store import MemoryStore, core_of
from retentive.transfer.archive import ABOUT, TarReader, add_entry, new_tar
from retentive.transfer.files import TransferProgress, counted, mapped_os_errors, pieces, spool
from retentive.values.paths import ROOT, MemoryPath, is_editor_file, is_reserved, visible_path
from retentive.values.provenance import Origin, origin_of
from retentive.values.replies import REPLIES
from retentive.values.text import is_text

if TYPE_CHECKING:
    from retentive.remote.store import ImportOptions, RemoteStore

IMPORT = Actor("job", "import")
"""Actor of imported changes."""
FROM = "import:"
"""Beginning of the source of imports that are repeated: such an import updates the memories that it made before."""
_KEY = re.compile(r"[-/]([0-9a-f]{10}(?:-[0-9]+)?)\.md$")
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


def key_of(path: str) -> str:
    """Return the end of a path that stays the same if the title changes, or the path if it has none."""
    return match[1] if (match := _KEY.search(path)) else path


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
class ImportFiles:
    """Write files as memories in one transaction.

    Every rule about writing applies. A refused file does not stop the others. If the source is `import:...`, a memory
    whose text has the same source is replaced, since nobody has edited it after the import, and one that somebody has
    deleted since is left out.
    """

    files: Sequence[ReadyFile]
    texts: IO[bytes] = field(repr=False)
    under: str
    overwrite: bool
    refused: Mapping[str, str] = field(default_factory=dict)
    """Reasons for the files, by path, that storage has refused in this import."""

    @property
    def operation(self) -> Write[list[FileOutcome]]:
        """The import as an operation on a memory store."""
        return Write(
            "import",
            self.decide,
            MemoryPath.known(self.under),
            facts_kept=self.facts_kept,
            rebuilt=self.rebuilt,
            under_review="propose",
            allowed_when_archived=False,
        )

    def decide(self, view: Snapshot, guard: Guard) -> Plan[list[FileOutcome]]:
        """Decide each file over the files before it, and return the outcome for each."""
        after, outcomes = Pending(view), list[FileOutcome]()
        source = guard.call.source if (guard.call.source or "").startswith(FROM) else None
        gone = set[str]() if source is None or self.overwrite else self._gone(view, source)
        for file in self.files:
            try:
                if key_of(file.path.text) in gone:
                    outcomes.append(file.became("left", "deleted or moved since the import"))
                else:
                    outcomes.append(self._decide(file, after, guard, source))
            except Refused as refusal:
                outcomes.append(file.became("refused", _sentence(refusal, file.path.text)))
        return Plan(outcomes, after.changes)

    def _gone(self, view: Snapshot, source: str) -> set[str]:
        """Return the keys of what was imported before, and is no longer in the directory."""
        versions = view.versions(path=f"{self.under}/{source.removeprefix(FROM)}/")
        past = {key_of(each.path) for each in versions if each.provenance.source == source}
        return past - {key_of(memory.path) for memory, _ in view.list(self.under)} if past else past

    def _decide(self, file: ReadyFile, after: Pending, guard: Guard, source: str | None) -> FileOutcome:
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
        is_own = source and entry.memory is not None and entry.memory.provenance.source == source
        if entry.memory is not None and not (self.overwrite or is_own):
            return file.became("exists", "edited since the import" if source else None)
        check_free(entry)
        guarded = guard.put(after, entry, file.path, data.decode())
        after.add(guarded.changes)
        masked = guarded.result.notes if guarded.result.is_masked else ()
        notes = " ".join(REPLIES.phrase(note.key, note.values) for note in masked)
        return file.became(
            "created" if entry.memory is None else "replaced" if guarded.changes else "same", notes or None
        )

    def facts_kept(self, outcome: Outcome[list[FileOutcome]], _: Snapshot) -> Mapping[str, object]:
        """Return the outcome and the reason for each file, with the path of the file as `{}`."""
        kept = list[tuple[int, str | None]]()
        for file, each in zip(self.files, outcome.value(), strict=True):
            why = None if each.why is None else each.why.replace(visible_path(file.path.text), "{}")
            if why is not None and ROOT + "/" in why:
                why = "refused in the first attempt; the reason is no longer known"  # it names another path
            kept.append((_BECAME.index(each.became), why))
        return {"files": kept}

    def rebuilt(self, facts: Facts, _: Snapshot) -> list[FileOutcome]:
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
        for name, read in counted(files.items(), progress):
            file = _prepared(name, read, under, texts)
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
            written, is_proposed = core_of(store).result_of(operation.operation.dry_run(), actor, **known), False
        else:
            written, is_proposed = _write(store, operation, actor, known)
    return ImportOutcome([*outcomes, *written], is_proposed)


def _prepared(item: str, read: Callable[[], bytes | str], under: str, texts: IO[bytes]) -> ReadyFile | FileOutcome:
    """Write the text of a file to the end of `texts`. Return where it is, or the reason why it cannot be a memory."""
    above = left_out(item)
    if above is not None:
        return FileOutcome(visible_path(above), None, "left", "holds no memories")
    name = visible_path(item)
    try:
        path = MemoryPath.parse(f"{under}/{item}")
    except Refused as refusal:
        return FileOutcome(name, None, "refused", _sentence(refusal, item))
    is_of_editor, data = is_editor_file(path.text.rpartition("/")[2]), read()
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
    outcome = core.run(operation.operation, call)
    while isinstance(error := outcome.error, Refused):
        left = [file for file in operation.files if file.path.text not in refused]
        bad = [file for file in left if file.path.text == error.values.get("path")]
        if not bad and error.key == "too_large_to_keep":
            bad = sorted(left, key=lambda file: file.size)[-1:]
        if not bad:
            break
        refused[bad[0].path.text] = _sentence(error, bad[0].path.text)
        outcome = core.run(replace(operation, refused=dict(refused)).operation, call)
    try:
        return outcome.value(), outcome.proposed
    except Refused as refusal:  # of the whole import
        raise core.raised(refusal, operation.operation) from None


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


MAX_FILE_BYTES = 256 * 1024 * 1024  # each file is loaded into memory
LAYOUT = "memories"  # the directory in which the official SDK's local tool and retentive keep memories
OWN = ".retentive"  # what the directory backend keeps beside the memories


Item: TypeAlias = tuple[str, Callable[[], bytes | str]]
"""Path of a file in a source, and a function that returns its bytes, or the reason why it cannot be a memory."""


class Source(NamedTuple):
    """Files of an import.

    `items` yields all files, and the directories that are skipped. Read a file before you ask for the next one.
    `inside` is the only directory that is read, or None if all directories are read.
    """

    items: Callable[[], Iterator[Item]]
    inside: str | None = None


def left_out(name: str) -> str | None:
    """Return the path up to and including its first name that is never imported, such as `.git`, or None."""
    parts = name.split("/")
    at = next((number for number, part in enumerate(parts) if is_reserved(part) or part == OWN), None)
    return None if at is None else "/".join(parts[: at + 1])


def directory_source(path: str) -> Source:
    """Return the files below a directory, without symbolic links and devices. Raises `NotFound`.

    If the directory has a subdirectory `memories`, only this subdirectory is read.
    """
    need_posix("an import of a directory", "on this system import a tar file")
    path = expanded(path)
    if not os.path.isdir(path):
        raise NotFound("the source is no file and no directory, or does not exist")
    within = os.path.join(path, LAYOUT)
    if os.path.isdir(within) and not os.path.islink(within):
        return Source(partial(_walk, os.path.realpath(within)), LAYOUT)
    return Source(partial(_walk, os.path.realpath(path)))


def fail(error: OSError) -> None:
    """Raise an error: a directory that cannot be listed is not left out silently."""
    raise error


def _walk(root: str) -> Iterator[Item]:
    for directory, directories, files, descriptor in os.fwalk(root, onerror=fail):
        below = os.path.relpath(directory, root)
        prefix = "" if below == "." else below + "/"
        for name in sorted(directories):
            if left_out(name) or stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                directories.remove(name)  # not walked
                yield prefix + name, lambda: "a symbolic link"
        directories.sort()
        for name in sorted(files):
            yield prefix + name, partial(_read, name, descriptor)


def _read(name: str, descriptor: int) -> bytes | str:
    """Return the bytes of a regular file, or the reason why it cannot be read. Links are not followed."""
    try:
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):  # checked before opening, because opening a device can have effects
            return "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"larger than {MAX_FILE_BYTES >> 20} MB" if len(data) > MAX_FILE_BYTES else data


def tar_source(
    raw: IO[bytes],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Source:
    """Return the files of a tar file of any program, without links and devices. The whole file is verified first.

    If the tar file has a directory `memories`, only the files in it are read. Raises `Damaged`, and `InvalidInput` for
    an export or a backup. Raises `TooLarge` if there are more than `max_files` files, or more than `max_bytes` bytes
    after decompression. A file of more than `max_file_bytes` is refused.
    """
    tar, files, inside = TarReader(raw, max_bytes=max_bytes), 0, None
    for entry in tar.entries():
        name = entry.name.removeprefix("./")
        if name == ABOUT and not files:
            raise InvalidInput("the file is an export or a backup; it can only be imported with its history (--whole)")
        if name.startswith(f"{LAYOUT}/") or (name == LAYOUT and entry.isdir()):
            inside = LAYOUT
        files += not entry.isdir()
        if max_files is not None and files > max_files:
            raise TooLarge(f"the archive has more than {max_files} files")
    tar.rest()
    return Source(partial(_entries, raw, f"{inside}/" if inside else "", max_file_bytes), inside)


def _entries(raw: IO[bytes], start: str, max_file_bytes: int) -> Iterator[Item]:
    tar = TarReader(raw)
    for entry in tar.entries():
        name = entry.name.removeprefix("./")
        if entry.isdir() or not name.startswith(start):
            continue
        why = None
        if not entry.isreg() or entry.issparse():
            why = "a symbolic link" if entry.issym() else "a hard link" if entry.islnk() else "not a regular file"
        elif entry.size > max_file_bytes:
            why = f"larger than {max_file_bytes} bytes"
        yield name[len(start) :], partial(tar.data, entry.size) if why is None else partial(str, why)
