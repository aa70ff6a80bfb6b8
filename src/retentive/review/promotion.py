"""Promotes memories: proposes them to another memory store, with their history, which acceptance records there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import entry_at, require_free
from retentive.engine.operation import REFUSALS, Plan, Read, Write
from retentive.engine.pending import Pending
from retentive.engine.visibility import Assessment, assessed, contributors_of
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
    as_actor,
    to_datetime,
)
from retentive.values.paths import MemoryPath
from retentive.values.provenance import CARRIED, NOTHING
from retentive.values.records import EPOCH, By, to_us
from retentive.values.text import decoded

MAX_MEMORIES, MAX_VERSIONS, MAX_BYTES = 1_000, 5_000, 8 * 1024 * 1024  # in one promotion
_NOW = datetime.max.replace(tzinfo=UTC)  # the road lowers the time of a version to that at which it is recorded


@dataclass(frozen=True, slots=True)
class Promoted:
    """Result of a promotion: the proposal in the target, its path there, and the memories and versions in it."""

    proposal_id: str
    path: str
    memories: int
    versions: int


class PastVersion(NamedTuple):
    """Version of a memory, as a promotion carries it. `actor` may be empty; `at` is in microseconds since 1970."""

    actor: str
    at: int
    provenance_text: str
    text: str


Histories: TypeAlias = Mapping[str, Sequence[PastVersion]]
"""Versions of memories, newest first, by the path of the memory in the source."""


def promote(
    core: StoreCore,
    path: MemoryPath,
    target: StoreCore,
    new_path: MemoryPath,
    /,
    **by: Unpack[By],
) -> Promoted:
    """Propose the memories at or below `path` of one memory store for `new_path` of another."""
    actor = as_actor(by.get("actor"))
    try:
        carried: Histories | Exception = core.result_of(_histories(core, path, actor or core.actor), actor)
    except REFUSALS as error:  # a repeated call has its first result, also if the memories are gone or grew meanwhile
        carried = error

    def work(view: Snapshot, guard: Guard) -> Plan[Promoted]:
        if isinstance(carried, Exception):
            raise carried
        return _proposed(view, guard, carried, path, new_path)

    proposing = Write(
        "promote",
        work,
        new_path,
        facts=lambda made: {"proposals": [made.proposal_id]},
        facts_kept=lambda made, _: {"made": [made.value().proposal_id, made.value().memories, made.value().versions]},
        rebuilt=lambda facts, _: Promoted(facts["made"][0], new_path.text, *facts["made"][1:]),
        under_review="always",
        allowed_when_archived=False,
        needs_external_edits=True,
        for_paths=True,
    )
    return target.result_of(proposing, **by)


def _histories(core: StoreCore, path: MemoryPath, actor: Actor | None) -> Read[Histories]:
    """Read the versions of the memories at or below a path, without those that are hidden or redacted."""

    def work(snapshot: Snapshot) -> Histories:
        settings, memory = core.settings_of(snapshot), entry_at(snapshot, path).memory
        hiding = assessed(snapshot, settings, actor, core.hides)
        found = [memory] if memory is not None else [each for each, _ in snapshot.list(path.text)]
        shown = [each for each in found if hiding is None or hiding.shows(each)]
        if not shown:
            raise NotFound(f"there is no memory at or below {path.written}")
        if len(shown) > MAX_MEMORIES or sum(each.size_bytes for each in shown) > MAX_BYTES:
            limits = f"{MAX_MEMORIES:,} memories with {MAX_BYTES // 1024**2} MiB of text"
            raise InvalidInput(f"a promotion can have at most {limits}; promote smaller directories")
        return {each.path: list(_past(snapshot, each, hiding, share=len(shown))) for each in shown}

    return Read("promote.read", work, path, needs_external_edits=True, sees_all=True)


def _past(snapshot: Snapshot, memory: Memory, hiding: Assessment | None, *, share: int) -> Iterator[PastVersion]:
    """Yield the newest versions of one of `share` memories, which share the limits equally."""
    size = 0
    for version in snapshot.versions(memory_id=memory.id, limit=MAX_VERSIONS // share):
        is_shown = version.redacted_at is None and (hiding is None or hiding.shows(version))
        if not is_shown or version.operation == "deleted":
            continue
        size += version.size_bytes or 0
        if size > MAX_BYTES // share and version.id != memory.version_id:
            return
        made = {} if version.provenance is NOTHING else json.loads(version.provenance_text or "{}")
        by = contributors_of(snapshot, version.provenance)  # also those in records of the source
        made |= {"by": by, "older": "", "cause": CARRIED}
        text = decoded(snapshot.version(version.id)[1])
        yield PastVersion(str(version.actor or ""), to_us(version.created_at), json.dumps(made), text)


def _proposed(
    view: Snapshot, guard: Guard, carried: Histories, source: MemoryPath, target: MemoryPath
) -> Plan[Promoted]:
    """Decide on the newest texts, and keep the versions that the target may have. Raises `Refused`."""
    guard.cause = guard.shown(f"promotion of {source.text}")
    after, kept = Pending(view), list[list[PastVersion]]()
    for path, past in carried.items():
        place = MemoryPath.parse(target.text + path.removeprefix(source.text))
        guard.check_name(place)
        guard.check(place)
        entry = entry_at(after, place)
        require_free(after, place, entry)
        after.add(guard.put(after, entry, place, past[0].text, lineage=[past[0].provenance_text]).changes)
        kept.append(list(_allowed(guard, place, reversed(past))))

    def afterwards(_: Snapshot, recorded: Sequence[Recorded]) -> Plan[Promoted]:
        keys = [each.version_id for each in recorded]
        records = [(PAST, key, json.dumps(past, ensure_ascii=False)) for key, past in zip(keys, kept, strict=True)]
        made = Promoted(keys[0].rpartition(".")[0], target.text, len(kept), sum(map(len, kept)))
        return Plan(made, records=records)

    return Plan(Promoted("", "", 0, 0), after.changes, afterwards=afterwards)


def _allowed(guard: Guard, place: MemoryPath, past: Iterator[PastVersion]) -> Iterator[PastVersion]:
    """Yield the versions that the guards of the target allow, masked if need be."""
    for each in past:
        text = guard.text_kept(place, each.text)
        if text is not None:
            yield each._replace(text=text)


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
            past = iter([PastVersion(*each) for each in json.loads(text)])
        except (ValueError, TypeError):
            raise Damaged("the history of a proposed memory cannot be decoded") from None
        own = PastVersion(str(proposal.actor or ""), to_us(_NOW), change.provenance_text or "", change.data.decode())
        allowed = _allowed(guard, MemoryPath.known(change.path), past)
        before = Memory(again.id, change.path, 0, "", "", EPOCH, EPOCH)  # the road looks it up
        for number, each in enumerate((*allowed, own)):
            actor, at = as_actor(each.actor or None), to_datetime(each.at)
            what: Operation = "modified" if number else "created"
            version = Version("", again.id, what, change.path, None, None, actor, at, 0, provenance_text=each[2])
            yield Imported(version, before if number else None, each.text.encode())
