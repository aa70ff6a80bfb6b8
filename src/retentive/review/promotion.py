"""Promotes memories: proposes them to another memory store, with their history, which acceptance records there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import require_free
from retentive.engine.operation import Outcome, Plan, Read, WriteOperation
from retentive.engine.pending import Pending
from retentive.engine.visibility import Assessment, contributors_of, is_used
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.review.proposals import PAST, Proposal, text_key
from retentive.storage.contract import (
    Actor,
    Change,
    Created,
    Imported,
    Memory,
    Operation,
    Recorded,
    Snapshot,
    Version,
    to_datetime,
)
from retentive.values.paths import MemoryPath
from retentive.values.provenance import CARRIED, Origin
from retentive.values.records import EPOCH, NOW, to_us
from retentive.values.text import decoded

MAX_MEMORIES, MAX_VERSIONS, MAX_BYTES = 1_000, 1_000, 4 * 1024 * 1024  # versions and bytes of their texts: of a memory


@dataclass(frozen=True, slots=True)
class Promoted:
    """Result of a promotion: the proposal in the target, its path there, and the memories and versions in it."""

    proposal_id: str
    path: str
    memories: int
    versions: int


@dataclass(frozen=True, slots=True)
class PastVersion:
    """Earlier version of a memory, as a promotion carries it. `at` is in microseconds since 1970."""

    actor: str | None
    at: int
    provenance_text: str | None
    text: str


def promote(
    core: StoreCore,
    path: MemoryPath,
    target: StoreCore,
    new_path: MemoryPath,
    /,
    *,
    actor: Actor | str | None = None,
    **origin: Unpack[Origin],
) -> Promoted:
    """Propose the memories at or below `path` of one memory store for `new_path` of another."""
    now = to_datetime(int(target.clock() * 1e6))
    carried = core.result_of(_histories(core, path, core.invocation(actor).actor or core.actor), actor)
    return target.result_of(Promote(new_path, path, carried, now), actor, **origin)


def _histories(core: StoreCore, path: MemoryPath, actor: Actor | None) -> Read[dict[str, list[PastVersion]]]:
    """Read the versions of the memories at or below a path, newest first, by path. Those hidden or redacted are not."""

    def work(snapshot: Snapshot) -> dict[str, list[PastVersion]]:
        settings, memory = core.settings_of(snapshot), None if path.is_root else snapshot.get(path.text).memory
        assessed = Assessment(snapshot, settings, actor) if is_used(settings) else None
        found = [memory] if memory is not None else [each for each, _ in snapshot.list(path.text)]
        shown = [each for each in found if assessed is None or assessed.shows(each)]
        if not shown:
            raise NotFound(f"there is no memory at or below {path.written}")
        if len(shown) > MAX_MEMORIES:
            raise InvalidInput(f"a promotion can have at most {MAX_MEMORIES} memories; promote smaller directories")
        return {each.path: list(_past(snapshot, each, assessed)) for each in shown}

    return Read("promote.read", work, path, needs_external_edits=True, sees_all=True)


def _past(snapshot: Snapshot, memory: Memory, assessed: Assessment | None) -> Iterator[PastVersion]:
    size = 0
    for version in snapshot.versions(memory_id=memory.id, limit=MAX_VERSIONS):
        is_shown = version.redacted_at is None and (assessed is None or assessed.shows(version))
        if not is_shown or version.operation == "deleted":
            continue
        size += version.size_bytes or 0
        if size > MAX_BYTES and version.id != memory.version_id:
            return
        by = contributors_of(snapshot, version.provenance)
        made = {
            **_parsed(version.provenance_text),
            "by": by,
            "older": "",
            "cause": CARRIED,
        }  # those in records of the source are named
        yield PastVersion(
            _name(version.actor), to_us(version.created_at), json.dumps(made), decoded(snapshot.version(version.id)[1])
        )


def _parsed(provenance_text: str | None) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(provenance_text or "{}")
        return found if isinstance(found, dict) else {}
    return {}


@dataclass(frozen=True, slots=True)
class Promote(WriteOperation[Promoted]):
    """Propose memories with their history. `carried` has their versions, newest first, by the path in the source."""

    name = "promote"
    for_paths = True
    needs_external_edits = True
    always_waits = True
    path: MemoryPath
    source: MemoryPath
    carried: Mapping[str, Sequence[PastVersion]]
    at: datetime

    def facts(self, result: Promoted) -> Mapping[str, object]:
        """Return the id of the proposal."""
        return {"proposals": [result.proposal_id]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the fields of the result."""
        made = outcome.value()
        return {"made": [made.proposal_id, made.path, made.memories, made.versions]}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> Promoted:
        """Return the result of the first attempt."""
        return Promoted(*facts["made"])

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Promoted]:
        """Decide on the newest texts, and keep the versions that the target may have. Raises `Refused`."""
        guard.cause = guard.shown(f"promotion of {self.source.text}")
        after, kept = Pending(view), list[list[PastVersion]]()
        for path, past in self.carried.items():
            place = MemoryPath.parse(self.path.text + path.removeprefix(self.source.text))
            guard.check_name(place)
            guard.check(place)
            entry = after.get(place.text)
            require_free(after, place, entry)
            after.add(guard.put(after, entry, place, past[0].text, lineage=[past[0].provenance_text]).changes)
            kept.append(list(self._kept(guard, place, past))[::-1])

        def afterwards(_: Snapshot, recorded: Sequence[Recorded]) -> Plan[Promoted]:
            keys = [each.version_id for each in recorded]
            records = [
                (PAST, key, json.dumps([[one.actor, one.at, one.provenance_text, one.text] for one in past]))
                for key, past in zip(keys, kept, strict=True)
            ]
            counts = len(keys), sum(map(len, kept))
            return Plan(Promoted(keys[0].rpartition(".")[0], self.path.text, *counts), records=records)

        result = Promoted("", self.path.text, len(kept), sum(map(len, kept)))
        return Plan(result, after.changes, afterwards=afterwards)

    def _kept(self, guard: Guard, place: MemoryPath, past: Sequence[PastVersion]) -> Iterator[PastVersion]:
        """Yield the versions that the retention and the guards of the target allow, newest first, masked if need be."""
        settings = guard.settings
        horizon = to_us(self.at - timedelta(days=min(settings.keep_versions_days, 36_500)))
        for number, each in enumerate(past):
            is_recent = not settings.keep_versions_days or number == 0 or past[number - 1].at >= horizon
            text = guard.text_kept(place, each.text)
            if text is not None and (is_recent or number < settings.keep_versions):
                yield PastVersion(each.actor, each.at, each.provenance_text, text)


def with_past(view: Snapshot, guard: Guard, proposal: Proposal, changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the accepted changes of a proposal. One that creates a promoted memory follows the versions of its past.

    The guards check these once more, and the road numbers them when it records them. Raises `Damaged`.
    """
    keys = {each.memory_id: text_key(proposal.id, number) for number, each in enumerate(proposal.changes)}
    for change in changes:
        again = change.again if isinstance(change, Created) else None
        text = None if again is None else view.get_record(PAST, keys.get(again.id, ""))
        if not isinstance(change, Created) or again is None or text is None:
            yield change
            continue
        try:
            past = [PastVersion(*each) for each in json.loads(text)]
        except (ValueError, TypeError):
            raise Damaged("the history of a proposed memory cannot be decoded") from None
        place = MemoryPath.known(change.path)
        allowed = ((each, guard.text_kept(place, each.text)) for each in past)
        past = [replace(each, text=text) for each, text in allowed if text is not None]
        before = Memory(again.id, change.path, 0, "", "", EPOCH, EPOCH)  # the road looks it up
        past.append(PastVersion(_name(proposal.actor), to_us(NOW), change.provenance_text, change.data.decode()))
        for number, each in enumerate(past):
            actor, at = None if each.actor is None else Actor.parse(each.actor), to_datetime(each.at)
            what: Operation = "modified" if number else "created"
            version = Version("", again.id, what, change.path, None, None, actor, at, 0)
            version = replace(version, provenance_text=each.provenance_text)
            yield Imported(version, before if number else None, each.text.encode())


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
