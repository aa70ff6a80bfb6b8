"""Audit log of a memory store on a server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, cast

from retentive.audit.chain import AuditEntry, Head, parsed
from retentive.audit.reader import Audit
from retentive.audit.verify import Problem, ProblemKind, Verified
from retentive.errors import Unavailable
from retentive.remote import objects
from retentive.remote.methods import RemotePart, exchange, get, no_route, unsupported
from retentive.remote.requests import HttpExchange, HttpRequest, segment
from retentive.wire.administration import AuditReport
from retentive.wire.versions import VersionObject

if TYPE_CHECKING:
    pass


class RemoteAudit(RemotePart, Audit):
    """Audit log over HTTP. It has no anchors, because anchors need direct access to the storage."""

    @exchange
    def entries(self, since: datetime | None = None) -> HttpExchange[Iterator[AuditEntry]]:
        """Return the audit entries, oldest first. With `since`, return only entries since that time."""
        return iter([entry for _, entry in (yield from self._exported(since))])

    @exchange
    def export(self, since: datetime | None = None) -> HttpExchange[Iterator[str]]:
        """Return the audit entries as lines of JSON, unchanged. With `since`, return only entries since that time."""
        return iter([stored for stored, _ in (yield from self._exported(since))])

    def _exported(self, since: datetime | None) -> HttpExchange[list[tuple[str, AuditEntry]]]:
        with tempfile.TemporaryFile() as sink:
            query = {"since": objects.time_text(since)}
            yield HttpRequest("GET", f"{self._store.base}/audit/export", query, sink=sink)
            sink.seek(0)
            return [_entry(line) for line in sink]

    @exchange
    def verify(
        self, *, expect: Iterable[Head | str] = (), anchor: str | None = None, key: str | None = None
    ) -> HttpExchange[Verified]:
        """Let the server verify that every entry is present, unchanged and in order."""
        if anchor is not None or key is not None:
            raise no_route("`audit.verify` with an anchor")
        heads = [str(Head.parse(each) if isinstance(each, str) else each) for each in expect]
        query = {"expect": ",".join(heads) or None}
        found = yield from get(self._store, AuditReport, "/audit/verify", query)
        unaudited = []
        for version_id in found.unaudited_memory_version_ids:
            path = f"/memory_versions/{segment(version_id)}"
            unaudited.append((yield from get(self._store, VersionObject, path, {"view": "basic"})).version())
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
