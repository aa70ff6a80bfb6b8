"""Checks of the records of a memory store: every value can be parsed, and no text lacks its proposal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from retentive.engine.idempotency import KIND as REPEAT
from retentive.history.expiry import HISTORY, SWEPT
from retentive.history.removal import ERASING, PENDING, TOMBSTONE
from retentive.review.proposals import AFTER, BEFORE, PROPOSAL, REVIEWED, text_key
from retentive.storage.contract import Actor, Snapshot, to_datetime

Texts = Mapping[tuple[str, str], object]


def _object(value: str) -> dict[str, Any]:
    found = json.loads(value)
    if not isinstance(found, dict):
        raise TypeError("not an object")
    return cast("dict[str, Any]", found)


def _actor(name: object) -> None:
    if name is not None:
        Actor.parse(cast("str", name))


def _tombstone(value: str) -> None:
    found = _object(value)
    float(found["at"])
    _actor(found["by"])


def _erasing(value: str) -> None:
    _actor(_object(value)["by"])


def _repeat(value: str) -> None:
    float(_object(value)["time"])


def _reviewed(value: str) -> None:
    found = _object(value)
    to_datetime(found["at"])
    _actor(found["actor"])
    _actor(found["by"])


def _proposal(value: str) -> list[dict[str, Any]]:
    """The changes of a proposal."""
    found = _object(value)
    to_datetime(found["at"])
    int(found["number"])
    _actor(found["actor"])
    for change in found["changes"]:
        to_datetime(change["born"])
        if not {"operation", "memory", "before", "path", "size", "sha256", "base_sha256"} <= change.keys():
            raise KeyError("a change without some of its fields")
    return cast("list[dict[str, Any]]", found["changes"])


def _audit_text(value: str) -> str:
    """A record of the audit log, which `audit.verify` checks."""
    return value


READERS: Mapping[str, Callable[[str], object]] = {
    "audit": _audit_text,
    "audit.detail": _audit_text,
    "audit.head": _audit_text,
    ERASING: _erasing,
    HISTORY: int,
    PENDING: float,
    PROPOSAL: _proposal,
    AFTER: str,
    BEFORE: str,
    REPEAT: _repeat,
    REVIEWED: _reviewed,
    SWEPT: float,
    TOMBSTONE: _tombstone,
}
"""Parser of the records of each kind; raises one of `_ERRORS`."""
_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_TEXTS = (AFTER, BEFORE)


def check_records(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Code and subject of the findings about the records of a store."""
    texts: dict[tuple[str, str], None] = {}
    for kind, read in READERS.items():
        for key, value in snapshot.records(kind):
            try:
                parsed = read(value)
            except _ERRORS:
                yield "record_wrong", f"{kind} {key}"
                continue
            if kind == PROPOSAL:
                texts |= _texts_of(key, cast("list[dict[str, Any]]", parsed))
    present = {(kind, key): None for kind in _TEXTS for key, _ in snapshot.records(kind)}
    yield from (("proposal_text_missing", f"{kind} {key}") for kind, key in texts.keys() - present.keys())
    yield from (("proposal_text_left", f"{kind} {key}") for kind, key in orphaned_texts(snapshot))


def orphaned_texts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Kinds and keys of texts whose proposal does not exist."""
    proposals = {key for key, _ in snapshot.records(PROPOSAL)}
    return [
        (kind, key) for kind in _TEXTS for key, _ in snapshot.records(kind) if key.rpartition(".")[0] not in proposals
    ]


def _texts_of(proposal_id: str, changes: list[dict[str, Any]]) -> dict[tuple[str, str], None]:
    """Kinds and keys of the texts of a proposal."""
    found: dict[tuple[str, str], None] = {}
    for number, change in enumerate(changes):
        if change["operation"] in {"created", "modified"}:
            found[AFTER, text_key(proposal_id, number)] = None
        if change["operation"] == "modified":
            found[BEFORE, text_key(proposal_id, number)] = None
    return found
