"""Trust in memories of a memory store on a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from retentive.engine.trust import TRUSTED, Level, Levels, author_of, check_level
from retentive.errors import InvalidInput, NotFound
from retentive.remote import objects
from retentive.remote.methods import RemotePart, exchange, get, pages, post
from retentive.remote.requests import HttpExchange, segment
from retentive.review.trust import DoubtedMemory, Trust
from retentive.storage.contract import Actor, Memory, Version
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor
from retentive.wire.administration import SettingsObject
from retentive.wire.base import AnswerPage, tool_path
from retentive.wire.trust import ConfirmationResult, DoubtedObject, QuarantineResult
from retentive.wire.versions import VersionObject

if TYPE_CHECKING:
    pass


class RemoteTrust(RemotePart, Trust):
    """Trust over HTTP."""

    @exchange
    def doubted(self, under: str = ROOT, *, level: Level | None = None) -> HttpExchange[list[DoubtedMemory]]:
        """Return all untrusted memories at or below a path, in byte order of their paths.

        Hidden memories are included.
        """
        check_level(level)
        target = objects.parsed(under)
        if level == TRUSTED:
            return []
        path, above = "/doubted_memories", _above(target)
        given = yield from pages(self._store, path, AnswerPage[DoubtedObject], path_prefix=above, level=level)
        return _below(target, given)

    @exchange
    def page(
        self, under: str = ROOT, *, level: Level | None = None, after: str = "", limit: int | None = 100
    ) -> HttpExchange[ListPage[DoubtedMemory, str]]:
        """Return one page of the memories that `doubted` returns. A page has at most 100 memories."""
        check_level(level)
        if limit is not None and limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        target = objects.parsed(under)
        if level == TRUSTED:
            return ListPage(())
        query = {"path_prefix": _above(target), "level": level, "limit": min(limit or 100, 100), "page": after or None}
        found = yield from get(self._store, AnswerPage[DoubtedObject], "/doubted_memories", query)
        return ListPage(tuple(_below(target, found.data)), found.next_page)

    @exchange
    def contributors(self, recorded: Version | Memory) -> HttpExchange[Sequence[Contributor]]:
        """Return all contributors to the text of a version or memory, the newest last."""
        version_id = recorded.id if isinstance(recorded, Version) else recorded.version_id
        path = f"/memory_versions/{segment(version_id)}"
        found = yield from get(self._store, VersionObject, path, {"view": "basic"})
        return found.version().provenance.contributors

    @exchange
    def levels(self, versions: Iterable[Version]) -> HttpExchange[list[Level]]:
        """Return the trust level of the author of each version.

        Earlier contributors to the text do not count.
        """
        levels = Levels((yield from get(self._store, SettingsObject, "/settings")).value())
        return [levels.of(author_of(each)) for each in versions]

    @exchange
    def confirm(self, path: str, *, actor: Actor | str | None = None) -> HttpExchange[list[str]]:
        """Record that a person trusts the current text of a memory, or of all memories below a directory.

        Return the paths of these memories.
        """
        target = objects.parsed(path)
        try:
            body = {"path": objects.api_path(target)}
            found = yield from post(self._store, ConfirmationResult, "/trust/confirm", body, actor)
        except NotFound:
            raise NotFound(f"there is no memory at {target.written}") from None
        return list(map(tool_path, found.paths))

    @exchange
    def quarantine(self, pattern: str, *, actor: Actor | str | None = None) -> HttpExchange[bool]:
        """Hide all memories with a contributor that matches a pattern.

        A contributor is an actor, a session or a source. Returns False if the pattern was already in quarantine.
        """
        body = {"pattern": check_trust_pattern(pattern)}
        return (yield from post(self._store, QuarantineResult, "/trust/quarantine", body, actor)).changed

    @exchange
    def release(self, pattern: str, *, actor: Actor | str | None = None) -> HttpExchange[bool]:
        """End the quarantine of a pattern. Returns False if the pattern was not in quarantine."""
        body = {"pattern": check_trust_pattern(pattern)}
        return (yield from post(self._store, QuarantineResult, "/trust/release", body, actor)).changed


def _above(target: MemoryPath) -> str:
    return "/" if target.is_root else objects.api_path(target).rpartition("/")[0] + "/"


def _below(target: MemoryPath, given: Iterable[DoubtedObject]) -> list[DoubtedMemory]:
    """Return only the memories at or below a path. This is needed because the route can select only by directory."""
    found = (each.doubted() for each in given)
    return [each for each in found if each.path == target.text or each.path.startswith(f"{target.text}/")]
