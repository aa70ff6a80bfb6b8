"""Applies the steps of a plan.

Each step first checks that the memory, or the file, is still as the plan expects. If it has changed, the step does
nothing, and the next round plans again. Steps never delete the only copy of a text. For example, a conflict copy is
written before the file is replaced.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from retentive.errors import AlreadyExists, Conflict, NotADirectory, NotFound, RetentiveError, StoreFull
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Memory
from retentive.storage.disk import os_error
from retentive.store import MemoryStore
from retentive.sync import texts
from retentive.sync.files import FileChanged, LocalFile
from retentive.sync.folder import Folder
from retentive.sync.plan import Act, SyncStep
from retentive.sync.state import Base, Side, SyncState
from retentive.values.records import Written
from retentive.values.settings import Settings

Result = TypeVar("Result")
MOST_COPIES = 20
SAVE_EVERY = 500
MERGE = "the old text of the file is now in {}; merge it yourself"
HELD: Mapping[Act, str] = {
    "hold_memory": "more than half of the files were deleted within a day; --confirm-deletes deletes their memories"
    " too, --undo-held writes the files again",
    "hold_file": "more than half of the memories were deleted within a day; --confirm-deletes deletes their files too,"
    " --undo-held or `retentive undo` brings the memories back",
}
"""Reason for each kind of change that waits for a person."""
EARLIER = 100
"""Number of versions of a memory among which an earlier text of a file is looked for."""
MOST_IN_BATCH, MOST_BATCH_BYTES = 100, 500_000
"""Limits of one batch of changes that is sent to the store.

Each store accepts a batch of `MOST_IN_BATCH` commands. Each server accepts a body of twice `MOST_BATCH_BYTES`.
"""
SyncBecame: TypeAlias = Literal[
    "pushed", "written", "merged", "conflict", "renamed", "deleted", "held", "refused", "proposed", "skipped", "waits",
    "warning",
]  # fmt: skip

_BECOMES: Mapping[Act, tuple[SyncBecame, str]] = {
    "push": ("pushed", "store"),
    "pull": ("written", "directory"),
    "delete_memory": ("deleted", "store"),
    "delete_file": ("deleted", "directory"),
    "rename_memory": ("renamed", "store"),
    "rename_file": ("renamed", "directory"),
}


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """Result of a synchronisation for one path.

    `became` says what happened. `side` is the side that was changed: "store", "directory", "store and directory", or ""
    for neither. `why` gives details.
    """

    path: str
    became: SyncBecame
    side: str = ""
    why: str = ""


@dataclass
class SyncRound:
    """Applies the steps of one round, and collects the outcomes.

    `files` and `memories` map each path to the file or memory that was there at the start of the round. Unless
    `confirmed` is True, the state counts the deletions.
    """

    folder: Folder
    store: MemoryStore
    state: SyncState
    settings: Settings
    machine: str
    files: Mapping[str, LocalFile]
    memories: Mapping[str, Memory]
    confirmed: bool = False
    outcomes: list[SyncOutcome] = field(default_factory=list)
    examiner: TextExaminer = field(default_factory=TextExaminer)

    def run(self, steps: Sequence[SyncStep], saved: Callable[[], None]) -> None:
        """Apply the steps. Call `saved` every `SAVE_EVERY` steps, to save the state."""
        new = [step for step in steps if step.act == "push" and step.path not in self.memories]
        for number, (step, text) in enumerate(self._not_created(new), start=1):
            self._try(step.path, partial(self._push, step, text))
            if number % SAVE_EVERY == 0:
                saved()
        done = set(new)
        for number, step in enumerate((each for each in steps if each not in done), start=1):
            self._try(step.path, partial(self._apply, step))
            if number % SAVE_EVERY == 0:
                saved()

    def preview(self, steps: Sequence[SyncStep]) -> None:
        """Say what `run` would do, and change nothing. The store may still refuse a text, or propose it for review."""
        for step in steps:
            path, act = step.path, step.act
            if act in HELD:
                self._say(path, "held", "", HELD[act])
            elif act == "merge":
                self._try(path, partial(self._previewed_merge, path))
            elif act in _BECOMES and not (act == "push" and self._was_offered(path)):
                became, side = _BECOMES[act]
                self._say(step.to or path, became, side, f"from {path}" if step.to else "")

    def _previewed_merge(self, path: str) -> None:
        base, file, memory = self.state.bases.get(path), self.files[path], self.memories[path]
        if base is None and self._is_earlier(memory, file):
            self._say(path, "written", "directory")
            return
        ours = self.folder.text(file)
        if texts.join(path, self._base_text(base), ours, self.store.load(path)[1]).is_conflict:
            self._say(path, "conflict", "directory", MERGE.format(conflict_name(path, self.machine, ours)))
        else:
            self._say(path, "merged", "store and directory")

    def _is_earlier(self, memory: Memory, file: LocalFile) -> bool:
        """Return whether the file has a text that the memory had before its present one."""
        versions = self.store.versions(memory_id=memory.id, limit=EARLIER)
        return file.sha256 != memory.sha256 and any(version.sha256 == file.sha256 for version in versions)

    def _try(self, path: str, work: Callable[[], Result]) -> Result | None:
        """Return the result of `work`. If it fails, add an outcome for the path, and return None.

        Raises errors that would stop the other steps too: a full disk, and failures of the store.
        """
        try:
            return work()
        except (FileChanged, Conflict, AlreadyExists, NotFound, NotADirectory) as error:
            self._say(path, "waits", "", str(error))  # another program changed it; the next round plans again
            if path in self.state.bases:
                self.state.bases[path] = replace(self.state.bases[path], stamp=None)
        except OSError as error:
            found = os_error(error)
            if isinstance(found, StoreFull):
                raise found from None
            self._say(path, "refused", "", f"the file cannot be read or written: {os.strerror(error.errno or 0)}")
        except RetentiveError as error:
            if error.retryable:
                raise
            self._say(path, "refused", "", str(error))
        return None

    def _apply(self, step: SyncStep) -> None:
        path = step.path
        base, file, memory = self.state.bases.get(path), self.files.get(path), self.memories.get(path)
        match step.act:
            case "adopt" if file is not None and memory is not None:
                self._keep(path, memory, file)
            case "forget":
                del self.state.bases[path]
            case "push" if file is not None:
                self._push(step, self.folder.text(file))
            case "pull" if memory is not None:
                self._pull(path, memory, file)
            case "merge" if file is not None and memory is not None:
                self._merge(path, memory, file, base)
            case "delete_memory" if memory is not None:
                written = self.store.delete(path, if_version=memory.version_id)
                self._gone(path, "store", written)
            case "delete_file" if file is not None:
                self.folder.delete(file)
                self._gone(path, "directory")
            case "hold_memory" | "hold_file":
                self._say(path, "held", "", HELD[step.act])
            case _:
                self._rename(step)

    def _rename(self, step: SyncStep) -> None:
        base = self.state.bases[step.path]
        if step.act == "rename_memory":
            self._rename_memory(step, base, self.memories[step.path])
            return
        assert step.act == "rename_file", step
        self.folder.rename(self.files[step.path], step.to)
        self.state.bases[step.to] = replace(self.state.bases.pop(step.path), stamp=None)
        self._say(step.to, "renamed", "directory", f"from {step.path}")

    def _not_created(self, steps: Iterable[SyncStep]) -> list[tuple[SyncStep, str]]:
        """Create memories in batches. Return each step whose memory was not created, with the text of its file.

        A file that cannot be read gets an outcome here.
        """
        left: list[tuple[SyncStep, str]] = []
        batch: list[tuple[SyncStep, str]] = []
        size = 0
        for step in steps:
            if self._was_offered(step.path):
                continue
            file = self.files[step.path]
            text = self._try(step.path, partial(self.folder.text, file))
            if text is None:
                continue
            if batch and (len(batch) == MOST_IN_BATCH or size + file.stamp.size_bytes > MOST_BATCH_BYTES):
                left += self._created(batch)
                batch, size = [], 0
            batch.append((step, text))
            size += file.stamp.size_bytes
        return left + self._created(batch)

    def _created(self, batch: list[tuple[SyncStep, str]]) -> list[tuple[SyncStep, str]]:
        if len(batch) < 2 or any(self._secrets(step.path, text) for step, text in batch):
            return batch
        commands = [{"command": "create", "path": step.path, "file_text": text} for step, text in batch]
        try:
            results = self.store.batch(commands)
        except RetentiveError as error:
            if error.retryable and not isinstance(error, Conflict):
                raise
            return batch  # the caller sends them one by one, so that a refused one does not stop the others
        for (step, text), written in zip(batch, results, strict=True):
            self._pushed(step.path, text, written)
        return []

    def _was_offered(self, path: str) -> bool:
        """Return whether the file's current text was already sent for review. If so, add an outcome for the path."""
        if self.state.offered.get(path) != self.files[path].sha256:
            return False
        self._say(path, "proposed", "store", "the change was sent for review")
        return True

    def _push(self, step: SyncStep, text: str) -> None:
        path, memory = step.path, self.memories.get(step.path)
        if self._was_offered(path):
            return
        if why := self._secrets(path, text):
            self._say(path, "refused", "", why)
            return
        written = self.store.write(path, text, if_version=memory.version_id if memory is not None else "")
        self._pushed(path, text, written)

    def _pushed(self, path: str, text: str, written: Written) -> None:
        file = self.files[path]
        if written.is_proposed:
            self.state.offered[path] = file.sha256
            self._say(path, "proposed", "store", "the change waits for review")
            return
        self.state.offered.pop(path, None)
        sha256 = file.sha256
        if written.notes:  # the guards may have changed the text
            sha256 = self._as_written(path, written).sha256
        self.state.bases[path] = Base(written.version_id, written.memory_id, sha256, file.sha256, file.stamp)
        self._say(path, "pushed", "store", " ".join(written.notes))
        self._warn(path, text)

    def _pull(self, path: str, memory: Memory, file: LocalFile | None) -> None:
        found, text = self.store.load(path)
        written = self.folder.write(path, text, file)
        self.state.offered.pop(path, None)
        self._keep(path, found, written)
        self.state.bases[path] = replace(self.state.bases[path], stamp=None)
        self._say(path, "written", "directory")
        self._warn(path, text)

    def _merge(self, path: str, memory: Memory, file: LocalFile, base: Base | None) -> None:
        if base is None and self._is_earlier(memory, file):
            self._pull(path, memory, file)
            return
        ours = self.folder.text(file)
        found, theirs = self.store.load(path)
        joined = texts.join(path, self._base_text(base), ours, theirs)
        if joined.is_conflict:
            if copy := self._copied(path, ours, file):
                self._say(path, "conflict", "directory", MERGE.format(copy))
            written = self.folder.write(path, theirs, file)
            self._keep(path, found, written)
            self.state.bases[path] = replace(self.state.bases[path], stamp=None)
            return
        if why := self._secrets(path, joined.text):
            self._say(path, "refused", "", why)
            return
        last = self._recorded(path, found, list(dict.fromkeys([ours, joined.text])))
        if last.is_proposed:
            self.state.offered[path] = file.sha256
            self._say(path, "proposed", "store", "the change waits for review")
            return
        version = self._as_written(path, last)
        written = self.folder.write(path, joined.text, file)
        self.state.bases[path] = Base(version.version_id, version.id, version.sha256, written.sha256)
        self._say(path, "merged", "store and directory")
        self._warn(path, joined.text)

    def _as_written(self, path: str, written: Written) -> Memory:
        """Load the memory that `written` describes. Raises `FileChanged` if the memory has changed again since then."""
        memory, _ = self.store.load(path)
        if memory.version_id != written.version_id:
            raise FileChanged
        return memory

    def _recorded(self, path: str, memory: Memory, versions: list[str]) -> Written:
        """Write each text in `versions` to the memory, in one batch, so that the history contains all of them."""
        commands: list[dict[str, object]] = [{"command": "write", "path": path, "file_text": text} for text in versions]
        commands[0]["if_version"] = memory.version_id
        return self.store.batch(commands)[-1]

    def _copied(self, path: str, text: str, file: LocalFile) -> str:
        """Write `text` to a conflict copy of the file at `path`, and return the path of the copy.

        Return "" if a copy with this text exists already. Raises `FileChanged` if all names for a copy are in use.
        """
        for more in range(MOST_COPIES):  # the first name is in use if somebody has edited an earlier copy
            copy = conflict_name(path, f"{self.machine}{f'-{more}' if more else ''}", text)
            try:
                self.folder.write(copy, text, None, like=file)
            except FileChanged:
                if self.folder.has(copy, text):
                    return ""
            else:
                return copy
        raise FileChanged

    def _base_text(self, base: Base | None) -> str | None:
        if base is None:
            return None
        try:
            return self.store.version_text(base.version_id)
        except RetentiveError as error:
            if error.retryable:
                raise
            return None  # the version was pruned or redacted

    def _rename_memory(self, step: SyncStep, base: Base, memory: Memory) -> None:
        written = self.store.rename(step.path, step.to, if_version=memory.version_id)
        if written.is_proposed:
            self._say(step.path, "proposed", "store", f"the rename to {step.to} waits for review")
            return
        file, is_newest = self.files[step.to], memory.version_id == base.version_id
        self.state.bases.pop(step.path)
        self.state.bases[step.to] = replace(
            base,
            version_id=written.version_id if is_newest else base.version_id,
            stamp=file.stamp if file.sha256 == base.local_sha256 else None,
        )
        self._say(step.to, "renamed", "store", f"from {step.path}")

    def _gone(self, path: str, side: Side, written: Written | None = None) -> None:
        if written is not None and written.is_proposed:
            self._say(path, "proposed", "store", "the deletion waits for review")
            return
        self.state.bases.pop(path, None)
        if not self.confirmed:
            self.state.removed.setdefault(side, []).append(time.time())
        self._say(path, "deleted", side)

    def _secrets(self, path: str, text: str) -> str:
        """Return the reason why a text must not be sent to the store, or "" if it may be sent.

        The reason lists the kinds of sensitive values that the store would remove or refuse.
        """
        if self.settings.sensitive == "off":
            return ""
        examined = self.examiner.examine(self.settings, text, path=path)
        kinds = sorted({*examined.removed, *examined.refused, *self.examiner(self.settings, path)[1]})
        return f"the text contains sensitive values ({', '.join(kinds)}) and was not sent" if kinds else ""

    def _keep(self, path: str, memory: Memory, file: LocalFile) -> None:
        self.state.bases[path] = Base(memory.version_id, memory.id, memory.sha256, file.sha256, file.stamp)

    def _say(self, path: str, became: SyncBecame, side: str = "", why: str = "") -> None:
        self.outcomes.append(SyncOutcome(path, became, side, why))

    def _warn(self, path: str, text: str) -> None:
        for why in texts.warnings(path, text):
            self._say(path, "warning", "", why)


def conflict_name(path: str, machine: str, text: str) -> str:
    """Return the path for a conflict copy of the file at `path`. It contains `machine` and a hash of `text`."""
    stem, dot, suffix = path.rpartition(".")
    if not dot or "/" in suffix:
        stem, dot, suffix = path, "", ""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    folder, slash, name = stem.rpartition("/")
    most = 255 - len(f".conflict-{machine}-{digest}{dot}{suffix}".encode())
    name = name.encode()[: max(1, most)].decode(errors="ignore")
    return f"{folder}{slash}{name}.conflict-{machine}-{digest}{dot}{suffix}"
