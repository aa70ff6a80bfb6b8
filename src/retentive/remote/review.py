"""Proposals, and trust in memories, of a memory store on a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retentive.engine.trust import TRUSTED, Level, Levels, author_of, check_level
from retentive.errors import InvalidInput, NotFound
from retentive.history.plan import Mode
from retentive.remote.calls import (
    JsonFields,
    RemotePart,
    Who,
    above,
    like,
    no_route,
    parsed,
    segment,
    sent_path,
    unsupported,
)
from retentive.remote.client import Conflicts
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange
from retentive.review.session import Review
from retentive.review.trust import DoubtedMemory, Trust
from retentive.storage.contract import Memory, Version
from retentive.values.listing import ListPage
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor
from retentive.values.records import as_actor
from retentive.wire.administration import SettingsObject
from retentive.wire.base import AnswerPage
from retentive.wire.review import DecisionObject, ProposalObject
from retentive.wire.trust import ConfirmationResult, DoubtedObject, QuarantineResult


class RemoteReview(RemotePart, Review):
    """Review over HTTP. One call can accept or refuse only one proposal, so the mode `partial` is `merge`."""

    @like(Review.pending)
    async def pending(self, actor: Who) -> list[Proposal]:
        who = as_actor(actor)
        query = {"actor": None if who is None else str(who)}
        found = await self._store.pages(AnswerPage[ProposalObject], "/proposals", query)
        return [each.value(number=number) for number, each in enumerate(found)]

    @like(Review.show)
    async def show(self, proposal_id: str) -> tuple[Proposal, list[tuple[ProposedChange, str | None, str | None]]]:
        try:
            found = await self._store.get(ProposalObject, f"/proposals/{segment(proposal_id)}")
        except NotFound:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review") from None
        proposal = found.value(number=0)
        return proposal, [
            (change, each.before, each.after) for change, each in zip(proposal.changes, found.changes, strict=True)
        ]

    @like(Review.accept)
    async def accept(self, ids: Iterable[str] | None, actor: Who, proposed_by: Who, mode: Mode) -> DecisionOutcome:
        body = {"merge": mode in {"merge", "partial"}, "force": mode == "force"}
        return await self._decided("accept", ids, actor, proposed_by, body)

    @like(Review.refuse)
    async def refuse(self, ids: Iterable[str] | None, actor: Who, proposed_by: Who) -> DecisionOutcome:
        return await self._decided("refuse", ids, actor, proposed_by)

    async def _decided(
        self, verb: str, ids: Iterable[str] | None, actor: Who, proposed_by: Who, body: JsonFields | None = None
    ) -> DecisionOutcome:
        chosen = [ids] if isinstance(ids, str) else [] if ids is None else list(dict.fromkeys(ids))
        if len(chosen) != 1 or proposed_by is not None:
            raise no_route(f"a call to {verb} several proposals")
        try:
            path = f"/proposals/{segment(chosen[0])}/{verb}"
            return (await self._store.post(DecisionObject, path, body, actor)).value()
        except Conflicts as error:
            return error.answer.decision()

    decisions = unsupported("review.decisions")


class RemoteTrust(RemotePart, Trust):
    """Trust over HTTP."""

    @like(Trust.doubted)
    async def doubted(self, under: str, level: Level | None) -> list[DoubtedMemory]:
        check_level(level)
        query = {"path_prefix": above(under), "level": level}
        if level == TRUSTED:
            return []
        return _below(under, await self._store.pages(AnswerPage[DoubtedObject], "/doubted_memories", query))

    @like(Trust.page)
    async def page(
        self, under: str, level: Level | None, after: str, limit: int | None
    ) -> ListPage[DoubtedMemory, str]:
        check_level(level)
        if limit is not None and limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        query = {"path_prefix": above(under), "level": level, "limit": min(limit or 100, 100), "page": after or None}
        if level == TRUSTED:
            return ListPage(())
        found = await self._store.get(AnswerPage[DoubtedObject], "/doubted_memories", query)
        return ListPage(tuple(_below(under, found.data)), found.next_page)

    @like(Trust.contributors)
    async def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        version_id = recorded.id if isinstance(recorded, Version) else recorded.version_id
        return (await self._store.version(version_id)).provenance.contributors

    @like(Trust.levels)
    async def levels(self, versions: Iterable[Version]) -> list[Level]:
        levels = Levels((await self._store.get(SettingsObject, "/settings")).value())
        return [levels.of(author_of(each)) for each in versions]

    @like(Trust.confirm)
    async def confirm(self, path: str, actor: Who) -> list[str]:
        try:
            found = await self._store.post(ConfirmationResult, "/trust/confirm", {"path": sent_path(path)}, actor)
        except NotFound:
            raise NotFound(f"there is no memory at {parsed(path).written}") from None
        return found.paths

    @like(Trust.quarantine)
    async def quarantine(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return (await self._store.post(QuarantineResult, "/trust/quarantine", body, actor)).changed

    @like(Trust.release)
    async def release(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return (await self._store.post(QuarantineResult, "/trust/release", body, actor)).changed


def _below(under: str, given: Iterable[DoubtedObject]) -> list[DoubtedMemory]:
    """Return only the memories at or below a path. This is needed because the route can select only by directory."""
    top = f"{parsed(under).text}/"
    return [found for each in given if f"{(found := each.value()).path}/".startswith(top)]
