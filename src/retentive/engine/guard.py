"""What may be written: the guard turns a wanted text into a change, or refuses it.

It checks names and paths, sizes and sensitive values, and adds the provenance. It records nothing: an operation returns
the changes in its plan. A new guard is a method here, called by `put`, and a setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from retentive.engine.operation import CommandResult, Plan
from retentive.engine.visibility import OLDER, assessed, joined_contributors
from retentive.errors import Phrase, ReadOnly, Refused
from retentive.redaction.examiner import MAX_NAMED_LINES, Examined
from retentive.storage.contract import Actor, Again, Change, Deleted, Entry, Memory, Moved, Snapshot, create_or_update
from retentive.values.paths import MemoryPath, visible
from retentive.values.patterns import covers, matches_actor
from retentive.values.properties import properties_of
from retentive.values.provenance import Contributor, Flags, Provenance
from retentive.values.records import Invocation
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

NEAR = 0.8  # from this share of a limit on, replies mention the limit, so that a model can tidy up in time
_MAX_TOOL_USE_ID = 255  # longer ids are cut before they are recorded with a version
_MAX_FLAGS = 100
_to_json = json.JSONEncoder(separators=(",", ":")).encode


def is_read_only(settings: Settings, path: str) -> bool:
    """Return whether the memory at a canonical path is read-only for every actor."""
    return settings.read_only or covers(settings.read_only_paths, path)


def setting_against(settings: Settings, actor: Actor | None, path: str) -> str:
    """Return the name of the setting that forbids an actor to change the memory at a canonical path, or ""."""
    if is_read_only(settings, path):
        return "read_only" if settings.read_only else "read_only_paths"
    allowed = _allowed(settings, actor)
    return "" if allowed is None or covers(allowed, path) else "allow_write"


def _allowed(settings: Settings, actor: Actor | None) -> tuple[str, ...] | None:
    """Return the patterns to which `allow_write` limits an actor. None if no rule matches it, or if it is a job."""
    name = str(actor or "")
    matching = [patterns for rule, patterns in settings.allow_write.items() if matches_actor(rule, name)]
    is_job = actor is not None and actor.kind == "job"
    return None if is_job or not matching else tuple(chain.from_iterable(matching))


class Guard:
    """Guard of the changes by one actor in one operation: which memories it may change, and what it may write.

    `present` is the store with the proposals that the actor sees applied, without the limits of the scope. `hidden`
    finds the memories that are hidden from the actor. `scope` contains the patterns of the paths that the caller may
    change; empty if it is not limited. `cause` describes an undo or restore, for the provenance.
    """

    def __init__(self, store: StoreCore, present: Snapshot, settings: Settings, call: Invocation) -> None:
        self.settings, self.present, self.call = settings, present, call
        self.actor = call.actor or store.actor
        self.examiner, self.cause = store.examiner, ""
        self.scope = store.scope if store.write_scope is None else store.write_scope
        self._sees_sizes = not store.scope  # of the whole store, with memories that the caller may not see
        self.hidden = assessed(present, settings, self.actor, store.hides)
        self.max_deletions = store.max_deletions
        self.older: dict[str, str] = {}
        self._api_key_id, self._principal, self._accepted_by = store.api_key_id, store.principal, ""
        self._is_pinned_read_only = bool(store.pins.get("read_only"))
        self._allowed = _allowed(settings, self.actor)

    @property
    def identities(self) -> frozenset[str]:
        """Names of who makes this call: its actor, session and API key, and the person to whom the key belongs."""
        session, key = self.call.session, self._api_key_id
        named = [self._principal, f"session:{session}" if session else "", f"api_key:{key}" if key else ""]
        return frozenset([str(self.actor or ""), *filter(None, named)])

    def accepting_for(self, actor: Actor | None, made: Provenance) -> Guard:
        """Return a guard of the changes that another actor proposed, and that the actor of this guard accepts.

        `made` is the provenance of the proposed changes.
        """
        other = copy(self)
        other.actor, other.cause, other._accepted_by = actor, made.cause, str(self.actor or "")  # noqa: SLF001 - own class
        other._allowed, other._api_key_id = _allowed(self.settings, actor), made.api_key_id  # noqa: SLF001 - as above
        other.call = replace(self.call, source=made.source, session=made.session)
        return other

    def shown(self, text: str) -> str:
        """Return `text` with its sensitive values masked, so that a reply can repeat it."""
        return self.examiner(self.settings, text)[0]

    def check(self, path: MemoryPath) -> None:
        """Raise `Refused` if the actor may not change the memory at a path. The memory need not exist."""
        if not self.may_change(path.text):
            raise Refused("read_only", path=path.written)

    def check_all(self, path: MemoryPath, entry: Entry, view: Snapshot) -> list[Memory]:
        """Return the memories at or below a path. Raises `Refused` unless the actor may change all of them."""
        if not entry.below or self.settings.read_only:
            self.check(path)
            return [entry.memory] if entry.memory is not None else []
        memories = [memory for memory, _ in view.list(path.text)]
        if self._is_hidden(path.text) or not all(self._is_allowed(memory.path) for memory in memories):
            raise Refused("read_only", path=path.written)
        return memories

    def check_name(self, path: MemoryPath) -> None:
        """Raise `Refused` if a new path contains a sensitive value."""
        shown, kinds = self.examiner(self.settings, path.written)
        if not kinds and path.text != path.written:  # normalization can form a sensitive value
            shown, kinds = self.examiner(self.settings, path.outward(path.text))
        if kinds:
            reason = Phrase("reason_sensitive", {"kinds": listed(kinds)})
            raise Refused("invalid_path", path=visible(shown), reason=reason)

    def may_change(self, path: str) -> bool:
        """Return whether the actor may change the memory at a canonical path, and no hidden memory is concerned."""
        return self._is_allowed(path) and not self._is_hidden(path)

    def _is_allowed(self, path: str) -> bool:
        return self.reaches(path) and not is_read_only(self.settings, path)

    def reaches(self, path: str) -> bool:
        """Return whether the actor may change a path, if it is not read-only for everybody."""
        is_free = self._allowed is None or covers(self._allowed, path)
        return is_free and (not self.scope or covers(self.scope, path))

    def _is_hidden(self, path: str) -> bool:
        return self.hidden is not None and self.hidden.blocks(path)

    @property
    def records(self) -> list[tuple[str, str, str]]:
        """Records of contributors to write with the changes: kind, key and value of each."""
        return [(OLDER, key, text) for key, text in self.older.items()]

    def check_opened(self, what: str) -> None:
        """Raise `ReadOnly` if this process opened the store read-only, which also protects what is no memory."""
        if self._is_pinned_read_only:
            raise ReadOnly(f"the memory store was opened read-only, so its {what} cannot be changed")

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
    ) -> Plan[CommandResult]:
        """Plan the change that writes `text` to the memory in `entry`, which `view` shows. Raises `Refused`.

        A new memory is created at `path`. An existing memory is moved to `path` if it is at another path. If the memory
        already has this text, nothing changes, and the memory is not moved.

        `lineage` lists the stored provenances of the texts from which `text` was made. The default is the provenance of
        the memory's current text. `is_removal` means that `text` is the current text with its sensitive values masked.
        Size limits then do not apply, because a mask can be longer than the masked value. `again` has the id and the
        creation time of a deleted memory that this write restores.
        """
        memory, data = entry.memory, text.encode()
        version_id = "" if memory is None else memory.version_id
        if data == entry.data:
            return Plan(CommandResult(version_id=version_id))
        self._check_not_archived()
        if again is not None:
            self._check_deleted(view, path, again)
        if is_removal:
            examined = Examined(text)
        else:
            self._check_bytes(entry, len(data))  # first, because examining a long text takes long
            before = "" if entry.data is None else entry.data.decode("utf-8", "replace")
            examined = self.examiner.examine(self.settings, text, path=path.text, before=before)
        if examined.refused:
            raise Refused("sensitive", kinds=listed(examined.refused))
        notes: list[Phrase] = []
        if kinds := examined.removed:
            data = examined.text.encode()
            notes = [Phrase("redacted", {"count": len(kinds), "kinds": listed(kinds)})]
        if data == entry.data:  # without its sensitive values, the new text is the current one
            moves = [Moved(memory, path.text)] if memory is not None and memory.path != path.text else []
            return Plan(CommandResult(tuple(notes), version_id, is_masked=True), self.move(view, moves))
        notes += [Phrase("flagged", {"line": line, "kind": kind}) for line, kind in examined.flagged[:MAX_NAMED_LINES]]
        near = [] if is_removal else self._check_size(view, entry, path, len(data))
        if lineage is None:
            lineage = () if memory is None else (memory.provenance_text,)
        made = self._provenance(view, lineage, examined.flagged)
        changes = self._checked([create_or_update(memory, path.text, data, made, again)])
        return Plan(CommandResult((*notes, *near), version_id, is_masked=bool(kinds)), changes)

    def text_kept(self, path: MemoryPath, text: str) -> str | None:
        """Return an earlier text of a memory as it may be kept, masked if need be; None if it may not be kept."""
        limit = self.settings.max_memory_bytes
        examined = self.examiner.examine(self.settings, text, path=path.text)
        is_kept = not examined.refused and not (limit and len(text.encode()) > limit)
        return examined.text if is_kept else None

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
        if is_archived(self.present):
            raise Refused("archived")

    def _check_deleted(self, view: Snapshot, path: MemoryPath, again: Again) -> None:
        """Raise `Refused` if the memory that `again` restores still exists.

        It may exist at a path that is hidden from the actor. An undo would then create it a second time.
        """
        present = self.present.find(again.id)
        if view.find(again.id) is not None or (present is not None and not self.may_change(present.path)):
            raise Refused("read_only", path=path.text)

    def _provenance(self, view: Snapshot, lineage: Sequence[str | None], flags: Flags = ()) -> str:
        """Return the provenance to store with a change: this call, the flags, and all contributors to the text."""
        call = self.call
        named = call.tool_use_id, call.session, call.source
        tool_use_id, session, source = ("" if not each else self.shown(each) for each in named)
        own = Contributor(f"{view.state.revision:x}", str(self.actor or ""), session, source)
        by, older = joined_contributors(view, lineage, own, self.older)
        made = {
            "integration": call.integration,
            "key": self._api_key_id,
            "tool_use_id": tool_use_id[:_MAX_TOOL_USE_ID],
            "session": session,
            "source": source,
            "cause": self.cause,
            "accepted": self._accepted_by,
            "flags": flags[:_MAX_FLAGS],
            "by": by,
            "older": older,
        }
        return _to_json({name: value for name, value in made.items() if value})

    def _check_bytes(self, entry: Entry, size: int) -> None:
        """Raise `Refused` if the text is too large for one memory, unless the change makes the memory smaller."""
        held, limit = len(entry.data or b""), self.settings.max_memory_bytes
        if limit and size > limit and (entry.memory is None or size >= held):
            raise Refused("too_large", size=size, limit=limit, present=held)

    def _check_size(self, view: Snapshot, entry: Entry, path: MemoryPath, size: int) -> list[Phrase]:
        """Raise `Refused` if the change exceeds a limit. Return warnings about limits that it nearly reaches.

        A change that makes a memory smaller is always allowed.
        """
        settings, held, is_new = self.settings, len(entry.data or b""), entry.memory is None
        self._check_bytes(entry, size)
        notes, usage = list[Phrase](), view.state.usage
        if not is_new and size < held:
            return notes
        count, whole = usage.memories + is_new, usage.size_bytes - held + size
        is_many, is_full = is_new and _is_over(count, settings.max_memories), _is_over(whole, settings.max_store_bytes)
        if not self._sees_sizes and (is_many or is_full):
            raise Refused("store_full")  # without numbers, which tell about memories that the caller may not see
        if is_many:
            raise Refused("too_many", present=usage.memories, limit=settings.max_memories)
        if is_full:
            raise Refused("store_too_large", size=whole, limit=settings.max_store_bytes, present=usage.size_bytes)
        if not is_new and size == held:
            return notes
        if _is_over(size, settings.max_memory_bytes, NEAR):
            values = {"path": path.written, "size": size, "limit": settings.max_memory_bytes}
            notes.append(Phrase("near_memory", values))
        if is_new and self._sees_sizes and _is_over(count, settings.max_memories, NEAR):
            notes.append(Phrase("near_count", {"count": count, "limit": settings.max_memories}))
        if self._sees_sizes and _is_over(whole, settings.max_store_bytes, NEAR):
            notes.append(Phrase("near_store", {"size": whole, "limit": settings.max_store_bytes}))
        return notes


def _is_over(size: int, limit: int, share: float = 0) -> bool:
    """Return whether a size is over a limit, or has reached this share of it. A limit of 0 is none."""
    return limit > 0 and (size >= limit * share if share else size > limit)


def listed(kinds: Iterable[str]) -> str:
    """Return kinds of sensitive values as one text, each once."""
    return ", ".join(dict.fromkeys(kinds))


def is_archived(snapshot: Snapshot) -> bool:
    """Return whether the store is archived."""
    text = snapshot.state.properties
    return text is not None and properties_of(text).archived_at is not None
