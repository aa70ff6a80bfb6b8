"""`scan`, `sweep`, `doctor`, `collect` and `migrate-schema`: work for operators."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import PROBLEMS, status_of
from retentive.cli.location import Location, pass_location
from retentive.history.sweep import Expired, Swept
from retentive.locations import migrate_schema
from retentive.opening import Retentive
from retentive.storage import capabilities
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from retentive.doctor import Finding

DEFAULT_COLLECT_HOURS = 24.0
_RENAME = "in the path: rename it by hand"
_FINDING_COLUMNS = ("severity", "store", "code", "what")
_COUNTED = ("ok", "note", "problem", "repaired")


@click.command(cls=output.Command)
@click.option(
    "--redact", is_flag=True, help="Write what was found anew without the values. Older versions still have them."
)
@click.option(
    "--history", is_flag=True, help="Entry through older versions too; with --redact they are redacted whole."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects: path, kinds, in_path.")
@pass_location
def scan(location: Location, *, redact: bool, history: bool, as_json: bool) -> None:
    """Tell which memories hold sensitive values, and of which kinds; never the values.

    They may have come past the guards: by hand, or before these were on. A path that holds one is shown without it, and
    is for you to rename: `mv`, then --history --redact for what it was called before. Ends with status 16 if something
    was found and is still there.
    """
    with location.existing() as store, output.progress("Scanning"):
        found = store.scan(redact=redact, history=history)
    rows = [(one.path, ", ".join(one.kinds), *([_RENAME] if one.in_path else [])) for one in found]
    padded = [(*row, "")[:3] for row in rows]
    output.emit(
        map(asdict, found),
        as_json=as_json,
        plain=rows,
        shown=[output.Aligned(padded, ("cyan", "yellow"), empty="No sensitive values.")],
    )
    if any(one.in_path or not redact for one in found):
        raise click.exceptions.Exit(status_of("sensitive"))


@click.command(cls=output.Command)
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@click.option("--all", "every_store", is_flag=True, help="Sweep every memory store of the place.")
@click.option("--every", metavar="HOURS", type=float, help="Go on, and sweep again every so many hours.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each memory store.")
@pass_location
def sweep(location: Location, *, dry_run: bool, every_store: bool, every: float | None, as_json: bool) -> None:
    """Let idle memories expire, and old versions go, as the settings of the store say.

    Memories expire by the settings expire_after_days and expire_paths, never by default; they can be restored until
    their versions go. Versions go by keep_versions_days and keep_versions. What is read-only stays.
    """
    while True:
        with location.opened() as found:
            for store in _stores(location, found, every_store=every_store):
                with output.progress("Sweeping"):
                    swept = store.sweep(dry_run=dry_run)
                _emit_swept(store, swept, dry_run=dry_run, as_json=as_json)
        if every is None:
            return
        threading.Event().wait(every * 3_600)


def _stores(location: Location, found: Retentive, *, every_store: bool) -> Iterator[MemoryStore]:
    if not every_store:
        yield location.chosen(found)
        return
    for info in found.stores():
        yield found.store(info.id)


def _emit_swept(store: MemoryStore, swept: Swept, *, dry_run: bool, as_json: bool) -> None:
    verb = "would go" if dry_run else "gone"
    rows = [
        (word, f"{one.idle_days:.0f} days idle", one.path)
        for word, memories in ((verb, swept.expired), ("kept, read-only", swept.kept_read_only))
        for one in memories
    ]
    total = f"{store.key or store.id}: {len(swept.expired)} memories and {swept.versions_pruned} versions {verb}."
    output.emit(
        {
            "store": store.id,
            "dry_run": dry_run,
            "expired": [_expired_object(one) for one in swept.expired],
            "kept_read_only": [_expired_object(one) for one in swept.kept_read_only],
            "versions_pruned": swept.versions_pruned,
        },
        as_json=as_json,
        plain=[*rows, (total,)],
        shown=[output.Aligned(rows, (None, "blue", "cyan")), total],
    )


def _expired_object(one: Expired) -> dict[str, object]:
    return {"path": one.path, "memory_id": one.memory_id, "idle_days": one.idle_days}


@click.command(cls=output.Command)
@click.option("--repair", is_flag=True, help="Repair what can be repaired for certain; then look again.")
@click.option("--quick", is_flag=True, help="Leave out the texts of older versions.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all that was found.")
@pass_location
def doctor(location: Location, *, repair: bool, quick: bool, as_json: bool) -> None:
    """Check everything a place keeps, in every memory store: memories, versions, texts, counts, records, files.

    Nothing is written without --repair, and others may go on working meanwhile. Each finding is a line: how bad (ok,
    note, problem, repaired), the memory store, the code, what it is; in a pipe with tabs between, and what to do about
    it at the end. Ends with status 17 if problems are left.
    """
    from retentive.doctor import check_place  # noqa: PLC0415 - not free to import

    with output.progress("Checking") as advance:
        tell = None if advance is None else lambda store, looked_at: advance(looked_at, part=store)
        findings = check_place(location.url, keys=location.given_keys(), quick=quick, repair=repair, progress=tell)
        found = list(findings if as_json or output.on_terminal() else _printed(findings))
    counts: Counter[str] = Counter(finding.severity for finding in found)
    value = {"findings": [_finding_object(finding) for finding in found], **{name: counts[name] for name in _COUNTED}}
    output.emit(value, as_json=as_json, shown=_findings_shown(found, counts))
    if counts["problem"]:
        raise click.exceptions.Exit(PROBLEMS)


def _printed(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Print each as it is found: in a pipe nobody waits for the widths of columns."""
    for finding in findings:
        output.emit_row((*_finding_row(finding), finding.kind.advice))
        yield finding


def _finding_row(finding: Finding) -> tuple[str, ...]:
    what = f"{finding.kind.meaning} {finding.subject}".rstrip()
    plain = output.harmless(what).replace("\n", " ").replace("\t", " ")
    return finding.severity, output.harmless(finding.store_key or finding.store_id or "-"), finding.code, plain


def _findings_shown(found: list[Finding], counts: Counter[str]) -> list[output.Piece]:
    """The table, a line of advice for each kind of finding, and the totals."""
    advice = {finding.code: finding.kind.advice for finding in found if finding.severity in {"problem", "note"}}
    return [
        output.Table(_FINDING_COLUMNS, map(_finding_row, found)),
        *(f"{code}: {text}" for code, text in advice.items() if text),
        f"{counts['problem']} problems, {counts['note']} notes, {counts['repaired']} repaired.",
    ]


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity,
        "store": finding.store_id,
        "key": finding.store_key,
        "code": finding.code,
        "subject": finding.subject,
        "meaning": finding.kind.meaning,
        "advice": finding.kind.advice,
        "repairable": finding.kind.mends,
    }


@click.command(cls=output.Command)
@click.option(
    "--older-than",
    metavar="HOURS",
    type=float,
    default=DEFAULT_COLLECT_HOURS,
    show_default=True,
    help="Leave what is younger; at least 2 hours, since a writer may still be at work.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object of counts.")
@pass_location
def collect(location: Location, *, older_than: float, as_json: bool) -> None:
    """Delete what crashed writers left in object storage.

    Nobody has to stop for it. At other places nothing is left behind, and nothing is deleted.
    """
    deleted = 0
    with location.opened() as found, output.progress("Collecting", total=len(stores := found.stores())) as advance:
        for done, info in enumerate(stores, 1):
            deleted += capabilities.collect(found.backend, info.id, older_than_s=older_than * 3_600)
            if advance is not None:
                advance(done)
    text = f"Deleted {deleted} objects of {len(stores)} memory stores.\n"
    output.emit({"stores": len(stores), "deleted": deleted}, as_json=as_json, plain=text)


@click.command("migrate-schema", cls=output.Command)
@click.option(
    "--partitions",
    metavar="N",
    type=int,
    default=0,
    help="When the tables are made: split memories and versions into N by the hash of their store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the numbers of the steps taken.")
@pass_location
def migrate(location: Location, *, partitions: int, as_json: bool) -> None:
    """Bring the tables of a database server up to date, or make them.

    Opening a database server makes the tables in an empty database, and refuses older ones until this was run. Run it
    before the new version of an application starts; those that run need not stop. Other places are brought up to date
    when they are opened.
    """
    with output.progress("Migrating"):
        applied = migrate_schema(location.url, partitions=partitions)
    text = f"Applied: {', '.join(map(str, applied))}.\n" if applied else "The schema is up to date.\n"
    output.emit({"applied": applied}, as_json=as_json, plain=text)
