"""Checks the records of a memory store.

The value of each record must be valid. For each proposal, the records with its texts must exist. For each record with
the text of a proposal, the proposal must exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from retentive.engine.events import EVENT, parsed, parsed_head
from retentive.engine.events import HEAD as EVENT_HEAD
from retentive.engine.idempotency import KIND as REPEAT
from retentive.engine.listings import HISTORY
from retentive.engine.trust.overlay import CONFIRMED
from retentive.errors import Damaged
from retentive.history.clocks import CLOCK, Sighting
from retentive.history.expiry import SWEPT
from retentive.history.removal import ERASING, PENDING, TOMBSTONE
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    PROPOSAL,
    REVIEWED,
    parsed_decision,
    parsed_proposal,
    text_records,
)
from retentive.storage.contract import Actor, Snapshot
from retentive.values.records import TRANSCRIPT, TRANSCRIPT_PART

Reader: TypeAlias = Callable[[str], object]
"""Function that parses the value of a record. It raises one of `_ERRORS` for a damaged value."""
_ERRORS = (Damaged, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_TEXTS = (AFTER, BEFORE)


def _object(**fields: Callable[[Any], object]) -> Reader:
    """Return a parser of a JSON object that has at least these fields."""

    def read(value: str) -> dict[str, Any]:
        found = json.loads(value)
        if not isinstance(found, dict):
            raise TypeError("not an object")
        for name, parse in fields.items():
            parse(found[name])
        return found

    return read


def _lines(value: str) -> None:
    for line in value.splitlines():
        _object()(line)


def _actor(name: str | None) -> None:
    if name is not None:
        Actor.parse(name)


READERS: Mapping[str, Reader] = {
    "audit": str,  # `audit.verify` checks the contents of audit entries
    "audit.head": str,
    CLOCK: Sighting.parse,
    CONFIRMED: _object(marks=list, by=_actor, at=float),
    EVENT: parsed,
    EVENT_HEAD: parsed_head,
    "place": str,
    ERASING: _object(by=_actor),
    HISTORY: int,
    PENDING: float,
    PROPOSAL: partial(parsed_proposal, ""),
    AFTER: str,
    BEFORE: str,
    REPEAT: _object(time=float),
    REVIEWED: partial(parsed_decision, ""),
    SWEPT: float,
    TOMBSTONE: _object(at=float, by=_actor),
    TRANSCRIPT: _object(project_key=str, session_id=str, parts=int, mtime=int),
    TRANSCRIPT_PART: _lines,
}
"""Function that parses the value of a record, for each kind of record."""


def can_be_read(read: Reader, value: str) -> bool:
    """Return whether a parser accepts the value of a record."""
    try:
        read(value)
    except _ERRORS:
        return False
    return True


def check_records(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the code and the subject of each finding. The subject is the kind and the key of the record."""
    missing: set[tuple[str, str]] = set()
    for kind, read in READERS.items():
        for key, value in snapshot.records(kind):
            if not can_be_read(read, value):
                yield "record_wrong", f"{kind} {key}"
            elif kind == PROPOSAL:
                missing.update(text_records(parsed_proposal(key, value)))
            elif kind in _TEXTS and not _is_proposed(snapshot, kind, key, value):
                yield "record_wrong", f"{kind} {key}"
    missing -= {(kind, key) for kind in _TEXTS for key, _ in snapshot.records(kind)}
    yield from (("proposal_text_missing", f"{kind} {key}") for kind, key in sorted(missing))
    yield from (("proposal_text_left", f"{kind} {key}") for kind, key in orphaned_texts(snapshot))


def _is_proposed(snapshot: Snapshot, kind: str, key: str, text: str) -> bool:
    """Return whether the text of a proposal matches the hash in the proposal.

    Returns True if the proposal does not exist or cannot be parsed, because these problems are reported separately.
    """
    proposal_id, _, number = key.rpartition(".")
    proposal = snapshot.get_record(PROPOSAL, proposal_id)
    try:
        change = {} if proposal is None else json.loads(proposal)["changes"][int(number)]
        expected = change.get("sha256" if kind == AFTER else "base_sha256")
        return expected is None or hashlib.sha256(text.encode()).hexdigest() == expected
    except _ERRORS:
        return proposal is not None and not can_be_read(READERS[PROPOSAL], proposal)


def orphaned_texts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the records with texts of proposals that do not exist. A record is returned as its kind and key."""
    proposals = {key for key, _ in snapshot.records(PROPOSAL)}
    return [
        (kind, key) for kind in _TEXTS for key, _ in snapshot.records(kind) if key.rpartition(".")[0] not in proposals
    ]
