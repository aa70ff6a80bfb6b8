"""`scan`, `sweep`, `doctor`, `admin` and `migrate-schema`: commands for operators."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from retentive.cli import layouts, output
from retentive.cli.exits import PROBLEMS, status_of
from retentive.cli.location import Location, naming
from retentive.cli.removal import confirm
from retentive.history.expiry import Swept
from retentive.history.scan import scan as scan_store
from retentive.history.scan import scan_read
from retentive.locations import open_backend
from retentive.server.maintenance import maintain as maintain_location
from retentive.storage.sql.schema import SCHEMA
from retentive.store import MemoryStore, core_of

if TYPE_CHECKING:
    from retentive.doctor import Finding
    from retentive.history.scan import Finding as SensitiveMemory
    from retentive.history.scan import Scanned

_RENAME = "in the path: rename the memory"
_FINDING_COLUMNS = ("severity", "store", "code", "description")
_OLDER = "Older versions were not scanned; add --history."
_STILL = "Older versions still have the values: `retentive scan --redact --history` redacts these versions."
_COUNTED = ("ok", "note", "problem", "repaired")


@output.command(json="Print a JSON list of objects: path, kinds, in_path, likely, damaged.")
@click.option(
    "--redact", is_flag=True, help="Remove the values from the current texts. Older versions still have them."
)
@click.option(
    "--history",
    is_flag=True,
    help="Scan older versions too; with --redact, redact whole versions that contain a value.",
)
@click.option("--likely", is_flag=True, help="With --redact: also remove values recognized only by their context.")
@click.option(
    "--allow",
    is_flag=True,
    help="Read a value from standard input, and print its entry for the setting sensitive_allow.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --redact --history.")
def scan(location: Location, *, redact: bool, history: bool, likely: bool, allow: bool, yes: bool) -> None:
    """List the memories that contain sensitive values, with the kinds of these values. Never prints a value.

    Values that are recognized only by their context are listed after "likely:".

    A memory may contain a sensitive value if it was written before the guards were on, or if its file was edited. A
    path that contains a value is printed without the value. To remove the value, rename the memory with `mv`, and then
    run `scan --redact --history`, which redacts the versions with the old path. Redacted versions cannot be restored.
    Therefore `scan --redact --history` lists the memories first, and asks for confirmation. Without a terminal it needs
    --yes. Exits with status 16 if sensitive values remain. Values after "likely:" do not count.
    """
    if allow:
        from retentive.redaction.examiner import allowance  # noqa: PLC0415 - rarely needed

        entry = allowance(sys.stdin.readline().rstrip("\n"))
        output.emit(entry, plain=f"{entry}\n")
        return
    with location.existing() as store:
        if redact and history and not yes:
            _confirm_redaction(store, likely=likely)
        with output.progress("Scanning"):
            scanned = scan_store(core_of(store), None, redact=redact, history=history, likely=likely)
    found = scanned.findings
    rows = [(one.path, _kinds_of(one), *([_RENAME] if one.in_path else [])) for one in found]
    padded = [(*row, "")[:3] for row in rows]
    remain = any(one.in_path or (one.kinds and not redact) for one in found)
    output.emit(
        found,
        plain=rows,
        shown=[layouts.Aligned(padded, ("cyan", "yellow"), empty="No sensitive values.")],
        notes=_scan_notes(scanned, redact=redact, history=history),
        status=status_of("sensitive") if remain else status_of("damaged") if any(one.damaged for one in found) else 0,
    )


def _scan_notes(scanned: Scanned, *, redact: bool, history: bool) -> list[str]:
    if not redact:
        return [] if history or not any(one.kinds for one in scanned.findings) else [_OLDER]
    done = f"Redacted the values in {output.counted(scanned.rewritten, 'memory')}"
    if history:
        return [f"{done} and {output.counted(len(scanned.redacted), 'older version')}."]
    return [f"{done}.", *([_STILL] if scanned.rewritten else [])]


def _kinds_of(found: SensitiveMemory) -> str:
    parts = {
        "": ", ".join(found.kinds),
        "likely: ": ", ".join(found.likely),
        "damaged: ": "run `retentive doctor`" if found.damaged else "",
    }
    return "; ".join(head + text for head, text in parts.items() if text)


def _confirm_redaction(store: MemoryStore, *, likely: bool) -> None:
    """List the memories that --redact --history would change, and ask for confirmation.

    Raises `UsageError` without a terminal.
    """
    with output.progress("Scanning"):
        core = core_of(store)
        preview = scan_read(core, history=True)
        found = [one for one in core.peek(preview) if one.kinds or likely]
    for one in found:
        click.echo(output.harmless(f"{one.path}\t{_kinds_of(one)}"), err=True)
    if found:
        values = f"the values in {output.counted(len(found), 'path')}, with whole older versions"
        confirm(f"Permanently remove {values}?", declined=partial(core.result_of, preview))


@output.command(json="Print a JSON object.")
@click.option("--dry-run", is_flag=True, help="Print the result without removing anything.")
@click.option("--accept-clock", is_flag=True, help="Trust the clock of this host even though it jumped ahead.")
def sweep(location: Location, *, dry_run: bool, accept_clock: bool) -> None:
    """Expire idle memories and remove old versions, as the settings of the store define.

    The settings expire_after_days and expire_paths define when memories expire. By default, memories never expire.
    Expired memories can be restored as long as their versions are kept. The settings keep_versions_days and
    keep_versions define when versions are removed. Read-only memories are kept. `retentive admin maintain` sweeps all
    memory stores of a location.

    With a wrong clock, memories could be removed too early. If the clock of this host is more than 7 days ahead of the
    latest time in the records of the memory store, nothing is removed. Run sweep with --accept-clock if the clock is
    right, or run it again a day later.
    """
    with location.opened() as found, output.progress("Sweeping"):
        store = location.chosen(found)
        swept = store.sweep(dry_run=dry_run, accept_clock=accept_clock)
    _emit_swept(store, swept, dry_run=dry_run)


@output.group("admin")
def admin() -> None:
    """Maintain a location."""


@output.command("maintain", group=admin, json='Print a JSON object: {"finished_at", "ok", "code"} and totals.')
def maintain(location: Location) -> None:
    """Maintain all memory stores now. `retentive serve` does this every hour.

    Idle memories expire and old versions are removed, as the settings of each store define. In object storage, orphans
    of crashed writers are deleted. Pending removals are finished. The memory stores can stay
    in use. Exits with the status of the error if storage failed for a memory store; the others are maintained.
    """
    with location.opened() as found, output.progress("Maintaining"):
        run = maintain_location(found)
    text = f"{output.counted(run.stores, 'memory store')}: {output.counted(run.expired, 'memory')} expired, "
    text += f"{output.counted(run.pruned, 'version')} and {output.counted(run.orphans, 'orphan')} removed.\n"
    clocks = f"Warning: {output.counted(run.waiting, 'memory store')} waited, because the clock of this host jumped."
    failed = f"Error: storage failed ({run.code}), for {output.counted(run.failed, 'memory store')}."
    output.emit(
        run.to_json(),
        plain=text,
        notes=[clocks] if run.waiting else [],
        error=failed if run.code else "",
        status=status_of(run.code) if run.code else 0,
    )


def _emit_swept(store: MemoryStore, swept: Swept, *, dry_run: bool) -> None:
    verb = "would expire" if dry_run else "expired"
    rows = [
        (word, f"{one.idle_days:.0f} days idle", one.path)
        for word, memories in ((verb, swept.expired), ("kept, read-only", swept.kept_read_only))
        for one in memories
    ]
    counts = f"{output.counted(len(swept.expired), 'memory')} and {output.counted(swept.versions_pruned, 'version')}"
    total = f"{store.key or store.id}: {counts} {'would be removed' if dry_run else 'removed'}."
    output.emit(
        {"store_id": store.id, "store_key": store.key, "dry_run": dry_run} | asdict(swept),
        plain=[*rows, (total,)],
        shown=[layouts.Aligned(rows, (None, "blue", "cyan")), total],
        notes=[] if swept.clock_jump is None else [f"Warning: {swept.clock_jump}."],
    )


@output.command(json="Print a JSON object with all findings.")
@click.option("--repair", is_flag=True, help="Rebuild data that follows from other stored data, then check again.")
@click.option("--quick", is_flag=True, help="Skip the texts of older versions.")
def doctor(location: Location, *, repair: bool, quick: bool) -> None:
    """Check the integrity of a location: the memories, versions, texts, counts, records and files of all stores.

    Without --repair, nothing is written. A repair deletes nothing. The memory stores can stay in use.
    Each finding has a severity (ok, note, problem, repaired), a memory store, a code and a description. In a pipe, each
    line has the four fields of a finding and then its advice, separated by tabs. Exits with status 17 if problems
    remain, and with status 15 if a store could not be checked because its keys are missing or wrong. A failure of the
    disk, the network or the permissions is an error with its own status, as in every command.
    """
    from retentive.doctor import check_location  # noqa: PLC0415 - slow to import

    keys = location.given_keys()
    with naming("Location", location.shown), output.progress("Checking") as advance:
        report = None if advance is None else lambda store, checked: advance(checked, part=store)
        findings = check_location(
            location.url,
            keys=keys,
            quick=quick,
            repair=repair,
            progress=report,
        )
        found = list(findings if output.as_object() or output.as_table() else _printed(findings))
    counts: Counter[str] = Counter(finding.severity for finding in found)
    value = {"findings": [_finding_object(finding) for finding in found], **{name: counts[name] for name in _COUNTED}}
    is_locked = any(finding.code == "locked" for finding in found)
    status = PROBLEMS if counts["problem"] else status_of("locked") if is_locked else 0
    output.emit(value, rows="findings", shown=_findings_shown(found, counts), status=status)


def _printed(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Print each finding as a line, and yield it. This is for pipes, in which there are no columns to align."""
    for finding in findings:
        output.emit_row((*_finding_row(finding), finding.kind.advice))
        yield finding


def _finding_row(finding: Finding) -> tuple[str, ...]:
    text = f"{finding.kind.meaning} {finding.subject}".rstrip()
    plain = output.harmless(text).replace("\n", " ").replace("\t", " ")
    return finding.severity, output.harmless(finding.store_key or finding.store_id or "-"), finding.code, plain


def _findings_shown(found: list[Finding], counts: Counter[str]) -> list[output.Piece]:
    totals = ", ".join(output.counted(counts[severity], severity) for severity in ("problem", "note"))
    advice = {finding.code: finding.kind.advice for finding in found if finding.severity in {"problem", "note"}}
    return [
        layouts.Table(_FINDING_COLUMNS, map(_finding_row, found), folds=True),
        *(f"{code}: {text}" for code, text in advice.items() if text),
        f"{totals}, {counts['repaired']} repaired.",
    ]


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity,
        "store_id": finding.store_id,
        "store_key": finding.store_key,
        "code": finding.code,
        "subject": finding.subject,
        "meaning": finding.kind.meaning,
        "advice": finding.kind.advice,
        "repairable": finding.kind.mends,
    }


@output.command("migrate-schema", json='Print a JSON object: {"schema"}.')
def migrate(location: Location) -> None:
    """Create the tables on a database server, or migrate them to the current schema.

    In an empty database, retentive creates the tables when it opens the location. It refuses to open tables with an
    older schema until this command has migrated them. Run this command before you start a new version of an
    application. Running applications need not stop. Other kinds of storage are migrated when they are opened.
    """
    with naming("Location", location.shown), output.progress("Migrating"):
        open_backend(location.url).close()
    output.emit({"schema": SCHEMA}, plain="The schema is up to date.\n")
