"""Storage of proposals: one record with the changes of a proposal, and one record for each text.

Texts are separate records, so that a command of an actor under review reads only the texts that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from retentive.errors import Damaged
from retentive.storage.contract import Actor, Snapshot, as_actor, to_datetime
from retentive.values.paths import ancestors, is_within
from retentive.values.provenance import parse_provenance
from retentive.values.records import PROPOSED_TEXT, name_of, to_us
from retentive.values.text import verified

PROPOSAL, AFTER, BEFORE, REVIEWED = "proposal", PROPOSED_TEXT, "proposal.before", "reviewed"
PAST = "proposal.past"
"""Record kinds. `PAST` has the history of a memory that is promoted. The key of a text is the proposal id, a dot, and
the number of the change in the proposal."""
MAX_DECISIONS = 1_000
RecordChange: TypeAlias = tuple[str, str, str | None]
"""Kind, key and new value of a record. The value None removes the record."""

ProposedOperation: TypeAlias = Literal["created", "modified", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One proposed change to one memory. `before` is the path before the change, and `path` is the path after it.

    A new memory already has the `memory_id` that it gets when the proposal is accepted. `sha256` and `size_bytes`
    describe the new text; they are None if the change has no text. `base_sha256` is the hash of the text before the
    change, or None for a new memory. `created_at` is the creation time of the memory. `provenance_text` is the stored
    provenance of the change.
    """

    operation: ProposedOperation
    memory_id: str
    before: str | None
    path: str | None
    size_bytes: int | None
    sha256: str | None
    base_sha256: str | None
    created_at: datetime
    provenance_text: str | None = None

    @property
    def has_text(self) -> bool:
        """True if the change has a new text."""
        return self.operation in {"created", "modified"}

    def __str__(self) -> str:
        if self.operation == "renamed":
            return f"renamed {self.before} to {self.path}"
        return f"{self.operation} {self.path or self.before}"


@dataclass(frozen=True, slots=True, repr=False)
class Proposal:
    """Changes that one command of an actor under review proposes. Proposals are ordered by `number`.

    `identities` are the names of who made it: the actor, the session, the API key, and the person whose key it is. None
    of them can accept the proposal.
    """

    id: str
    actor: Actor | None
    at: datetime
    changes: tuple[ProposedChange, ...]
    number: int
    identities: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Proposal {self.id} by {self.actor or 'nobody'}: {self.summary}>"

    def is_by(self, actor: Actor | None, session: str | None) -> bool:
        """Return whether an actor made the proposal, in a session. None means any."""
        return actor in {None, self.actor} and session in {None, self.session}

    @property
    def session(self) -> str:
        """Session in which the proposal was made; empty if it is not known."""
        named = parse_provenance(self.changes[0].provenance_text).session
        return named or (self.actor.id if self.actor is not None and self.actor.kind == "session" else "")

    @property
    def summary(self) -> str:
        """Short description of the changes."""
        if len(self.changes) == 1:
            return str(self.changes[0])
        kinds = dict.fromkeys(change.operation for change in self.changes)
        first = self.changes[0].before or self.changes[0].path
        return f"{' and '.join(kinds)} {len(self.changes)} memories, the first {first}"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Reason why a proposal cannot be accepted or refused. `text` explains it to people."""

    proposal_id: str
    path: str | None
    text: str


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Result of accepting or refusing proposals.

    If there are `obstacles`, nothing was changed or, with the mode `partial`, only the proposals in `done` were.

    Three fields list ids of proposals. `done`: selected proposals that this call accepted or refused. `already`:
    selected proposals that an earlier call accepted or refused. `with_them`: proposals that this call refused although
    they were not selected, because they build on a refused proposal. `summaries` maps the ids in `done` and `with_them`
    to short descriptions of the proposals.
    """

    done: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    with_them: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    summaries: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on a proposal. `actor` made the proposal, and `by` is the person who decided at the time `at`."""

    proposal_id: str
    accepted: bool
    actor: Actor | None
    by: Actor | None
    at: datetime


def text_key(proposal_id: str, number: int) -> str:
    """Return the record key for the texts of one change. `number` is the position of the change in the proposal."""
    return f"{proposal_id}.{number}"


def pending(snapshot: Snapshot) -> list[Proposal]:
    """Return all pending proposals of a store, in the order in which they were made."""
    found = (parsed_proposal(key, value) for key, value in snapshot.records(PROPOSAL))
    return sorted(found, key=lambda each: each.number)


def proposal_record(proposal: Proposal) -> RecordChange:
    """Return the record of a proposal, which has no texts."""
    changes = [asdict(change) | {"created_at": to_us(change.created_at)} for change in proposal.changes]
    facts = {"at": to_us(proposal.at), "number": proposal.number, "identities": sorted(proposal.identities)}
    value = {"actor": name_of(proposal.actor), **facts, "changes": changes}
    return PROPOSAL, proposal.id, json.dumps(value)


def without_proposal(proposal: Proposal) -> list[RecordChange]:
    """Return the changes of records that remove a proposal and its texts."""
    past = [(PAST, text_key(proposal.id, number), None) for number in range(len(proposal.changes))]
    return [(PROPOSAL, proposal.id, None), *((kind, key, None) for kind, key, _ in texts_of(proposal)), *past]


def texts_of(proposal: Proposal) -> Iterator[tuple[str, str, str | None]]:
    """Yield the kind and the key of each record that contains a text of the proposal, and the hash of the text."""
    for number, change in enumerate(proposal.changes):
        key = text_key(proposal.id, number)
        if change.has_text:
            yield AFTER, key, change.sha256
        if change.operation == "modified":
            yield BEFORE, key, change.base_sha256


def forget_proposals(
    view: Snapshot, bases: Collection[tuple[str, str | None]] = (), *, directory: str | None = None
) -> list[RecordChange]:
    """Return the changes of records that remove proposals after memories were redacted or erased.

    `bases` has pairs of the id of a memory and the hash of a text, or None. A proposal is removed if it changes this
    text of the memory (None: any text), if it names a path at or below `directory`, or if it builds on a removed one.
    """

    def is_concerned(change: ProposedChange) -> bool:
        if any(change.memory_id == memory_id and base in {None, change.base_sha256} for memory_id, base in bases):
            return True
        return directory is not None and any(is_within(path, directory) for path in (change.before, change.path))

    found = pending(view)
    below, gone = foundations(found), set[str]()
    for proposal in found:
        if gone & below[proposal.id] or any(map(is_concerned, proposal.changes)):
            gone.add(proposal.id)
    return [record for proposal in found if proposal.id in gone for record in without_proposal(proposal)]


def text_of(snapshot: Snapshot, kind: str, key: str, sha256: str | None) -> str:
    """Return the text in the record `key` of `kind`. Raises `Damaged` if it is missing or its hash is not `sha256`."""
    text = snapshot.get_record(kind, key)
    if text is None:
        raise Damaged("the text of a proposal is missing or does not match its hash")
    verified(text.encode(), sha256, None, key)
    return text


def closing(
    view: Snapshot, closed: Sequence[Proposal], *, is_accepted: bool, by: Actor | None, at: datetime
) -> list[RecordChange]:
    """Return the changes of records that remove proposals and keep the decisions on them, of all the newest 1,000."""
    records = [record for each in closed for record in without_proposal(each)]
    known, room = decisions(view) if closed else [], max(MAX_DECISIONS - len(closed), 0)
    records += [(REVIEWED, old.proposal_id, None) for old in known[room:]]
    for each in closed[-MAX_DECISIONS:]:
        value = {"accepted": is_accepted, "actor": name_of(each.actor), "by": name_of(by), "at": to_us(at)}
        records.append((REVIEWED, each.id, json.dumps(value)))
    return records


def decisions(snapshot: Snapshot) -> list[Decision]:
    """Return the stored decisions, newest first."""
    found = (parsed_decision(key, value) for key, value in snapshot.records(REVIEWED))
    return sorted(found, key=lambda each: (each.at, each.proposal_id), reverse=True)


def decision_on(snapshot: Snapshot, proposal_id: str) -> Decision | None:
    """Return the decision on a proposal, or None if no decision is stored."""
    value = snapshot.get_record(REVIEWED, proposal_id)
    return None if value is None else parsed_decision(proposal_id, value)


def foundations(proposals: Sequence[Proposal]) -> dict[str, set[str]]:
    """Return, for each pending proposal, the ids of the proposals on which it builds, directly or indirectly.

    A proposal builds on an earlier proposal by the same actor if both change the same memory, or if the earlier one
    frees a path that the later one uses.
    """
    found: dict[str, set[str]] = {}
    known: dict[tuple[Actor | None, str, str], str] = {}  # what the newest proposal so far establishes, and its id
    for proposal in proposals:
        who, below, given = proposal.actor, set[str](), list[tuple[str, str]]()
        for change in proposal.changes:
            needed = [("memory", change.memory_id)]
            given.append(("memory", change.memory_id))
            if change.operation in {"created", "renamed"} and change.path is not None:
                needed += [("no memory", place) for place in (change.path, *ancestors(change.path))]
                needed.append(("no directory", change.path))
            if change.operation in {"deleted", "renamed"} and change.before is not None:
                given.append(("no memory", change.before))
                given += [("no directory", place) for place in ancestors(change.before)]
            below |= {known[who, *each] for each in needed if (who, *each) in known}
        known |= {(who, *each): proposal.id for each in given}
        found[proposal.id] = below.union(*(found[each] for each in below))
    return found


def parsed_proposal(key: str, value: str) -> Proposal:
    """Parse the record of a proposal. Raises `Damaged`."""
    try:
        found = cast("dict[str, Any]", json.loads(value))
        changes = tuple(
            ProposedChange(**(each | {"created_at": to_datetime(each["created_at"])})) for each in found["changes"]
        )
        number, identities = int(found["number"]), frozenset(found["identities"])
        return Proposal(key, as_actor(found["actor"]), to_datetime(found["at"]), changes, number, identities)
    except (ValueError, KeyError, TypeError):
        raise Damaged("the record of a proposal cannot be decoded") from None


def parsed_decision(key: str, value: str) -> Decision:
    """Parse the record of a decision. Raises `Damaged`."""
    try:
        found = cast("dict[str, Any]", json.loads(value))
        names = as_actor(found["actor"]), as_actor(found["by"])
        return Decision(key, bool(found["accepted"]), *names, to_datetime(found["at"]))
    except (ValueError, KeyError, TypeError):
        raise Damaged("the record of a review decision cannot be decoded") from None
