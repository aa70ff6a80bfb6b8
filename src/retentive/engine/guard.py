"""What may be written: the guard turns a wanted text into a change, or refuses it.

It checks names and paths (`rules.py`), sizes and sensitive values, and adds the provenance. It records nothing: an
operation returns the changes in its plan. A new guard is a method here, called by `put`, and a setting.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from retentive.engine.rules import Rules, listed
from retentive.engine.trust import Lineage, is_used
from retentive.engine.visibility import Assessment
from retentive.errors import Phrase, Refused
from retentive.redaction.changes import UNKNOWN, SameEnds
from retentive.redaction.examiner import MAX_NAMED_LINES, Examined, TextExaminer
from retentive.storage.contract import (
    Actor,
    Again,
    Change,
    Deleted,
    Entry,
    Memory,
    Moved,
    Snapshot,
    create_or_update,
)
from retentive.values.paths import MemoryPath
from retentive.values.properties import properties_of
from retentive.values.provenance import Contributor, Flags
from retentive.values.records import Invocation
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

NEAR = 0.8  # from this share of a limit on, replies mention the limit, so that a model can tidy up in time
_MAX_TOOL_USE_ID = 255  # longer ids are cut before they are recorded with a version
_MAX_FLAGS = 100
_to_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """A text that may be written. `changes` write it; there are none if the memory already has this text.

    `text` is the text to store. `altered` is true if a guard modified it. `notes` are sentences to add to the reply.
    `version_id` is the newest version before the change; empty if there is none.
    """

    text: str = field(repr=False)
    changes: Sequence[Change] = ()
    version_id: str = ""
    altered: bool = False
    notes: tuple[Phrase, ...] = ()


class Guard(Rules):
    """Guard of the changes by one actor in one operation.

    `present` is the store without the limits of the scope. `cause` describes an undo or restore, for the provenance.
    """

    def __init__(
        self,
        settings: Settings,
        actor: Actor | None,
        examiner: TextExaminer,
        *,
        present: Snapshot,
        call: Invocation,
        hidden: Assessment | None = None,
        scope: tuple[str, ...] = (),
        api_key_id: str = "",
    ) -> None:
        super().__init__(settings, actor, examiner, hidden=hidden, scope=scope)
        self.lineage = Lineage()
        self.cause = ""
        self._present, self._call, self._key = present, call, api_key_id

    def acting_for(self, actor: Actor | None, *, source: str = "", session: str = "", cause: str = "") -> Guard:
        """Return a guard of changes by another actor in the same operation."""
        other = Guard(
            self.settings,
            actor,
            self._examiner,
            present=self._present,
            call=replace(self._call, source=source, session=session),
            hidden=self.hidden,
            scope=self.scope,
            api_key_id=self._key,
        )
        other.lineage, other.cause = self.lineage, cause
        return other

    def put(
        self,
        view: Snapshot,
        entry: Entry,
        path: MemoryPath,
        text: str,
        *,
        again: Again | None = None,
        is_removal: bool = False,
        lineage: Sequence[str | None] | None = None,
        same: SameEnds = UNKNOWN,
    ) -> Guarded:
        """Return the change that writes `text` to the memory in `entry`, which `view` shows. Raises `Refused`.

        A new memory is created at `path`. An existing memory is moved to `path` if it is at another path. If the memory
        already has this text, nothing changes, and the memory is not moved.

        `lineage` lists the stored provenances of the texts from which `text` was made. The default is the provenance of
        the memory's current text. `is_removal` means that `text` is the current text with its sensitive values masked.
        Size limits then do not apply, because a mask can be longer than the masked value. `again` has the id and the
        creation time of a deleted memory that this write restores. `same` gives the number of unchanged characters at
        the start of the text and at its end, if these numbers are known.
        """
        memory, data = entry.memory, text.encode()
        version_id = "" if memory is None else memory.version_id
        if data == entry.data:
            return Guarded(text, version_id=version_id)
        self._check_not_archived()
        self._check_deleted(view, path, again)
        if is_removal:
            examined = Examined(text)
        else:
            self._check_bytes(entry, len(data))  # first, because examining a long text takes long
            before = "" if entry.data is None else entry.data.decode("utf-8", "replace")
            examined = self._examiner.examine(self.settings, text, path=path.text, before=before, same=same)
        if examined.refused:
            raise Refused("sensitive", kinds=listed(examined.refused))
        notes: list[Phrase] = []
        if kinds := examined.removed:
            data = examined.text.encode()
            notes = [Phrase("redacted", {"count": len(kinds), "kinds": listed(kinds)})]
        if data == entry.data:  # without its sensitive values, the new text is the current one
            moves = [Moved(memory, path.text)] if memory is not None and memory.path != path.text else []
            return Guarded(examined.text, self.move(view, moves), version_id, altered=True, notes=tuple(notes))
        notes += [Phrase("flagged", {"line": line, "kind": kind}) for line, kind in examined.flagged[:MAX_NAMED_LINES]]
        if not is_removal:
            self._check_size(view, entry, len(data))
        if lineage is None:
            lineage = () if memory is None else (memory.provenance_text,)
        made = self._provenance(view, lineage, examined.flagged)
        changes = self._checked([create_or_update(memory, path.text, data, made, again)])
        notes += self._near_limits(view, entry, path, len(data))
        return Guarded(examined.text, changes, version_id, altered=bool(kinds), notes=tuple(notes))

    def delete(self, view: Snapshot, memories: Sequence[Memory]) -> Sequence[Change]:
        """Return the changes that delete memories. Raises `Refused`."""
        return self._checked([Deleted(memory, self._provenance(view, ())) for memory in memories])

    def move(self, view: Snapshot, moves: Sequence[Moved]) -> Sequence[Change]:
        """Return renames with their provenance. The flags of the texts are kept. Raises `Refused`."""
        if moves:
            self._check_not_archived()
        made: list[Moved] = []
        for move in moves:
            provenance = self._provenance(view, (move.before.provenance_text,), move.before.provenance.flags)
            made.append(replace(move, provenance_text=provenance))
        return self._checked(made)

    def _checked(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return `changes`. Raises `Refused` unless the actor may change all paths, old and new."""
        for change in changes:
            if change.path is not None and "/." in change.path:  # an old version may have a path that is reserved now
                MemoryPath.parse(change.path)
            for path in (None if change.before is None else change.before.path, change.path):
                if path is not None and not self.may_change(path):
                    raise Refused("read_only", path=path)
        return changes

    def _check_not_archived(self) -> None:
        if is_archived(self._present):
            raise Refused("archived")

    def _check_deleted(self, view: Snapshot, path: MemoryPath, again: Again | None) -> None:
        """Raise `Refused` if the memory that `again` restores still exists.

        It may exist at a path that is hidden from the actor. An undo would then create it a second time.
        """
        if again is None:
            return
        present = self._present.find(again.id)
        if view.find(again.id) is not None or (present is not None and not self.may_change(present.path)):
            raise Refused("read_only", path=path.text)

    def _provenance(self, view: Snapshot, lineage: Sequence[str | None], flags: Flags = ()) -> str:
        """Return the provenance to store with a change: this call, the flags, and all contributors to the text."""
        call = self._call
        named = call.tool_use_id, call.session, call.source
        tool_use_id, session, source = ("" if not each else self.shown(each) for each in named)
        own = Contributor(f"{view.state.revision:x}", str(self.actor or ""), session, source)
        by, contributor_set = self.lineage.join(view, lineage, own)
        made = {
            "integration": call.integration,
            "key": self._key,
            "tool_use_id": tool_use_id[:_MAX_TOOL_USE_ID],
            "session": session,
            "source": source,
            "cause": self.cause,
            "flags": flags[:_MAX_FLAGS],
            "by": by,
            "set": contributor_set,
        }
        return _to_json({name: value for name, value in made.items() if value})

    def _check_bytes(self, entry: Entry, size: int) -> None:
        """Raise `Refused` if the text is too large for one memory, unless the change makes the memory smaller."""
        held, limit = len(entry.data or b""), self.settings.max_memory_bytes
        if limit and size > limit and (entry.memory is None or size >= held):
            raise Refused("too_large", size=size, limit=limit, present=held)

    def _check_size(self, view: Snapshot, entry: Entry, size: int) -> None:
        """Raise `Refused` if the change exceeds a limit. A change that makes a memory smaller is always allowed."""
        settings, held, usage = self.settings, len(entry.data or b""), view.state.usage
        self._check_bytes(entry, size)
        if entry.memory is not None and size < held:
            return
        is_many = entry.memory is None and settings.max_memories and usage.memories >= settings.max_memories
        limit, after = settings.max_store_bytes, usage.size_bytes - held + size
        if self.scope and (is_many or (limit and after > limit)):
            raise Refused("store_full")  # without numbers, which tell about memories that the caller may not see
        if is_many:
            raise Refused("too_many", present=usage.memories, limit=settings.max_memories)
        if limit and after > limit:
            raise Refused("store_too_large", size=after, limit=limit, present=usage.size_bytes)

    def _near_limits(self, view: Snapshot, entry: Entry, path: MemoryPath, size: int) -> list[Phrase]:
        """Return warnings about limits that this change nearly reaches. They are added to the reply."""
        settings, held = self.settings, len(entry.data or b"")
        if size <= held and entry.memory is not None:
            return []
        notes, limit = [], settings.max_memory_bytes
        if limit and size >= limit * NEAR:
            notes.append(Phrase("near_memory", {"path": path.written, "size": size, "limit": limit}))
        if self.scope:
            return notes
        usage = view.state.usage
        count, limit = usage.memories + 1, settings.max_memories
        if entry.memory is None and limit and count >= limit * NEAR:
            notes.append(Phrase("near_count", {"count": count, "limit": limit}))
        whole, limit = usage.size_bytes - held + size, settings.max_store_bytes
        if limit and whole >= limit * NEAR:
            notes.append(Phrase("near_store", {"size": whole, "limit": limit}))
        return notes


def is_archived(snapshot: Snapshot) -> bool:
    """Return whether the store is archived."""
    text = snapshot.state.properties
    return text is not None and properties_of(text).archived_at is not None


def guard_of(
    store: StoreCore, present: Snapshot, settings: Settings, call: Invocation, examiner: TextExaminer
) -> Guard:
    """Return the guard of an operation. `present` is the store with the proposals that the actor sees applied."""
    who = call.actor or store.actor
    hidden = Assessment(present, settings, who) if is_used(settings) else None
    scope, key = store.scope, store.api_key_id
    return Guard(settings, who, examiner, present=present, call=call, hidden=hidden, scope=scope, api_key_id=key)
