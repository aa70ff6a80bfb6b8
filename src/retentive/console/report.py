"""Reports on a memory store or on selected changes. A report is one HTML file that needs no server or script."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from markupsafe import Markup

from retentive.console.differences import Shown, of_memory
from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.memory import MARKDOWN, SourceLine, raw_lines
from retentive.console.rendering import environment, static_file
from retentive.engine.operation import Read
from retentive.frozen import dataclass
from retentive.history.changes import LoggedChange
from retentive.history.differences import MemoryDifference
from retentive.history.reads import LogFilter
from retentive.history.revisions import Named, Revision
from retentive.pipeline import StoreCore
from retentive.storage.contract import Memory, Snapshot, Usage, Version
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.settings import Settings
from retentive.values.text import decoded

MAX_TEXT_BYTES = 8 << 20
"""Maximum size of all texts in a report, so that browsers show it quickly and it can be attached to a message."""
NEWEST = 50
"""Number of newest changes in the report of a whole store."""
MAX_ROWS = 20_000
"""Maximum number of rows in all differences of a report together."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report as HTML. `left_out` is the number of memories whose text or differences are left out."""

    html: str
    memories: int
    changes: int
    left_out: int
    revision: int


@dataclass(frozen=True, slots=True)
class ReportedMemory:
    """Memory with its text as HTML or as lines. `is_left_out` means that the report has no room for the text."""

    memory: Memory
    html: Markup | None = None
    lines: Sequence[SourceLine] = ()
    is_left_out: bool = False


def of_store(store: MemoryStore) -> Report:
    """Return a report on a whole store: its figures, its newest changes, and the texts of all memories.

    The report shows one state of the store. Sensitive values are masked, even if the settings of the store allow them.
    Texts beyond `MAX_TEXT_BYTES` are left out, and the report says how many.
    """
    mask = _masks(store)

    def work(snapshot: Snapshot) -> tuple[list[ReportedMemory], list[Version], Usage, int]:
        entries = list(_entries(snapshot.texts(ROOT), mask))
        return entries, list(islice(snapshot.versions(limit=NEWEST), NEWEST)), snapshot.usage(), snapshot.revision

    entries, newest, usage, revision = core_of(store).result_of(Read("export", work, needs_external_edits=True))
    left_out = sum(each.is_left_out for each in entries)
    values = {
        "heading": "Memory store",
        "entries": entries,
        "newest": [_masked_version(each, mask) for each in newest],
        "usage": usage,
        "left_out": left_out,
    }
    html = _page(store, "report_store.html", values, mask, revision)
    return Report(html, len(entries), len(newest), left_out, revision)


def of_changes(
    store: MemoryStore, only: LogFilter, *, since: Named | None = None, until: Named | None = None
) -> Report:
    """Return a report on selected changes: their actors and times, and the differences of each memory.

    Consecutive changes of a memory are shown as one difference. Sensitive values are masked. Raises `InvalidInput`.
    """
    mask = _masks(store)
    found = store.history.differences(only=only, since=since, until=until)
    shown, rows, left_out = list[Shown](), 0, 0
    for each in found.found:
        file = of_memory(_masked(each, mask))
        rows += len(file.rows)
        is_full = rows > MAX_ROWS
        shown.append(replace(file, rows=(), note="left out: the report is full") if is_full else file)
        left_out += is_full
    versions = [version for change in found.changes for version in change.versions]
    values = {
        "heading": "Changes",
        "conditions": _conditions(only, since, until),
        "files": shown,
        "changes": [_masked_change(each, mask) for each in found.changes],
        "actors": Counter(str(version.actor or "") for version in versions).most_common(),
        "hidden": found.hidden,
        "left_out": left_out,
    }
    revision = max((change.number for change in found.changes), default=0)
    html = _page(store, "report_changes.html", values, mask, revision)
    return Report(html, len(shown), len(found.changes), left_out, revision)


@dataclass(frozen=True, slots=True)
class Masks:
    """Masking of sensitive and likely sensitive values, even if the settings of the store allow them in texts."""

    context: StoreCore
    settings: Settings

    def path(self, path: str) -> str:
        """Mask a path or another short text."""
        return self.context.redacted(path, self.settings)

    def text(self, text: str) -> str:
        """Mask the text of a memory."""
        return self.context.examiner.examine(self.settings, text).text


def _masks(store: MemoryStore) -> Masks:
    core = core_of(store)
    modes = {"sensitive": "redact", "sensitive_likely": "redact", "sensitive_allow": []}
    return Masks(core, core.settings().changed(modes))


def _entries(found: Iterable[tuple[Memory, bytes]], mask: Masks) -> Iterator[ReportedMemory]:
    size = 0
    for memory, data in found:
        named = replace(memory, path=mask.path(memory.path))
        size += len(data)
        if size > MAX_TEXT_BYTES:
            yield ReportedMemory(named, is_left_out=True)
        elif MARKDOWN.fullmatch(memory.path) is not None and len(data) <= MAX_RENDERED_BYTES:
            yield ReportedMemory(named, rendered(mask.text(decoded(data)), "#memories"))
        else:
            yield ReportedMemory(named, lines=raw_lines(mask.text(decoded(data))))


def _masked(found: MemoryDifference, mask: Masks) -> MemoryDifference:
    old, new = (None if each is None else _masked_version(each, mask) for each in (found.old, found.new))
    old_text, new_text = (None if each is None else mask.text(each) for each in (found.old_text, found.new_text))
    return replace(found, old=old, new=new, old_text=old_text, new_text=new_text)


def _masked_version(version: Version, mask: Masks) -> Version:
    return replace(version, path=mask.path(version.path))


def _masked_change(change: LoggedChange, mask: Masks) -> LoggedChange:
    moved = {name: mask.path(path) for name, path in change.moved_from.items()}
    return replace(change, versions=tuple(_masked_version(each, mask) for each in change.versions), moved_from=moved)


def _conditions(only: LogFilter, since: Named | None, until: Named | None) -> Sequence[tuple[str, str]]:
    given = {"By": only.actor, "Session": only.session, "Since": since, "Until": until}
    return [(name, _named(value)) for name, value in given.items() if value is not None]


def _named(value: Named) -> str:
    return value.text if isinstance(value, Revision) else str(value)


def _page(store: MemoryStore, template: str, values: dict[str, object], mask: Masks, revision: int) -> str:
    style = static_file("console.css").decode("utf-8") + static_file("report.css").decode("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    info = core_of(store).info
    known = {
        "style": Markup(style),  # noqa: S704 - a file of the package
        "policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        "name": mask.path(info.key or info.name or info.id),
        "info": info,
        "made_at": datetime.now(UTC),
        "revision": revision,
    }
    return environment().get_template(template).render(**known, **values)
