"""Parts of a memory store on a server: proposals, trust, memories by their ids, and the audit log."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Unpack, cast

from retentive.audit import chain
from retentive.audit.chain import AuditEntry, Head
from retentive.audit.reader import Audit, Problem, ProblemKind, Verified
from retentive.engine.visibility import Level, author_of, check_level, trust_levels
from retentive.errors import InvalidInput, NotFound, Unavailable
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
from retentive.store.by_id import ById
from retentive.values.listing import ListPage
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor, Origin, origin_of
from retentive.values.records import Memory, Version, Written, as_actor
from retentive.wire.administration import AuditReport, SettingsObject
from retentive.wire.base import Answer, AnswerPage
from retentive.wire.memories import MemoryDeleted, MemoryObject
from retentive.wire.review import ConfirmationResult, DecisionObject, DoubtedObject, ProposalObject, QuarantineResult


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
        return _below(under, await self._store.pages(AnswerPage[DoubtedObject], "/doubted_memories", query))

    @like(Trust.page)
    async def page(
        self, under: str, level: Level | None, after: str, limit: int | None
    ) -> ListPage[DoubtedMemory, str]:
        check_level(level)
        if limit is not None and limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        query = {"path_prefix": above(under), "level": level, "limit": min(limit or 100, 100), "page": after or None}
        found = await self._store.get(AnswerPage[DoubtedObject], "/doubted_memories", query)
        return ListPage(tuple(_below(under, found.data)), found.next_page)

    @like(Trust.contributors)
    async def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        version_id = recorded.id if isinstance(recorded, Version) else recorded.version_id
        return (await self._store.version(version_id)).provenance.contributors

    @like(Trust.levels)
    async def levels(self, versions: Iterable[Version]) -> list[Level]:
        level_of = trust_levels((await self._store.get(SettingsObject, "/settings")).value())
        return [level_of(author_of(each)) for each in versions]

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


class RemoteById(RemotePart, ById):
    """Access by id over HTTP. The server refuses a text with sensitive values; a local store may redact them."""

    async def _found(self, memory_id: str) -> MemoryObject:
        try:
            return await self._store.get(MemoryObject, f"/memories/{segment(memory_id)}")
        except NotFound:
            raise NotFound(f"there is no memory {memory_id}") from None

    @like(ById.get)
    async def get(self, memory_id: str) -> tuple[Memory, str]:
        found = await self._found(memory_id)
        return found.value(), found.content or ""

    @like(ById.update)
    async def update(
        self, memory_id: str, text: str | None, path: str | None, if_sha256: str | None, actor: Who,
        **origin: Unpack[Origin],
    ) -> Written:  # fmt: skip
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        before = await self._found(memory_id)
        condition = None if if_sha256 is None else {"type": "content_sha256", "content_sha256": if_sha256}
        target = None if path is None else sent_path(path)
        body = {"content": text, "path": target, "precondition": condition, **origin_of(**origin)}
        answer = await self._store.post(MemoryObject, f"/memories/{segment(memory_id)}", body, actor)
        found, is_changed = answer.value(), answer.memory_version_id != before.memory_version_id
        return Written(found.path, found.version_id, int(is_changed), memory_id=found.id, memory=found)

    @like(ById.delete)
    async def delete(self, memory_id: str, if_sha256: str | None, actor: Who, **origin: Unpack[Origin]) -> Written:
        found = (await self._found(memory_id)).value()
        query = {"expected_content_sha256": if_sha256, **origin_of(**origin)}
        await self._store.call(MemoryDeleted, "DELETE", f"/memories/{segment(memory_id)}", actor, query=query)
        return Written(found.path, found.version_id, 1, memory_id=found.id, memory=found)


class RemoteAudit(RemotePart, Audit):
    """Audit log over HTTP. It has no anchors, because anchors need direct access to the storage."""

    @like(Audit.entries)
    async def entries(self, since: datetime | None) -> Iterator[AuditEntry]:
        return iter([entry for _, entry in await self._exported(since)])

    @like(Audit.export)
    async def export(self, since: datetime | None) -> Iterator[str]:
        return iter([stored for stored, _ in await self._exported(since)])

    async def _exported(self, since: datetime | None) -> list[tuple[str, AuditEntry]]:
        with tempfile.TemporaryFile() as sink:
            await self._store.call(Answer, "GET", "/audit/export", query={"since": since}, sink=sink)
            sink.seek(0)
            return [_entry(line) for line in sink]

    @like(Audit.verify)
    async def verify(self, expect: Iterable[Head | str], anchor: str | None, key: str | None) -> Verified:
        if anchor is not None or key is not None:
            raise no_route("`audit.verify` with an anchor")
        heads = [str(Head.parse(each) if isinstance(each, str) else each) for each in expect]
        found = await self._store.get(AuditReport, "/audit/verify", {"expect": ",".join(heads) or None})
        unaudited = [await self._store.version(each) for each in found.unaudited_memory_version_ids]
        head = None if found.head is None else Head.parse(found.head)
        return Verified(found.entries, _problem(found.problem), head, tuple(unaudited))

    anchor = unsupported("audit.anchor")


def _entry(line: bytes) -> tuple[str, AuditEntry]:
    given = json.loads(line)
    paths = "" if given["paths"] is None else json.dumps({"paths": given["paths"]})
    entry = chain.parsed(f"{given['stored']}\n{paths}")
    if entry is None:
        raise Unavailable("the server answered with an entry of the audit log that cannot be parsed")
    return given["stored"], entry


def _problem(text: str | None) -> Problem | None:
    """Return the problem that a text such as `entry 3: altered` describes."""
    if text is None:
        return None
    number, _, what = text.removeprefix("entry ").partition(": ")
    return Problem(cast("ProblemKind", what), int(number))
