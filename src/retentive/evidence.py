"""Evidence of a session: what it read in which version, what it changed, and who reviewed it.

The sources are the audit log, the history and the proposals of memory stores. The form and its proof are in
docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from retentive import __version__
from retentive.audit.chain import ENTRY, FIRST, AuditEntry, parsed, version_hash, versions_in
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.review.proposals import decisions, pending
from retentive.storage.contract import Actor, Recorded, Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.records import name_of

EvidenceState: TypeAlias = Literal["kept", "proposed", "redacted", "removed", "altered", "missing"]
Decided: TypeAlias = Literal["waiting", "accepted", "refused", "unknown"]
_REMOVALS = ("redacted", "erased", "pruned_versions")  # fields of an entry that list removed versions
_DECISIONS = {"review.accept", "review.refuse"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceVersion:
    """Version that was read or recorded. The fields with `before` are those of the version of the memory before it.

    - `state`: `kept`; `proposed`: part of a proposal; `redacted` or `removed`, by the operation with the entry
      `removed_by`; `altered` or `missing`: not as the audit log says.
    """

    memory_id: str
    memory_version_id: str
    state: EvidenceState
    removed_by: int | None = None
    operation: str | None = None
    path: str | None = None
    actor: str | None = None
    time: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    version_before: str | None = None
    sha256_before: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceStep:
    """Operation that read or changed something. `entry` is the number of its entry in the audit log.

    A change without an entry, because the log was off, has the `entry` None. `paths` is None if the paths were removed
    from the log. `lines` has the lines below the entry, with paths and hashes.
    """

    entry: int | None = None
    time: str
    actor: str | None
    operation: str | None
    integration: str | None = None
    outcome: str = "ok"
    tool_use_id: str | None = None
    paths: Sequence[str] | None = ()
    listed: bool = False
    repeated: bool = False
    read: Sequence[EvidenceVersion] = ()
    changed: Sequence[EvidenceVersion] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReview:
    """Proposal, and the decision on it. `entry` is the number of the entry of the decision."""

    proposal_id: str
    decision: Decided
    by: str | None = None
    time: str | None = None
    entry: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvidence:
    """Evidence in one memory store. `findings` say what is not as it was written.

    `chain` has the stored entries from the first step to `head`, the newest one; `previous` is the hash before them.
    """

    memory_store_id: str
    key: str | None
    workspace_id: str
    is_audited: bool
    findings: Sequence[str]
    steps: Sequence[EvidenceStep]
    reviews: Sequence[EvidenceReview]
    head: str | None
    previous: str
    chain: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence of what a session did. `is_sound`: no store has findings."""

    made_at: str
    made_by: str
    session: str
    is_sound: bool
    stores: Sequence[StoreEvidence]


def gather(stores: Iterable[MemoryStore], session: str) -> Evidence:
    """Return evidence of a session from memory stores, which may be on a server.

    The session is that of the actor `session:NAME`, and of changes that name it. Stores without a trace of it are left
    out, unless their log was altered. Raises `NotFound` if none is left, and `InvalidInput` for an empty name.
    """
    session = session.removeprefix("session:")
    if not session:
        raise InvalidInput("evidence is of a session; name one")
    found = list[StoreEvidence]()
    for store in stores:
        ask = getattr(store, "evidence", None)  # it is on a server, a layer above this one
        found += _of_store(store, session) if ask is None else ask(session).stores
    if not found:
        raise NotFound("the audit log and the history have nothing of this session")
    return Evidence(
        made_at=_time(datetime.now(UTC)),
        made_by=f"retentive {__version__}",
        session=session,
        is_sound=not any(each.findings for each in found),
        stores=found,
    )


def _of_store(store: MemoryStore, session: str) -> list[StoreEvidence]:
    core = core_of(store)

    def work(snapshot: Snapshot) -> StoreEvidence:
        reader = _Reader(snapshot, session, is_audited=core.settings_of(snapshot).audit)
        steps, reviews, entries = reader.steps(), reader.reviews(), [*reader.entries.values()]
        first = min((each.entry for each in steps if each.entry is not None), default=len(entries) + 1)
        before = [entry for entry in entries if entry.seq < first]
        return StoreEvidence(
            memory_store_id=core.id,
            key=core.info.key,
            workspace_id=core.info.workspace_id,
            is_audited=reader.is_audited,
            findings=reader.findings,
            steps=steps,
            reviews=reviews,
            head=f"{entries[-1].seq}:{entries[-1].hash}" if entries else None,
            previous=before[-1].hash if before else FIRST,
            chain=[value.partition("\n")[0] for value in [*reader.entries][len(before) :]],
        )

    found, verified = core.read(work), store.audit.verify()
    changed = {each.memory_version_id for step in found.steps for each in step.changed}
    unlogged = [f"version without an entry: {each.id}" for each in verified.unaudited if each.id in changed]
    findings = [*dict.fromkeys([*map(str, verified.findings), *unlogged, *found.findings])]
    return [replace(found, findings=findings)] if found.steps or found.reviews or findings else []


class _Reader:
    """Reads the evidence in one state of a memory store, and notes what is not as the audit log says."""

    def __init__(self, snapshot: Snapshot, session: str, *, is_audited: bool) -> None:
        self._snapshot, self._session, self.is_audited = snapshot, session, is_audited
        self.entries, self.findings = dict[str, AuditEntry](), list[str]()
        with suppress(Damaged):  # the verification reports it
            for _, value in snapshot.records(ENTRY):
                if (entry := parsed(value)) is not None:
                    self.entries[value] = entry
        entries = self.entries.values()
        self._is_whole = is_audited and all(entry.audit is not False for entry in entries)
        self._versions, self._before, newest = dict[str, Version](), dict[str, Version](), dict[str, Version]()
        for version in reversed(list(all_versions(snapshot))):
            if version.memory_id in newest:
                self._before[version.id] = newest[version.memory_id]
            newest[version.memory_id] = self._versions[version.id] = version
        self._hashes = {id_: hash_ for entry in entries for id_, hash_ in (entry.hashes or {}).items()}
        lists = ((entry, entry.facts.get(name)) for entry in entries for name in _REMOVALS)
        self._removed = {str(id_): entry.seq for entry, ids in lists if isinstance(ids, list) for id_ in ids}
        self._logged = {each.version_id for entry in entries for each in entry.changes}
        own = (each for each in self._versions.values() if self._is_own(each.actor, each.provenance.session))
        self._own = {each.id for each in own}
        self._own |= {each.version_id for entry in entries if self._is_of(entry) for each in entry.changes}

    def _is_own(self, actor: Actor | str | None, session: object) -> bool:
        return session == self._session or str(actor) == f"session:{self._session}"

    def _is_of(self, entry: AuditEntry) -> bool:
        return self._is_own(entry.actor, entry.facts.get("session"))

    def steps(self) -> list[EvidenceStep]:
        """Return the operations of the session, and those that recorded its versions, oldest first."""
        found = [
            self._step(value, entry)
            for value, entry in self.entries.items()
            if self._is_of(entry) or any(each.version_id in self._own for each in entry.changes)
        ]
        for id_ in self._own - self._logged:
            version = self._versions[id_]
            time, actor, paths = _time(version.created_at), name_of(version.actor), (version.path,)
            changed = [self._facts(Recorded(version.memory_id, id_))]
            found.append(
                EvidenceStep(time=time, actor=actor, operation=version.operation, paths=paths, changed=changed)
            )
        return sorted(found, key=lambda step: (step.time, step.entry or 0))

    def _step(self, value: str, entry: AuditEntry) -> EvidenceStep:
        is_whole, tool_use_id = self._is_of(entry), entry.facts.get("tool_use_id")
        return EvidenceStep(
            entry=entry.seq,
            time=_time(entry.time),
            actor=entry.actor,
            operation=entry.operation,
            integration=entry.integration,
            outcome=entry.outcome,
            tool_use_id=None if tool_use_id is None else str(tool_use_id),
            paths=entry.paths,
            listed=entry.listed,
            repeated=entry.repeated,
            read=[self._facts(each) for each in versions_in(entry) if each not in entry.changes],
            changed=[self._facts(each) for each in entry.changes if is_whole or each.version_id in self._own],
            lines=value.split("\n")[1:],
        )

    def reviews(self) -> list[EvidenceReview]:
        """Return the proposals of the session, oldest first, with the decisions."""
        made = self._proposals()
        for entry in self.entries.values():
            if entry.operation in _DECISIONS and entry.outcome == "ok":
                ids = entry.facts.get("proposals")
                for id_ in made.keys() & set(ids if isinstance(ids, list) else ()):
                    decided = _review(id_, entry.operation == "review.accept", entry.actor, entry.time, entry.seq)
                    stored, made[id_] = made[id_], decided
                    if stored.by is not None and (stored.decision, stored.by) != (decided.decision, decided.by):
                        self.findings.append(f"decision altered: entry {entry.seq}")
        return [made[id_] for id_ in sorted(made)]

    def _proposals(self) -> dict[str, EvidenceReview]:
        """Return the proposals of the session by id, with the stored decisions."""
        made = dict[str, EvidenceReview]()
        for entry in self.entries.values():
            if entry.proposed and self._is_of(entry):
                ids = (each.version_id.partition(".")[0] for each in entry.changes)
                made |= {id_: EvidenceReview(proposal_id=id_, decision="unknown") for id_ in ids}
        for proposal in pending(self._snapshot):
            if proposal.id in made or self._is_own(proposal.actor, proposal.session):
                made[proposal.id] = EvidenceReview(proposal_id=proposal.id, decision="waiting")
        for each in decisions(self._snapshot):
            if each.proposal_id in made or self._is_own(each.actor, None):
                made[each.proposal_id] = _review(each.proposal_id, each.accepted, name_of(each.by), each.at)
        return made

    def _facts(self, named: Recorded) -> EvidenceVersion:
        """Return the facts of a version, and compare it with the log."""
        version, removed_by = self._versions.get(named.version_id), self._removed.get(named.version_id)
        state: EvidenceState = "kept"
        if named.version_id.startswith("prop_"):
            state = "proposed"
        elif version is None or version.redacted_at is not None:
            is_lost = removed_by is None and self._is_whole
            state = "missing" if is_lost else "removed" if version is None else "redacted"
        elif not self._is_right(version, named):
            state = "altered"
        if state in {"missing", "altered"}:
            self.findings.append(f"version {state}: {named.version_id}")
        memory_id, version_id = named
        found = EvidenceVersion(memory_id=memory_id, memory_version_id=version_id, state=state, removed_by=removed_by)
        return found if version is None or version.redacted_at is not None else replace(found, **self._row(version))

    def _row(self, version: Version) -> dict[str, Any]:
        before, origin = self._before.get(version.id), version.provenance
        if before is not None and not self._is_as_logged(before):
            self.findings.append(f"version altered: {before.id}")
        names = ("integration", "tool_use_id", "session", "source", "cause", "api_key_id")
        built_on = [each._asdict() for each in origin.contributors]
        return {
            **{name: getattr(version, name) for name in ("operation", "path", "size_bytes", "sha256")},
            "actor": name_of(version.actor),
            "time": _time(version.created_at),
            "version_before": None if before is None else before.id,
            "sha256_before": None if before is None else before.sha256,
            "provenance": {name: getattr(origin, name) for name in names} | {"contributors": built_on},
        }

    def _is_right(self, version: Version, named: Recorded) -> bool:
        """Return whether a version is the one that was recorded, with its text."""
        try:
            data = self._snapshot.version(version.id)[1]
            text = None if data is None else sha256(data).hexdigest()
        except (Damaged, NotFound, TypeError):  # SQLite returns values of a wrong type unchanged
            return False
        return text == version.sha256 and version.memory_id == named.memory_id and self._is_as_logged(version)

    def _is_as_logged(self, version: Version) -> bool:
        return self._hashes.get(version.id) in {None, version_hash(version)}


def _review(id_: str, is_accepted: bool, by: str | None, at: datetime, entry: int | None = None) -> EvidenceReview:
    decision: Decided = "accepted" if is_accepted else "refused"
    return EvidenceReview(proposal_id=id_, decision=decision, by=by, time=_time(at), entry=entry)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
