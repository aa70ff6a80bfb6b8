"""Status of a memory store: its last change, usage, limits, proposals, external edits and flagged lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from operator import attrgetter

from retentive.engine.operation import ReadOperation
from retentive.engine.trust.levels import is_used
from retentive.engine.trust.overlay import Assessment
from retentive.history.changes import LoggedChange, Predecessors, grouped
from retentive.history.scan import Finding, scan_read
from retentive.redaction.examiner import TextExaminer
from retentive.review.proposals import PROPOSAL
from retentive.stats import TOP, Flagged, Near, flagged, is_marked, near_limits
from retentive.storage import capabilities
from retentive.storage.contract import Memory, Snapshot, Usage
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.settings import Settings

MAX_VERSIONS = 5_000  # number of newest versions whose flags are read; this takes 0.1 s on SQLite


@dataclass(frozen=True, slots=True)
class Status:
    """Status of one state of a memory store.

    - `near`: the limits that are at least 80 % used.
    - `last`: the newest change; None if nothing was changed yet.
    - `doubted`: the number of memories with text of a contributor that is neither trusted nor confirmed.
    - `edits`: the paths of files that another program edited and whose edits are not recorded as versions yet.
    - `flagged`: lines that may contain sensitive values. Only memories with a flag in one of the newest `MAX_VERSIONS`
      versions, or in their own newest version, are examined.
    - `has_all_flags`: False if the history has more than `MAX_VERSIONS` versions.
    - `findings`: the findings of a scan for sensitive values; None if no scan was made.
    """

    usage: Usage
    max_memories: int
    max_store_bytes: int
    read_only: bool
    read_only_paths: tuple[str, ...]
    near: tuple[Near, ...]
    last: LoggedChange | None
    proposals: int
    doubted: int
    edits: tuple[str, ...]
    flagged: tuple[Flagged, ...]
    has_all_flags: bool
    findings: tuple[Finding, ...] | None = None


def status(store: MemoryStore, *, scan: bool = False) -> Status:
    """Return the status of a memory store. Raises the errors of storage.

    Without `scan`, only the texts of flagged memories are read. With `scan`, the current texts of all memories are
    scanned for sensitive values, and external edits are recorded first.
    """
    core = core_of(store)
    edits = capabilities.external_edits(core.backend, core.info)
    scanning = scan_read(core, history=False) if scan else None
    return core.result_of(ReadStatus(core.examiner, tuple(edits), scanning))


@dataclass(frozen=True, slots=True)
class ReadStatus(ReadOperation[Status]):
    """Read operation that returns the status of a memory store."""

    name = "status"
    sees_all = True
    examiner: TextExaminer
    edits: Sequence[str]
    scanning: ReadOperation[list[Finding]] | None = None

    def apply(self, snapshot: Snapshot, settings: Settings) -> Status:
        """Read the newest version of each memory and the flags of the newest versions, and return the status."""
        heads = list(snapshot.as_of("~"))  # `snapshot.memories` would record external edits
        memories = [Memory.of(each, each.created_at) for each in heads]
        newest = list(islice(all_versions(snapshot), MAX_VERSIONS + 1))
        marked = {each.memory_id for each in (*heads, *newest[:MAX_VERSIONS]) if is_marked(each)}
        last = [] if not newest else list(snapshot.versions(revision_of=newest[0].id))
        usage, assessed = snapshot.usage(), Assessment(snapshot, settings, None)
        biggest = nlargest(TOP, memories, key=attrgetter("size_bytes"))
        return Status(
            usage,
            settings.max_memories,
            settings.max_store_bytes,
            settings.read_only,
            settings.read_only_paths,
            near_limits(usage.memories, usage.size_bytes, biggest, settings),
            next(iter(grouped(last, Predecessors(snapshot))), None),
            sum(1 for _ in snapshot.records(PROPOSAL)),
            sum(1 for each in memories if assessed.open_contributors(each)) if is_used(settings) else 0,
            tuple(self.edits),
            tuple(flagged(snapshot, settings, self.examiner, memories, marked)),
            len(newest) <= MAX_VERSIONS,
            None if self.scanning is None else tuple(self.scanning.apply(snapshot, settings)),
        )
