"""Guarded writer: the only code that changes memories. It runs all guards, then records the change.

A new guard belongs in one of three methods. `WriteRules.check` decides which paths an actor may write.
`WriteRules.check_name` decides which paths are valid. `GuardedWriter.put` decides which texts are valid. A guard in
`put` must run before the change is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from retentive.errors import Phrase, Refused
from retentive.redaction.changes import UNKNOWN, SameEnds
from retentive.redaction.examiner import MAX_NAMED_LINES, Examined, TextExaminer
from retentive.storage.contract import Actor, Change, Entry, Memory, Recorded, Snapshot, Transaction, Usage
from retentive.values.paths import MemoryPath, visible
from retentive.values.patterns import covers, matches_actor
from retentive.values.provenance import Flags, are_own, joined, usual_parts
from retentive.values.records import Again, Invocation
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.engine.trust.overlay import HiddenMemories

NEAR = 0.8  # from this share of a limit on, replies mention the limit, so that a model can tidy up in time
_MAX_TOOL_USE_ID = 255  # longer ids are cut before they are recorded with a version
_MAX_FLAGS = 100
_NO_FLAGS: Flags = ()
_to_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Result of a write. `text` is the stored text. `altered` is true if a guard modified the text.

    `notes` are sentences to add to the reply.
    """

    text: str = field(repr=False)
    version_id: str
    altered: bool = False
    notes: tuple[Phrase, ...] = ()


class WriteRules:
    """Rules from the settings of a store that determine which memories an actor may change."""

    def __init__(self, settings: Settings, actor: Actor | None, examiner: TextExaminer) -> None:
        self.settings = settings
        self.actor = actor
        self._examiner = examiner
        self._allowed = _allowed(settings, actor) if settings.allow_write else None
        self._is_limited = settings.read_only or bool(settings.read_only_paths) or self._allowed is not None
        self.hidden: HiddenMemories | None = None
        self._reach: tuple[str, ...] = ()

    def limit_to(self, paths: tuple[str, ...]) -> None:
        """Allow changes only to memories whose paths match one of the patterns in `paths`."""
        self._reach, self._is_limited = paths, True

    def shown(self, text: str) -> str:
        """Return `text` with its sensitive values masked, so that a reply can repeat it."""
        return self._examiner(self.settings, text)[0]

    def check(self, path: MemoryPath) -> None:
        """Raise `Refused` if the actor may not change the memory at a path. The memory need not exist."""
        if (self._is_limited or self.hidden) and not self.may_change(path.text):
            raise Refused("read_only", path=path.written)

    def check_all(self, path: MemoryPath, entry: Entry, snapshot: Snapshot) -> list[Memory]:
        """Return the memories at or below a path. Raises `Refused` unless the actor may change all of them."""
        if not entry.below or self.settings.read_only:
            self.check(path)
            return [entry.memory] if entry.memory is not None else []
        found = list(snapshot.memories(path.text))
        if self._is_hidden(path.text) or not all(self._is_allowed(memory.path) for memory in found):
            raise Refused("read_only", path=path.written)
        return found

    def may_change(self, path: str) -> bool:
        """Return whether the actor may change the memory at a canonical path.

        A change that would affect a memory hidden from the actor is not allowed.
        """
        return self._is_allowed(path) and not self._is_hidden(path)

    def _is_allowed(self, path: str) -> bool:
        if self.is_read_only(self.settings, path) or (self._reach and not covers(self._reach, path)):
            return False
        return self._allowed is None or covers(self._allowed, path)

    def setting_against(self, path: str) -> str:
        """Return the name of the setting that forbids the actor to change the memory at a canonical path.

        Return an empty text if no setting forbids it.
        """
        if self._is_allowed(path):
            return ""
        if self.settings.read_only:
            return "read_only"
        return "read_only_paths" if self.is_read_only(self.settings, path) else "allow_write"

    def _is_hidden(self, path: str) -> bool:
        return self.hidden is not None and self.hidden.blocks(path)

    @staticmethod
    def is_read_only(settings: Settings, path: str) -> bool:
        """Return whether the memory at a canonical path is read-only for every actor."""
        return settings.read_only or bool(settings.read_only_paths and covers(settings.read_only_paths, path))

    def check_name(self, path: MemoryPath) -> None:
        """Raise `Refused` if a new path contains a sensitive value."""
        shown, kinds = self._examiner(self.settings, path.written)
        if not kinds and path.text != path.written:  # normalization can form a sensitive value
            shown, kinds = self._examiner(self.settings, path.outward(path.text))
        if kinds:
            reason = Phrase("reason_sensitive", {"kinds": _listed(kinds)})
            raise Refused("invalid_path", path=visible(shown), reason=reason)


class GuardedWriter(WriteRules):
    """Writer of changes by one actor, in one transaction. A change that a guard refuses is not recorded.

    `recorded` lists the ids of the recorded versions. `tried` becomes true when the backend is asked to record a
    change, even if the backend refuses it.
    """

    def __init__(
        self, tx: Transaction, settings: Settings, actor: Actor | None, examiner: TextExaminer, call: Invocation
    ) -> None:
        super().__init__(settings, actor, examiner)
        self._tx = tx
        self._call = call
        self.recorded: list[Recorded] = []
        self.tried = False
        self.is_archived = False
        self.cause = ""  # description of an undo or restore, for the provenance
        self.api_key_id = ""  # for the provenance

    def acting_for(self, actor: Actor | None, *, source: str = "", session: str = "") -> GuardedWriter:
        """Return a writer for another actor in the same transaction. Both writers share `recorded`."""
        call = replace(self._call, source=source, session=session)
        other = GuardedWriter(self._tx, self.settings, actor, self._examiner, call)
        other.recorded, other.hidden, other.is_archived = self.recorded, self.hidden, self.is_archived
        other.api_key_id = self.api_key_id
        if self._reach:
            other.limit_to(self._reach)
        self.tried = True
        return other

    def put(
        self,
        entry: Entry,
        path: MemoryPath,
        text: str,
        *,
        again: Again | None = None,
        is_removal: bool = False,
        lineage: Sequence[str | None] | None = None,
        same: SameEnds = UNKNOWN,
    ) -> Stored:
        """Write `text` to the memory in `entry`, if the guards allow it. Raises `Refused`.

        A new memory is created at `path`. An existing memory is moved to `path` if it is at another path. If the memory
        already has this text, nothing is recorded, and the memory is not moved.

        `lineage` lists the stored provenances of the texts from which `text` was made. The default is the provenance of
        the memory's current text. `is_removal` means that `text` is the current text with its sensitive values masked.
        Size limits then do not apply, because a mask can be longer than the masked value. `again` has the id and the
        creation time of a deleted memory that this write restores. `same` gives the number of unchanged characters at
        the start of the text and at its end, if these numbers are known.
        """
        data = text.encode()
        present = "" if entry.memory is None else entry.memory.version_id
        if data == entry.data:
            return Stored(text, present)
        self._check_writable(path, again)
        if is_removal:
            examined = Examined(text)
        else:
            self._check_bytes(entry, len(data))  # first, because examining a long text takes long
            before = "" if entry.data is None else entry.data.decode("utf-8", "replace")
            examined = self._examiner.examine(self.settings, text, path=path.text, before=before, same=same)
        if examined.refused:
            raise Refused("sensitive", kinds=_listed(examined.refused))
        notes: list[Phrase] = []
        if kinds := examined.removed:
            data = examined.text.encode()
            notes = [Phrase("redacted", {"count": len(kinds), "kinds": _listed(kinds)})]
        if data == entry.data:  # without its sensitive values, the new text is the current one
            if entry.memory is not None and entry.memory.path != path.text:
                self.move([Change(entry.memory, path.text)])
                present = self.version_id
            return Stored(examined.text, present, altered=True, notes=tuple(notes))
        notes += [Phrase("flagged", {"line": line, "kind": kind}) for line, kind in examined.flagged[:MAX_NAMED_LINES]]
        usage = self._tx.usage()
        if not is_removal:
            self._check_size(entry, len(data), usage)
        made = self._provenance(entry.memory, lineage, examined.flagged)
        self._record([Change(entry.memory, path.text, data, again=again, provenance_text=made)])
        notes += self._near_limits(entry, path, len(data), usage)
        return Stored(examined.text, self.recorded[-1].version_id, altered=bool(kinds), notes=tuple(notes))

    def _check_writable(self, path: MemoryPath, again: Again | None) -> None:
        """Raise `Refused` if the store is archived, or if the memory that `again` restores still exists.

        The memory may exist at a path that is hidden from the actor. An undo would then create it a second time.
        """
        if self.is_archived:
            raise Refused("archived")
        if again is not None and self._tx.find(again.id) is not None:
            raise Refused("read_only", path=path.text)

    @property
    def version_id(self) -> str:
        """Id of the version recorded last; empty if nothing was recorded."""
        return self.recorded[-1].version_id if self.recorded else ""

    def delete(self, memories: Sequence[Memory]) -> None:
        """Delete memories."""
        self._record([Change(memory, None, provenance_text=self._provenance()) for memory in memories])

    def move(self, changes: Sequence[Change]) -> None:
        """Rename memories."""
        if self.is_archived:
            raise Refused("archived")
        self._record([self._moved(change) for change in changes])

    def _moved(self, change: Change) -> Change:
        """Return a copy of the rename `change` with the provenance to store. The flags of the text are kept."""
        before, flags = change.before, _NO_FLAGS
        if before is not None and before.provenance_text is not None and '"flags"' in before.provenance_text:
            flags = before.provenance.flags
        return Change(before, change.path, provenance_text=self._provenance(before, flags=flags))

    def _record(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.path is not None and "/." in change.path:  # an old version may have a path that is reserved now
                MemoryPath.parse(change.path)
        if self._is_limited or self.hidden:
            self._check_changes(changes)
        self.tried = True
        self.recorded += self._tx.record(changes, self.actor)

    def _check_changes(self, changes: Sequence[Change]) -> None:
        """Raise `Refused` unless the actor may change all paths.

        This also stops an operation that did not check its paths.
        """
        for change in changes:
            before = None if change.before is None else change.before.path
            for path in (before, change.path):
                if path is not None and not self.may_change(path):
                    raise Refused("read_only", path=path)

    def _provenance(
        self,
        before: Memory | None = None,
        lineage: Sequence[str | None] | None = None,
        flags: Flags = (),
    ) -> str:
        """Return the provenance to store with a change: this call, the flags, and all contributors to the text."""
        call, actor = self._call, self.actor
        if lineage is None and before is not None:
            lineage = (before.provenance_text,)
        if not (call.tool_use_id or call.session or call.source or self.cause or flags):
            who = "" if actor is None else str(actor)
            if not lineage or are_own(lineage, ("", who, "", "")):
                return f"{self._tx.revision:x}".join(usual_parts(call.integration, self.api_key_id, who))
        named = call.tool_use_id, call.session, call.source
        tool_use_id, session, source = ("" if not each else self.shown(each) for each in named)
        own = [f"{self._tx.revision:x}", str(actor or ""), session, source]
        made = {
            "integration": call.integration,
            "key": self.api_key_id,
            "tool_use_id": tool_use_id[:_MAX_TOOL_USE_ID],
            "session": session,
            "source": source,
            "cause": self.cause,
            "flags": flags[:_MAX_FLAGS],
            "by": joined(lineage, own) if lineage else [own],
        }
        return _to_json({name: value for name, value in made.items() if value})

    def _check_bytes(self, entry: Entry, size: int) -> None:
        """Raise `Refused` if the text is too large for one memory, unless the change makes the memory smaller."""
        held, limit = len(entry.data or b""), self.settings.max_memory_bytes
        if limit and size > limit and (entry.memory is None or size >= held):
            raise Refused("too_large", size=size, limit=limit, present=held)

    def _check_size(self, entry: Entry, size: int, usage: Usage) -> None:
        """Raise `Refused` if the change exceeds a limit. A change that makes a memory smaller is always allowed."""
        settings, held = self.settings, len(entry.data or b"")
        if settings.max_memory_bytes and size > settings.max_memory_bytes:
            self._check_bytes(entry, size)
        if entry.memory is not None and size < held:
            return
        is_many = entry.memory is None and settings.max_memories and usage.memories >= settings.max_memories
        limit, after = settings.max_store_bytes, usage.size_bytes - held + size
        if self._reach and (is_many or (limit and after > limit)):
            raise Refused("store_full")  # without numbers, which tell about memories that the caller may not see
        if is_many:
            raise Refused("too_many", present=usage.memories, limit=settings.max_memories)
        if limit and after > limit:
            raise Refused("store_too_large", size=after, limit=limit, present=usage.size_bytes)

    def _near_limits(self, entry: Entry, path: MemoryPath, size: int, before: Usage) -> list[Phrase]:
        """Return warnings about limits that this change nearly reaches. They are added to the reply."""
        settings, held = self.settings, len(entry.data or b"")
        if size <= held and entry.memory is not None:
            return []
        notes, limit = [], settings.max_memory_bytes
        if limit and size >= limit * NEAR:
            notes.append(Phrase("near_memory", {"path": path.written, "size": size, "limit": limit}))
        if self._reach:
            return notes
        count, limit = before.memories + 1, settings.max_memories
        if entry.memory is None and limit and count >= limit * NEAR:
            notes.append(Phrase("near_count", {"count": count, "limit": limit}))
        whole, limit = before.size_bytes - held + size, settings.max_store_bytes
        if limit and whole >= limit * NEAR:
            notes.append(Phrase("near_store", {"size": whole, "limit": limit}))
        return notes


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(kinds))


def _allowed(settings: Settings, who: Actor | None) -> tuple[str, ...] | None:
    """Return the path patterns to which the setting `allow_write` limits an actor.

    An actor is not limited if no rule matches it, or if it is a background job such as expiry. The result is then None.
    """
    if who is not None and who.kind == "job":
        return None
    name = "" if who is None else str(who)
    named: Iterable[tuple[str, ...]] = [
        patterns for actor, patterns in settings.allow_write.items() if matches_actor(actor, name)
    ]
    found = list(named)
    return tuple(pattern for patterns in found for pattern in patterns) if found else None
