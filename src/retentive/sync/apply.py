"""Applies the steps of a plan.

Each step first checks that the memory, or the file, is still as the plan expects. If it has changed, the step does
nothing, and the next round plans again. Steps never delete the only copy of a text. For example, a conflict copy is
written before the file is replaced.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from retentive.errors import AlreadyExists, Conflict, NotADirectory, NotFound, RetentiveError, StoreFull
from retentive.mounts import StoreOrMounts, store_at
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Memory
from retentive.storage.disk import os_error
from retentive.storage.paging import batched
from retentive.sync import texts
from retentive.sync.folder import FileChanged, Folder, LocalFile
from retentive.sync.plan import ONE_STORE, Act, Base, Files, Memories, Places, Side, SyncStep
from retentive.sync.state import SyncState
from retentive.values.records import Written
from retentive.values.settings import Settings

MOST_COPIES = 20
SAVE_EVERY = 500
MERGE = "the old text of the file is now in {}; merge it yourself"
READ_ONLY = "read-only"
KEPT = "the memory store is read-only here; the text of the file is now in {}"
HELD: Mapping[Act, str] = {
    "hold_memory": "more than half of the files were deleted within a day; --confirm-deletes deletes their memories"
    " too, --undo-held writes the files again",
    "hold_file": "more than half of the memories were deleted within a day; --confirm-deletes deletes their files too,"
    " --undo-held or `retentive undo` brings the memories back",
    "hold_new": "the memory store is read-only here, so the file stays in this directory only",
}
"""Reason for each kind of change that waits for a person, or that the memory store does not take."""
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

    `files` and `memories` map each path to the file or memory that was there at the start of the round. `settings` are
    those of each store, by the mount points in `places`. Unless `confirmed` is True, the state counts the
    deletions. If `dry` is True, nothing is changed, and the outcomes say what would be done; the store may still
    refuse a text, or propose it for review.
    """

    folder: Folder
    store: StoreOrMounts
    state: SyncState
    settings: Mapping[str, Settings]
    machine: str
    files: Files
    memories: Memories
    places: Places = ONE_STORE
    confirmed: bool = False
    dry: bool = False
    outcomes: list[SyncOutcome] = field(default_factory=list)
    examiner: TextExaminer = field(default_factory=TextExaminer)

    def run(self, steps: Sequence[SyncStep], saved: Callable[[], None]) -> None:
        """Apply the steps. Call `saved` every `SAVE_EVERY` steps, to save the state."""
        done = set[SyncStep]()
        if not self.dry:
            new = [step for step in steps if step.act == "push" and step.path not in self.memories]
            for point in self.places.points:  # a batch is one change of one store
                own = (step for step in new if self.places.of(step.path) == point)
                for batch in batched(own, self._size, most=MOST_IN_BATCH, most_bytes=MOST_BATCH_BYTES):
                    done.update(batch if self._created(batch) else ())
        for number, step in enumerate((each for each in steps if each not in done), start=1):
            self._try(step.path, partial(self._apply, step))
            if number % SAVE_EVERY == 0:
                saved()

    def _try(self, path: str, work: Callable[[], None]) -> None:
        """Call `work`. If it fails, add an outcome for the path.

        Raises errors that would stop the other steps too: a full disk, and failures of the store.
        """
        try:
            work()
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

    def _apply(self, step: SyncStep) -> None:  # noqa: C901, PLR0912 - one branch for each act
        path, act, bases = step.path, step.act, self.state.bases
        if act in HELD:
            self._say(path, "held", "", HELD[act])
        elif act == "push" and self.state.offered.get(path) == self.files[path].sha256:
            self._say(path, "proposed", "store", "the change was sent for review")
        elif act == "merge":
            self._merge(path)
        elif self.dry:
            if act in _BECOMES:
                why = READ_ONLY if act == "pull" and self.places.is_read_only(path) else ""
                self._say(step.to or path, *_BECOMES[act], f"from {path}" if step.to else why)
        elif act == "adopt":
            self._keep(path, self.memories[path], self.files[path])
        elif act == "forget":
            del bases[path]
        elif act == "push":
            self._push(path)
        elif act == "pull":
            self._pull(path)
        elif act == "delete_memory":
            written = self.store.delete(path, if_version=self.memories[path].version_id)
            if written.is_proposed:
                self._say(path, "proposed", "store", "the deletion waits for review")
            else:
                self._deleted(path, "store")
        elif act == "delete_file":
            self.folder.delete(self.files[path])
            self._deleted(path, "directory")
        elif act == "rename_memory":
            self._rename_memory(path, step.to)
        else:
            self.folder.rename(self.files[path], step.to)
            bases[step.to] = replace(bases.pop(path), stamp=None)
            self._say(step.to, "renamed", "directory", f"from {path}")

    def _size(self, step: SyncStep) -> int:
        return self.files[step.path].stamp.size_bytes

    def _created(self, batch: Sequence[SyncStep]) -> bool:
        """Create memories in one batch. Return False if a step may not be possible; then each is applied by itself."""
        new = {step.path: self.files[step.path] for step in batch}
        if any(self.state.offered.get(path) == file.sha256 for path, file in new.items()):
            return False
        try:
            found = {path: self.folder.text(file) for path, file in new.items()}
            if any(self._secrets(path, text) for path, text in found.items()):
                return False
            inside = {path: store_at(self.store, path) for path in found}
            results = inside[batch[0].path][0].batch(
                [
                    {"command": "write", "path": inside[path][1], "file_text": text, "if_version": ""}
                    for path, text in found.items()
                ]
            )
        except (FileChanged, OSError, Conflict):
            return False
        except RetentiveError as error:
            if error.retryable:
                raise
            return False
        for (path, text), written in zip(found.items(), results, strict=True):
            self._try(path, partial(self._pushed, path, text, written))
        return True

    def _push(self, path: str) -> None:
        memory, text = self.memories.get(path), self.folder.text(self.files[path])
        if why := self._secrets(path, text):
            self._say(path, "refused", "", why)
            return
        written = self.store.write(path, text, if_version=memory.version_id if memory is not None else "")
        self._pushed(path, text, written)

    def _pushed(self, path: str, text: str, written: Written) -> None:
        file = self.files[path]
        if written.is_proposed:
            self._propose(path)
            return
        self.state.offered.pop(path, None)
        # The guards may have changed the text.
        sha256 = self._as_written(path, written).sha256 if written.notes else file.sha256
        self.state.bases[path] = Base(written.version_id, written.memory_id, sha256, file.sha256, file.stamp)
        self._say(path, "pushed", "store", " ".join(written.notes))
        self._warn(path, text)

    def _pull(self, path: str) -> None:
        memory, text = self.store.load(path)
        self._replace(path, memory, text)
        self.state.offered.pop(path, None)
        self._say(path, "written", "directory", READ_ONLY if self.places.is_read_only(path) else "")
        self._warn(path, text)

    def _replace(self, path: str, memory: Memory, text: str) -> None:
        """Write the text of a memory to the directory."""
        self._keep(path, memory, self.folder.write(path, text, self.files.get(path)))
        self.state.bases[path] = replace(self.state.bases[path], stamp=None)

    def _merge(self, path: str) -> None:
        base, file = self.state.bases.get(path), self.files[path]
        if base is None and self._is_earlier(path, file):
            if self.dry:
                self._say(path, "written", "directory")
            else:
                self._pull(path)
            return
        ours, (memory, theirs) = self.folder.text(file), self.store.load(path)
        is_kept = self.places.is_read_only(path)
        joined = None if is_kept else texts.join(path, self._base_text(path, base), ours, theirs)
        if joined is None:
            copy = conflict_name(path, self.machine, ours) if self.dry else self._copied(path, ours, file)
            if copy:
                self._say(path, "conflict", "directory", (KEPT if is_kept else MERGE).format(copy))
            if not self.dry:
                self._replace(path, memory, theirs)
        elif why := self._secrets(path, joined):
            self._say(path, "refused", "", why)
        elif self.dry:
            self._say(path, "merged", "store and directory")
        else:
            self._write_merged(path, memory, ours, joined)

    def _write_merged(self, path: str, memory: Memory, ours: str, joined: str) -> None:
        """Write the merged text to both sides. The memory gets the text of the file first: the history has both."""
        store, inner = store_at(self.store, path)
        commands: list[dict[str, object]] = [
            {"command": "write", "path": inner, "file_text": text} for text in dict.fromkeys([ours, joined])
        ]
        commands[0]["if_version"] = memory.version_id
        written = store.batch(commands)[-1]
        if written.is_proposed:
            self._propose(path)
            return
        found = self._as_written(path, written)
        self._replace(path, found, joined)
        self._say(path, "merged", "store and directory")
        self._warn(path, joined)

    def _is_earlier(self, path: str, file: LocalFile) -> bool:
        """Return whether the file has a text that the memory had before its present one."""
        memory = self.memories[path]
        versions = store_at(self.store, path)[0].versions(memory_id=memory.id, limit=EARLIER)
        return file.sha256 != memory.sha256 and any(version.sha256 == file.sha256 for version in versions)

    def _as_written(self, path: str, written: Written) -> Memory:
        """Load the memory that `written` describes. Raises `FileChanged` if the memory has changed again since then."""
        memory, _ = self.store.load(path)
        if memory.version_id != written.version_id:
            raise FileChanged
        return memory

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

    def _base_text(self, path: str, base: Base | None) -> str | None:
        try:
            return None if base is None else store_at(self.store, path)[0].version_text(base.version_id)
        except RetentiveError as error:
            if error.retryable:
                raise
            return None  # the version was pruned or redacted

    def _rename_memory(self, path: str, to: str) -> None:
        base, memory, file = self.state.bases[path], self.memories[path], self.files[to]
        written = self.store.rename(path, to, if_version=memory.version_id)
        if written.is_proposed:
            self._say(path, "proposed", "store", f"the rename to {to} waits for review")
            return
        del self.state.bases[path]
        self.state.bases[to] = replace(
            base,
            version_id=written.version_id if memory.version_id == base.version_id else base.version_id,
            stamp=file.stamp if file.sha256 == base.local_sha256 else None,
        )
        self._say(to, "renamed", "store", f"from {path}")

    def _deleted(self, path: str, side: Side) -> None:
        self.state.bases.pop(path, None)
        if not self.confirmed:
            self.state.removed.setdefault(side, []).append(time.time())
        self._say(path, "deleted", side)

    def _propose(self, path: str) -> None:
        self.state.offered[path] = self.files[path].sha256
        self._say(path, "proposed", "store", "the change waits for review")

    def _secrets(self, path: str, text: str) -> str:
        """Return the reason why a text must not be sent to the store, or "" if it may be sent.

        The reason lists the kinds of sensitive values that the store would remove or refuse.
        """
        settings = self.settings[self.places.of(path)]
        if settings.sensitive == "off":
            return ""
        examined = self.examiner.examine(settings, text, path=path)
        kinds = sorted({*examined.removed, *examined.refused, *self.examiner(settings, path)[1]})
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
