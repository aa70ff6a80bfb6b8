"""Who may write where: the rules that determine which paths an actor may change, and which names are allowed."""

from __future__ import annotations

from collections.abc import Iterable

from retentive.engine.visibility import Assessment
from retentive.errors import Phrase, Refused
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Actor, Entry, Memory, Snapshot
from retentive.values.paths import MemoryPath, visible
from retentive.values.patterns import covers, matches_actor
from retentive.values.settings import Settings


class Rules:
    """Rules from the settings of a store that determine which memories an actor may change.

    `hidden` finds the memories that are hidden from the actor. `scope` contains the patterns of the paths to which the
    caller is limited; empty if it is not limited.
    """

    def __init__(
        self,
        settings: Settings,
        actor: Actor | None,
        examiner: TextExaminer,
        *,
        hidden: Assessment | None = None,
        scope: tuple[str, ...] = (),
    ) -> None:
        self.settings = settings
        self.actor = actor
        self.hidden = hidden
        self.scope = scope
        self._examiner = examiner
        self._allowed = _allowed(settings, actor)

    def shown(self, text: str) -> str:
        """Return `text` with its sensitive values masked, so that a reply can repeat it."""
        return self._examiner(self.settings, text)[0]

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

    def may_change(self, path: str) -> bool:
        """Return whether the actor may change the memory at a canonical path.

        A change that would affect a memory hidden from the actor is not allowed.
        """
        return self._is_allowed(path) and not self._is_hidden(path)

    def setting_against(self, path: str) -> str:
        """Return the name of the setting that forbids the actor to change the memory at a canonical path.

        Return an empty text if no setting forbids it.
        """
        if self._is_allowed(path):
            return ""
        if self.settings.read_only:
            return "read_only"
        return "read_only_paths" if self.is_read_only(self.settings, path) else "allow_write"

    def check_name(self, path: MemoryPath) -> None:
        """Raise `Refused` if a new path contains a sensitive value."""
        shown, kinds = self._examiner(self.settings, path.written)
        if not kinds and path.text != path.written:  # normalization can form a sensitive value
            shown, kinds = self._examiner(self.settings, path.outward(path.text))
        if kinds:
            reason = Phrase("reason_sensitive", {"kinds": listed(kinds)})
            raise Refused("invalid_path", path=visible(shown), reason=reason)

    @staticmethod
    def is_read_only(settings: Settings, path: str) -> bool:
        """Return whether the memory at a canonical path is read-only for every actor."""
        return settings.read_only or covers(settings.read_only_paths, path)

    def _is_allowed(self, path: str) -> bool:
        if self.is_read_only(self.settings, path) or (self.scope and not covers(self.scope, path)):
            return False
        return self._allowed is None or covers(self._allowed, path)

    def _is_hidden(self, path: str) -> bool:
        return self.hidden is not None and self.hidden.blocks(path)


def listed(kinds: Iterable[str]) -> str:
    """Return kinds of sensitive values as one text, each once."""
    return ", ".join(dict.fromkeys(kinds))


def _allowed(settings: Settings, who: Actor | None) -> tuple[str, ...] | None:
    """Return the path patterns to which the setting `allow_write` limits an actor.

    An actor is not limited if no rule matches it, or if it is a background job such as expiry. The result is then None.
    """
    if who is not None and who.kind == "job":
        return None
    name = "" if who is None else str(who)
    found = [patterns for actor, patterns in settings.allow_write.items() if matches_actor(actor, name)]
    return tuple(pattern for patterns in found for pattern in patterns) if found else None
