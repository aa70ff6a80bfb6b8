"""Evidence of a session, an actor or a run: what it read in which version, what it changed, and who reviewed it.

The sources are the audit log, the history and the proposals of memory stores. The form and its proof are in
docs/audit.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from retentive import __version__
from retentive.audit.chain import ENTRY, FIRST, AuditEntry, lines_of, parsed
from retentive.audit.reader import Verified, verify_log
from retentive.engine.operation import AuditOnly
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.review.proposals import Decision, decisions, pending
from retentive.storage.contract import Actor, Recorded, Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.patterns import matches_actor
from retentive.values.provenance import Provenance, parse_provenance

FORMAT = 1
"""Version of the form of evidence. It grows when a field changes its meaning or goes."""
EvidenceState: TypeAlias = Literal["kept", "proposed", "redacted", "removed", "altered", "missing"]
_REMOVALS = ("redacted", "erased", "pruned_versions")  # fields of an entry that list removed versions
_DECISIONS = {"review.accept", "review.refuse"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFinding:
    """Record that is not as it was written. `entry` is the number of an entry of the audit log."""

    memory_store_id: str
    what: str
    entry: int | None = None
    memory_version_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceVersion:
    """Version that was read or recorded. The fields with `before` are those of the version of the memory before it.

    - `state`: `kept`; `proposed`: part of a proposal; `redacted` or `removed`, by the operation with the entry
      `removed_by`; `altered` or `missing`: not as the audit log says.
    - `logged_sha256`: hash of the text in the audit log. None if it was removed from the log, or never was in it.
    - `text`: only if texts were asked for.
    """

    memory_id: str
    memory_version_id: str
    state: EvidenceState
    logged_sha256: str | None = None
    removed_by: int | None = None
    operation: str | None = None
    path: str | None = None
    actor: str | None = None
    time: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    version_before: str | None = None
    path_before: str | None = None
    sha256_before: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceStep:
    """Operation. `log` is its entry in the audit log, and `lines` has the separate lines with paths and hashes.

    `paths` is None if the paths were removed from the log.
    """

    time: str
    paths: Sequence[str] | None
    read: Sequence[EvidenceVersion]
    changed: Sequence[EvidenceVersion]
    log: Mapping[str, Any]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReview:
    """Proposal, and the decision on it. `entry` is the entry of the decision, `versions` is what it recorded."""

    proposal_id: str
    decision: Literal["waiting", "accepted", "refused", "unknown"]
    by: str | None = None
    time: str | None = None
    entry: int | None = None
    versions: Sequence[EvidenceVersion] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvidence:
    """Evidence in one memory store. `unlogged` lists versions of the session or actor without an entry in the log.

    `chain` has the stored entries from the first step to `head`, the newest one; `previous` is the hash before them.
    """

    memory_store_id: str
    key: str | None
    workspace_id: str
    is_audited: bool
    steps: Sequence[EvidenceStep]
    unlogged: Sequence[EvidenceVersion]
    reviews: Sequence[EvidenceReview]
    head: str | None
    previous: str
    chain: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence of what a session, an actor or a run did. `is_anchored`: it was compared with anchors."""

    format: int = FORMAT
    made_at: str
    made_by: str = f"retentive {__version__}"
    session: str | None
    actor: str | None
    run: str | None
    is_sound: bool
    is_anchored: bool
    findings: Sequence[EvidenceFinding]
    stores: Sequence[StoreEvidence]


def gather(
    stores: Iterable[MemoryStore],
    *,
    session: str | None = None,
    actor: str | None = None,
    run: str | None = None,
    texts: bool = False,
    anchor: str | None = None,
    key: str | None = None,
) -> Evidence:
    """Return evidence from memory stores, which may be on a server. Stores without a trace are left out.

    All of the given names must match; `actor` may be a pattern. `anchor` and `key` are those of `Audit.verify`. With
    texts, a sound log gets an entry `evidence`. Raises `NotFound` if there is no trace, and `InvalidInput`.
    """
    if not (session or actor or run):
        raise InvalidInput("evidence is of a session, an actor or a run; name one")
    session = (session or "").removeprefix("session:") or None
    names = {"session": session, "actor": actor or None, "run": run or None}
    found, findings = list[StoreEvidence](), list[EvidenceFinding]()
    for store in stores:
        if (ask := getattr(store, "evidence", None)) is not None:  # it is on a server, a layer above this one
            if anchor is not None:
                raise InvalidInput("anchors are read on the machine of the server")
            made: Evidence = ask(texts=texts, **names)
            found += made.stores
            findings += made.findings
            continue
        one, problems = _of_store(store, names, texts=texts, anchored=(anchor, key))
        found += [] if one is None else [one]
        findings += problems
        if texts and one is not None and not problems:
            core_of(store).result_of(AuditOnly("evidence"))
    if not found:
        raise NotFound("the audit log and the history have nothing of this session, actor or run")
    return Evidence(
        made_at=_time(datetime.now(UTC)),
        session=session,
        actor=names["actor"],
        run=names["run"],
        is_sound=not findings,
        is_anchored=anchor is not None,
        findings=findings,
        stores=found,
    )


def _of_store(
    store: MemoryStore, names: Mapping[str, str | None], *, texts: bool, anchored: tuple[str | None, str | None]
) -> tuple[StoreEvidence | None, list[EvidenceFinding]]:
    core, (anchor, key) = core_of(store), anchored
    anchors = None if anchor is None else store.audit.anchored(anchor, key)

    def work(snapshot: Snapshot) -> tuple[StoreEvidence | None, list[EvidenceFinding]]:
        is_audited = core.settings_of(snapshot).audit
        reader = _Reader(snapshot, core.id, names, texts=texts, is_audited=is_audited)
        steps, reviews, unlogged = reader.steps(), reader.reviews(), reader.unlogged()
        if not (steps or reviews or unlogged):
            return None, []
        verified = verify_log(snapshot, core.id, (), anchors)
        first = min((int(step.log["seq"]) for step in steps), default=verified.entries + 1)
        before = [entry for _, entry in reader.records if entry is not None and entry.seq < first]
        return StoreEvidence(
            memory_store_id=core.id,
            key=core.info.key,
            workspace_id=core.info.workspace_id,
            is_audited=is_audited,
            steps=steps,
            unlogged=unlogged,
            reviews=reviews,
            head=None if verified.head is None else str(verified.head),
            previous=before[-1].hash if before else FIRST,
            chain=[lines_of(value)[0] for value, _ in reader.records[len(before) :]],
        ), reader.all_findings(verified)

    return core.read(work)


class _Reader:
    """Reads the evidence in one state of a memory store, and notes what is not as the audit log says."""

    def __init__(
        self, snapshot: Snapshot, store_id: str, names: Mapping[str, str | None], *, texts: bool, is_audited: bool
    ) -> None:
        self.records, self._findings = list[tuple[str, AuditEntry | None]](), list[EvidenceFinding]()
        self._snapshot, self._store_id, self._names, self._texts = snapshot, store_id, names, texts
        with suppress(Damaged):  # the verification reports it
            for _, value in snapshot.records(ENTRY):
                self.records.append((value, parsed(value)))
        self._entries = [entry for _, entry in self.records if entry is not None]
        self._is_whole = is_audited and all(entry.audit is not False for entry in self._entries)
        self._versions, self._before, newest = dict[str, Version](), dict[str, Version](), dict[str, Version]()
        for version in reversed(list(all_versions(snapshot))):
            if version.memory_id in newest:
                self._before[version.id] = newest[version.memory_id]
            newest[version.memory_id] = self._versions[version.id] = version
        self._logged = {each.version_id: entry for entry in self._entries for each in entry.changes}
        self._hashes = dict[str, str]()  # the first in the log counts: a later reader may have seen an altered text
        for entry in self._entries:
            for version_id, hash_ in (entry.hashes or {}).items():
                self._hashes.setdefault(version_id, hash_)
        lists = ((entry, entry.facts.get(name)) for entry in self._entries for name in _REMOVALS)
        self._removed = {str(id_): entry.seq for entry, ids in lists if isinstance(ids, list) for id_ in ids}
        self._own = {id_ for id_, entry in self._logged.items() if self._is_chosen(entry)}
        if names["run"] is None:  # the history does not know runs
            found = self._versions.values()
            self._own |= {each.id for each in found if self._matches(_name(each.actor), each.provenance.session)}

    def _matches(self, actor: str | None, session: object, run: object = None) -> bool:
        named, pattern, of_run = (self._names[name] for name in ("session", "actor", "run"))
        return (
            (named is None or named == session or actor == f"session:{named}")
            and (pattern is None or (actor is not None and matches_actor(pattern, actor)))
            and of_run in {None, run}
        )

    def _is_chosen(self, entry: AuditEntry) -> bool:
        return self._matches(entry.actor, entry.facts.get("session"), entry.facts.get("run"))

    def steps(self) -> list[EvidenceStep]:
        """Return the operations, oldest first: those that match, and those that recorded versions that match."""
        return [
            EvidenceStep(
                time=_time(entry.time),
                paths=entry.paths,
                read=[self._facts(each, entry) for each in (*([entry.read] if entry.read else []), *entry.reads)],
                changed=[self._facts(each, entry) for each in entry.changes if not entry.proposed],
                log=json.loads(lines_of(value)[0]),
                lines=list(filter(None, lines_of(value)[1:])),
            )
            for value, entry in self.records
            if entry is not None and (self._is_chosen(entry) or self._recorded_own(entry))
        ]

    def _recorded_own(self, entry: AuditEntry) -> bool:
        return entry.operation not in _DECISIONS and any(each.version_id in self._own for each in entry.changes)

    def unlogged(self) -> list[EvidenceVersion]:
        """Return the versions that match and have no entry in the log, oldest first."""
        found = (self._versions[each] for each in sorted(self._own - self._logged.keys()))
        return [self._facts(Recorded(each.memory_id, each.id), None) for each in found]

    def reviews(self) -> list[EvidenceReview]:
        """Return the proposals that match, oldest first, with the decisions."""
        waiting, stored = pending(self._snapshot), {each.proposal_id: each for each in decisions(self._snapshot)}
        ids = {id_ for entry in self._entries if self._is_chosen(entry) for id_ in _proposals_of(entry)}
        ids |= {id_ for id_, each in stored.items() if self._matches(_name(each.actor), None)}
        for proposal in waiting:
            sessions = {parse_provenance(change.provenance_text).session for change in proposal.changes}
            ids |= {proposal.id for each in sessions if self._matches(_name(proposal.actor), each)}
        decided = dict[str, AuditEntry]()
        for entry in self._entries:
            if entry.operation in _DECISIONS and entry.outcome == "ok":
                decided |= dict.fromkeys(_proposals_of(entry), entry)
        waits = {each.id for each in waiting}
        return [self._review(id_, decided.get(id_), stored.get(id_), waits=id_ in waits) for id_ in sorted(ids)]

    def _review(self, id_: str, entry: AuditEntry | None, stored: Decision | None, *, waits: bool) -> EvidenceReview:
        if entry is None:
            if stored is None:
                return EvidenceReview(proposal_id=id_, decision="waiting" if waits else "unknown")
            by, time = _name(stored.by), _time(stored.at)
            return EvidenceReview(proposal_id=id_, decision=_said(stored.accepted), by=by, time=time)
        is_accepted = entry.operation == "review.accept"
        if stored is not None and (stored.accepted, _name(stored.by)) != (is_accepted, entry.actor):
            self._find("decision altered", entry=entry.seq)
        return EvidenceReview(
            proposal_id=id_,
            decision=_said(is_accepted),
            by=entry.actor,
            time=_time(entry.time),
            entry=entry.seq,
            versions=[self._facts(each, entry) for each in entry.changes if each.version_id in self._own],
        )

    def _facts(self, named: Recorded, entry: AuditEntry | None) -> EvidenceVersion:
        """Return the facts of a version, and compare it with the entry that names it."""
        version, seq = self._versions.get(named.version_id), None if entry is None else entry.seq
        logged = self._hashes.get(named.version_id)
        ids: dict[str, Any] = {"memory_id": named.memory_id, "memory_version_id": named.version_id}
        ids |= {"logged_sha256": logged, "removed_by": self._removed.get(named.version_id)}
        if named.version_id.startswith("prop_"):
            return EvidenceVersion(**ids, state="proposed")
        if version is None or version.redacted_at is not None:
            is_lost = ids["removed_by"] is None and self._is_whole
            if is_lost:
                self._find("version missing", entry=seq, memory_version_id=named.version_id)
            return EvidenceVersion(**ids, state="missing" if is_lost else "removed" if version is None else "redacted")
        text, before, actor = self._text(version), self._before.get(version.id), _name(version.actor)
        is_author = entry is None or named not in entry.changes or entry.operation in _DECISIONS or entry.actor == actor
        is_right = text is not None and version.memory_id == named.memory_id and logged in {None, version.sha256}
        if not (is_right and is_author):
            self._find("version altered", entry=seq, memory_version_id=version.id)
        known = None if before is None or before.redacted_at is not None else self._hashes.get(before.id)
        if before is not None and known not in {None, before.sha256}:
            self._find("version altered", memory_version_id=before.id)
        return EvidenceVersion(
            **ids,
            state="kept" if is_right and is_author else "altered",
            operation=version.operation,
            path=version.path,
            actor=actor,
            time=_time(version.created_at),
            size_bytes=version.size_bytes,
            sha256=version.sha256,
            version_before=None if before is None else before.id,
            path_before=None if before is None else before.path or None,
            sha256_before=None if before is None else before.sha256,
            provenance=_origin(version.provenance),
            text=text if self._texts and version.sha256 else None,
        )

    def _text(self, version: Version) -> str | None:
        """Return the text of a version, empty for a deletion, or None if it is not the text that was recorded."""
        with suppress(Damaged, NotFound, TypeError):  # SQLite returns values of a wrong type unchanged
            data = self._snapshot.version(version.id)[1]
            if (None if data is None else sha256(data).hexdigest()) == version.sha256:
                return (data or b"").decode(errors="replace")
        return None

    def all_findings(self, verified: Verified) -> list[EvidenceFinding]:
        """Return what the verification of the log found, and what is wrong with the versions, each once."""
        for problem in verified.problems:
            self._find(f"entry {problem.what}".replace("entry settings", "settings"), entry=problem.seq)
        for difference in verified.differences:
            self._find(f"version {difference.what}", memory_version_id=difference.version_id)
        for version in verified.unaudited:
            if version.id in self._own:
                self._find("version without an entry", memory_version_id=version.id)
        return list(dict.fromkeys(self._findings))

    def _find(self, what: str, **where: Any) -> None:
        self._findings.append(EvidenceFinding(memory_store_id=self._store_id, what=what, **where))


def _proposals_of(entry: AuditEntry) -> list[str]:
    """Return the ids of the proposals that an operation made, showed or decided."""
    named = entry.facts.get("proposals")
    made = [each.version_id.partition(".")[0] for each in entry.changes if entry.proposed]
    return list(dict.fromkeys([*made, *map(str, named if isinstance(named, list) else ())]))


def _said(is_accepted: bool) -> Literal["accepted", "refused"]:
    return "accepted" if is_accepted else "refused"


def _origin(found: Provenance) -> dict[str, Any]:
    names = ("integration", "tool_use_id", "session", "source", "cause", "api_key_id")
    built_on = [each._asdict() for each in found.contributors]
    return {name: getattr(found, name) for name in names} | {"contributors": built_on}


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
