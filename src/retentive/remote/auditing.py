"""Audit log of a memory store on a server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import cast

from retentive.audit.chain import AuditEntry, Head, parsed
from retentive.audit.reader import Audit
from retentive.audit.verify import Problem, ProblemKind, Verified
from retentive.errors import Unavailable
from retentive.remote.calls import RemotePart, like, no_route, unsupported
from retentive.wire.administration import AuditReport
from retentive.wire.base import Answer


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
    entry = parsed(f"{given['stored']}\n{paths}")
    if entry is None:
        raise Unavailable("the server answered with an entry of the audit log that cannot be parsed")
    return given["stored"], entry


def _problem(text: str | None) -> Problem | None:
    """Return the problem that a text such as `entry 3: altered` describes."""
    if text is None:
        return None
    number, _, what = text.removeprefix("entry ").partition(": ")
    return Problem(cast("ProblemKind", what), int(number))
