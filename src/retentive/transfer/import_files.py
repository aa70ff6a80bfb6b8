"""Import: files become memories through the engine's write path, by the same rules as what a model writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, Refused
from retentive.storage.contract import Actor, Entry, Transaction
from retentive.store import OF_BACKENDS, MemoryStore
from retentive.transfer.archive_writer import Progress
from retentive.transfer.files import said
from retentive.transfer.sources import Item, Source
from retentive.transfer.versions import BATCH_BYTES
from retentive.values.commands import check_text
from retentive.values.paths import MemoryPath, visible

IMPORT = Actor("job", "import")
"""Who is recorded with what was imported."""
BATCH_FILES = 200
Became: TypeAlias = Literal["created", "replaced", "same", "exists", "left", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file. `why` says more, always if refused.

    `exists`: another text is there, and was kept. `left`: a directory that never holds memories, such as `.git`.
    """

    name: str
    path: str | None
    became: Became
    why: str | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A file that could be a memory."""

    name: str
    path: MemoryPath
    text: str


class _DryRun(Exception):
    """Carries the outcomes out of a transaction that is not to be."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


class Import:
    """One import into a store, below the path `under`.

    Batches of some hundred files are written in one transaction each. `dry_run` asks the same of the store, and undoes
    it; what limits of the store would say after more than one batch it cannot know.
    """

    def __init__(self, store: MemoryStore, *, under: str, overwrite: bool = False, dry_run: bool = False) -> None:
        try:
            self._under = MemoryPath.parse(under).text
        except Refused as refusal:
            raise InvalidInput(_sentence(store, refusal, under)) from None
        self._store = store
        self._overwrite = overwrite
        self._dry_run = dry_run
        self._seen: set[str] = set()

    def run(self, source: Source, progress: Progress | None = None) -> Iterator[Outcome]:
        """Import all there is; what became of each file, as it is known. Raises the errors of storage."""
        with said():
            total = source.count() if progress is not None else 0
            batch: list[_Ready] = []
            size = done = 0
            for item in source.items():
                one = self._ready(item)
                done += 1
                if isinstance(one, Outcome):
                    yield one
                    continue
                batch.append(one)
                size += len(one.text)
                if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                    yield from self._write(batch)
                    batch, size = [], 0
                    if progress is not None:
                        progress(done, total)
            yield from self._write(batch)

    def _ready(self, item: Item) -> _Ready | Outcome:
        name = visible(item.name)
        if item.expected:
            return Outcome(name, None, "left", str(item.read()))
        try:
            path = MemoryPath.parse(f"{self._under}/{item.name}")
        except Refused as refusal:
            return Outcome(name, None, "refused", _sentence(self._store, refusal, item.name))
        data = item.read()
        if isinstance(data, str):
            return Outcome(name, None, "refused", data)
        if path.text in self._seen:
            return Outcome(name, path.text, "refused", "another file of this import has the same path")
        try:
            text = data.decode()
            check_text("text", text)
        except (UnicodeDecodeError, Refused):
            return Outcome(name, None, "refused", "no text (UTF-8 without NUL)")
        self._seen.add(path.text)
        return _Ready(name, path, text)

    def _write(self, batch: Sequence[_Ready]) -> list[Outcome]:
        try:
            return self._run(batch)
        except Refused as refusal:  # by the storage, which may have undone all of the batch
            if len(batch) > 1:
                return [outcome for one in batch for outcome in self._write([one])]
            return [self._refused(batch[0], refusal)]

    def _run(self, batch: Sequence[_Ready]) -> list[Outcome]:
        if not batch:
            return []
        try:
            return self._store.write(partial(self._work, batch), IMPORT)
        except _DryRun as dry:
            return dry.outcomes

    def _work(self, batch: Sequence[_Ready], tx: Transaction, write: GuardedWriter) -> list[Outcome]:
        outcomes = [self._one(one, tx, write) for one in batch]
        if self._dry_run:
            raise _DryRun(outcomes)
        return outcomes

    def _one(self, one: _Ready, tx: Transaction, write: GuardedWriter) -> Outcome:
        path = one.path
        try:
            write.check_name(path)
            write.check(path)
            look = tx.get(path.text)
            if look.memory is not None and look.data == one.text.encode():
                return Outcome(one.name, path.text, "same")
            if look.memory is not None and not self._overwrite:
                return Outcome(one.name, path.text, "exists")
            _check_free(look)
            written = write.put(look, path, one.text)
        except Refused as refusal:
            if refusal.key in OF_BACKENDS or refusal.key == "too_large_to_keep":
                raise
            return self._refused(one, refusal)
        notes = [self._store.replies.phrase(note.key, note.values) for note in written.notes if written.altered]
        became: Became = "created" if look.memory is None else "replaced"
        if look.data is not None and written.text.encode() == look.data:
            became = "same"
        return Outcome(one.name, path.text, became, " ".join(notes) or None)

    def _refused(self, one: _Ready, refusal: Refused) -> Outcome:
        return Outcome(one.name, None, "refused", _sentence(self._store, refusal, one.path.text))


def _check_free(look: Entry) -> None:
    if look.below:
        raise Refused("exists")
    if look.above is not None:
        raise Refused("not_a_directory", ancestor=look.above)


def _sentence(store: MemoryStore, refusal: Refused, path: str) -> str:
    """A refusal in words."""
    values = {"path": visible(path), **refusal.values}
    return store.replies.error(refusal.key, values).text.removeprefix("Error: ")
