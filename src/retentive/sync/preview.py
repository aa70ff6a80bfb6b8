"""Says what a synchronisation would do, without changing anything.

The store checks the texts like those of an import that is rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from retentive.engine.guard import is_read_only
from retentive.engine.proposing import is_under_review
from retentive.errors import Conflict, NotFound, PermissionDenied, RetentiveError
from retentive.remote import remote_store
from retentive.storage.contract import Memory
from retentive.store import core_of
from retentive.sync import texts
from retentive.sync.apply import HELD, SyncBecame, SyncOutcome, SyncRound, conflict_name, copied_to, is_earlier
from retentive.sync.files import LocalFile
from retentive.sync.plan import SyncStep
from retentive.sync.state import Base
from retentive.transfer.import_files import FileOutcome, import_files
from retentive.transfer.sources import Item, Source
from retentive.values.paths import ROOT


class DryRound(SyncRound):
    """Round whose steps are not applied."""

    def preview(self, steps: Sequence[SyncStep]) -> list[SyncOutcome]:
        """Return what `run` would do."""
        became: dict[str, SyncBecame] = {}
        sent: dict[str, str] = {}
        for step in steps:
            for path, text in (self._try(step.path, partial(self._previewed, step)) or {}).items():
                if why := self._secrets(path, text):
                    self._say(path, "refused", "", why)
                else:
                    sent[path], became[path] = text, "merged" if step.act == "merge" and path == step.path else "pushed"
        for checked in self._checked(sent):
            path = f"{ROOT}/{checked.name}"
            if checked.became == "refused":
                self._say(path, "refused", "", checked.why or "")
            elif self._awaits_review:
                self._say(path, "proposed", "store", "the change waits for review")
            else:
                self._say(path, became[path], "store and directory" if became[path] == "merged" else "store")
                self._warn(path, sent[path])
        return self.outcomes

    def _checked(self, sent: Mapping[str, str]) -> list[FileOutcome]:
        try:
            items = [Item(path.removeprefix(f"{ROOT}/"), text.encode) for path, text in sent.items()]
            source = Source(lambda: iter(items))
            return import_files(self.store, source, under=ROOT, overwrite=True, dry_run=True, actor=None).files
        except PermissionDenied:  # a key for some paths must not import; its texts are not checked
            return [self._permitted(path) for path in sent]

    def _permitted(self, path: str) -> FileOutcome:
        """Ask for a deletion that cannot happen, since no memory has this version."""
        try:
            self.store.delete(path, if_version="none")
        except (NotFound, Conflict):
            return FileOutcome(path.removeprefix(f"{ROOT}/"), path, "created")
        except RetentiveError as error:
            return FileOutcome(path.removeprefix(f"{ROOT}/"), None, "refused", str(error))
        raise AssertionError(path)

    def _previewed(self, step: SyncStep) -> Mapping[str, str]:  # noqa: C901 - one case for each kind of step
        """Add the outcome of a step. Return the texts that the step would send to the store, by path, instead."""
        path, to = step.path, step.to or step.path
        base, file, memory = self.state.bases.get(path), self.files.get(path), self.memories.get(path)
        match step.act:
            case "push" if file is not None:
                return {} if self._was_offered(path) else {path: self.folder.text(file)}
            case "pull" if memory is not None:
                return self._previewed_pull(path)
            case "merge" if file is not None and memory is not None:
                return self._previewed_merge(path, memory, file, base)
            case "delete_file":
                self._say(path, "deleted", "directory")
            case "delete_memory" | "rename_memory" if is_read_only(self.settings, path):
                self._say(path, "refused", "", f"{path} is read-only")
            case "delete_memory" | "rename_memory" if self._awaits_review:
                what = f"rename to {to}" if step.to else "deletion"
                self._say(path, "proposed", "store", f"the {what} waits for review")
            case "delete_memory":
                self._say(path, "deleted", "store")
            case "rename_memory" | "rename_file" if base is not None:
                self._say(to, "renamed", "store" if step.act == "rename_memory" else "directory", f"from {path}")
                file, memory = file or self.files[to], memory or self.memories[to]
                if (file.sha256 == base.local_sha256) != (memory.sha256 == base.sha256):
                    return (
                        self._previewed_pull(to) if file.sha256 == base.local_sha256 else {to: self.folder.text(file)}
                    )
            case "hold_memory" | "hold_file" | "hold_text":
                self._say(path, "held", "", HELD[step.act])
        return {}

    def _previewed_pull(self, path: str) -> Mapping[str, str]:
        self._say(path, "written", "directory")
        if path == texts.INDEX:
            self._warn(path, self.store.load(path)[1])
        return {}

    def _previewed_merge(self, path: str, memory: Memory, file: LocalFile, base: Base | None) -> Mapping[str, str]:
        if base is None and is_earlier(self.store, memory, file.sha256):
            return self._previewed_pull(path)
        ours = self.folder.text(file)
        joined = texts.join(path, self._base_text(base), ours, self.store.load(path)[1])
        if not joined.is_conflict:
            return {path: joined.text}
        copy = conflict_name(path, self.machine, ours)
        self._say(path, "conflict", "directory", copied_to(copy))
        return {copy: ours}

    @property
    def _awaits_review(self) -> bool:
        """True if changes by the actor await review. The actor of a server's key is not known here."""
        actor = None if remote_store(self.store) is not None else core_of(self.store).actor
        return is_under_review(self.settings, actor)
