"""`doctor`, and of `admin`: `drill`, `scan`, `sweep`, `maintain`, `stats` and `migrate-schema`."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import click

from retentive.cli import output
from retentive.cli.exits import PROBLEMS, status_of
from retentive.cli.location import Location, naming
from retentive.cli.options import command
from retentive.cli.parameters import flag, option
from retentive.doctor import Finding, check_location
from retentive.history.scan import scan as scan_store
from retentive.locations import open_backend
from retentive.opening import open as open_location
from retentive.redaction.examiner import allowance
from retentive.server.background import maintain as maintain_location
from retentive.stats import stats as figures
from retentive.storage.sql.schema import SCHEMA
from retentive.store import core_of
from retentive.transfer.archive import open_archive
from retentive.transfer.restore import restore


@command(json="Print a JSON list of objects: path, kinds, in_path, likely, damaged.")
@flag("--redact", "Remove the values from the current texts. Older versions still have them.")
@flag("--history", "Scan older versions too; with --redact, redact whole versions that contain a value.")
@flag("--likely", "With --redact: also remove values recognized only by their context.")
@flag("--allow", "Read a value from standard input, and print its entry for the setting sensitive_allow.")
@flag("--yes", "Do not ask for confirmation of --redact --history.")
def scan(location: Location, *, redact: bool, history: bool, likely: bool, allow: bool, yes: bool) -> None:
    """List the memories that contain sensitive values, with the kinds of these values. Never prints a value.

    Values that are recognized only by their context are listed after "likely:". To remove a value from a path, rename
    the memory, and then run `scan --redact --history`, which redacts the versions with the old path. Redacted versions
    cannot be restored, so this command asks; without a terminal it needs --yes. Exits with status 16 if sensitive
    values remain, other than likely ones.
    """
    if allow:
        entry = allowance(sys.stdin.readline().rstrip("\n"))
        output.emit(entry, entry)
        return
    if redact and history:
        output.confirm("Permanently remove whole older versions? `scan --history` lists the memories.", yes=yes)
    with location.existing() as store:
        scanned = scan_store(core_of(store), redact=redact, history=history, likely=likely)
    found, notes = scanned.findings, []
    if not redact:
        if not history and any(one.kinds for one in found):
            notes = ["Older versions were not scanned; add --history."]
    else:
        older = f" and {output.counted(len(scanned.redacted), 'older version')}" if history else ""
        notes = [f"Redacted the values in {output.counted(scanned.rewritten, 'memory')}{older}."]
        if scanned.rewritten and not history:
            again = "`retentive admin scan --redact --history` redacts these versions."
            notes.append(f"Older versions still have the values: {again}")
    remain = any(one.in_path or (one.kinds and not redact) for one in found)
    rows = []
    for one in found:
        parts = [", ".join(one.kinds), f"likely: {', '.join(one.likely)}" if one.likely else ""]
        parts.append("damaged: run `retentive doctor`" if one.damaged else "")
        parts.append("in the path: rename the memory" if one.in_path else "")
        rows.append((one.path, "; ".join(filter(None, parts))))
    output.emit(
        found,
        output.table(rows, ("path", "kinds"), empty="No sensitive values.", header=False),
        notes=notes,
        status=status_of("sensitive") if remain else status_of("damaged") if any(one.damaged for one in found) else 0,
    )


@command(json="Print a JSON object.")
@flag("--dry-run", "Print the result without removing anything.")
@flag("--accept-clock", "Trust the clock of this host even though it jumped ahead.")
def sweep(location: Location, *, dry_run: bool, accept_clock: bool) -> None:
    """Expire idle memories and remove old versions, as the settings of the store define.

    The settings expire_after_days and expire_paths define when memories expire, keep_versions_days and keep_versions
    when versions are removed. By default, memories never expire. Expired memories can be restored as long as their
    versions are kept. `retentive admin maintain` sweeps all memory stores of a location.

    Nothing is removed if the clock of this host is more than 7 days ahead of the latest time in the memory store. Run
    sweep with --accept-clock if the clock is right, or again a day later.
    """
    with location.opened() as found:
        store = location.chosen(found)
        swept = store.sweep(dry_run=dry_run, accept_clock=accept_clock)
    kinds = {"would expire" if dry_run else "expired": swept.expired, "kept, read-only": swept.kept_read_only}
    rows = [(word, f"{one.idle_days:.0f} days idle", one.path) for word, them in kinds.items() for one in them]
    counts = f"{output.counted(len(swept.expired), 'memory')} and {output.counted(swept.versions_pruned, 'version')}"
    if swept.proposals:
        counts = f"{output.counted(len(swept.proposals), 'proposal')}, {counts}"
    output.emit(
        {"store_id": store.id, "store_key": store.key, "dry_run": dry_run} | asdict(swept),
        output.table(rows, ("what", "idle", "path"), header=False),
        f"{store.key or store.id}: {counts} {'would be removed' if dry_run else 'removed'}.",
        notes=[] if swept.clock_jump is None else [f"Warning: {swept.clock_jump}."],
    )


@command("maintain", json='Print a JSON object: {"finished_at", "ok", "code"} and totals.')
def maintain(location: Location) -> None:
    """Maintain all memory stores now. `retentive serve` does this every hour.

    Idle memories expire and old versions are removed, as the settings of each store define. Orphans of crashed writers
    and pending removals are cleaned up. The stores can stay in use. If storage failed for one of them, the others are
    maintained, and the status is that of the error.
    """
    with location.opened() as found:
        run = maintain_location(found)
    totals = {"stores": run.stores, "expired": run.expired, "pruned": run.pruned, "orphans": run.orphans}
    clocks = f"Warning: {output.counted(run.waiting, 'memory store')} waited, because the clock of this host jumped."
    failed = f"Error: storage failed ({run.code}), for {output.counted(run.failed, 'memory store')}."
    output.emit(
        run.to_json(),
        output.table(list(totals.items()), ("what", "number"), header=False),
        notes=[clocks] if run.waiting else [],
        error=failed if run.code else "",
        status=status_of(run.code) if run.code else 0,
    )


@command(json="Print a JSON object with all findings.")
@flag("--repair", "Rebuild data that follows from other stored data, then check again.")
@flag("--quick", "Skip the texts of older versions.")
def doctor(location: Location, *, repair: bool, quick: bool) -> None:
    """Check the integrity of a location: the memories, versions, texts, counts, records and files of all stores.

    Without --repair, nothing is written. A repair deletes nothing. The memory stores can stay in use. In a pipe, each
    line has the severity (ok, note, problem, repaired), memory store, code and description of a finding, and advice,
    separated by tabs. Exits with status 17 if problems remain, and with status 15 if a store could not be checked
    because its keys are missing or wrong.
    """
    keys = location.given_keys()
    with naming("Location", location.shown), output.progress("Checking") as advance:
        report = None if advance is None else lambda store, checked: advance(checked, part=store)
        found = list(check_location(location.url, keys=keys, quick=quick, repair=repair, progress=report))
    _report(found)


@command(json="Print a JSON object with all findings.")
@click.argument("file")
def drill(location: Location, *, file: str) -> None:
    """Restore the backup FILE to a temporary location, and check everything in it as `doctor` does.

    Run it after each backup. The location itself is neither read nor changed, and nothing is kept. Encrypted memory
    stores need their keys: --keys. Exits with status 17 if a problem was found, and with 15 if keys are missing.
    """
    keys = location.given_keys()
    with tempfile.TemporaryDirectory(prefix="retentive-drill-") as directory:
        url = f"sqlite:///{directory}/drill.db"
        with naming("File", file), open_archive(file) as archive, open_location(url) as opened:
            restore(archive, opened.backend)
        found = list(check_location(url, keys=keys))
    _report(found)


def _report(found: Sequence[Finding]) -> None:
    counts = Counter[str](finding.severity for finding in found)
    objects = []
    for each in found:
        kind = each.kind
        facts = {"meaning": kind.meaning, "advice": kind.advice, "repairable": kind.mends}
        shown = {
            "store": each.store_key or each.store_id or "-",
            "description": f"{kind.meaning} {each.subject}".rstrip(),
        }
        objects.append(output.attributes(each) | facts | shown)
    columns = ["severity", "store", "code", "description"]
    below = []
    if output.as_table():
        advice = {each.code: each.kind.advice for each in found if each.severity in {"problem", "note"}}
        totals = ", ".join(output.counted(counts[severity], severity) for severity in ("problem", "note"))
        below = [
            *(f"{code}: {text}" for code, text in advice.items() if text),
            f"{totals}, {counts['repaired']} repaired.",
        ]
    else:
        columns.append("advice")
    is_locked = any(each.code == "locked" for each in found)
    output.emit(
        {"findings": objects, **{name: counts[name] for name in ("ok", "note", "problem", "repaired")}},
        output.table(objects, columns, folds=True),
        *below,
        rows="findings",
        status=PROBLEMS if counts["problem"] else status_of("locked") if is_locked else 0,
    )


@command("migrate-schema", json='Print a JSON object: {"schema"}.')
def migrate(location: Location) -> None:
    """Create the tables on a database server, or migrate them to the current schema.

    Run it before you start a new version of an application, which refuses tables with an older schema. Running
    applications need not stop. Other kinds of storage, and an empty database, need no migration.
    """
    with naming("Location", location.shown):
        open_backend(location.url).close()
    output.emit({"schema": SCHEMA}, "The schema is up to date.")


@command(json="Print a JSON object.")
@option(
    "--days", "N", "Days of activity to count; the last day is today (UTC).", type=click.IntRange(1, 36_600), default=30
)
def stats(location: Location, *, days: int) -> None:
    """Show the size and activity of a memory store.

    Shows sizes, the activity of each day, and the number of proposed changes. Lists the biggest, least used and most
    changed memories, and the actors. In a pipe each line has the name of a section and one of its rows, separated by
    tabs.
    """
    with location.existing() as store:
        found = figures(store, days=days)
    use = found.use
    value = output.attributes(found) | output.attributes(use)
    del value["use"]
    value["biggest"] = [output.attributes(each, "path", "size_bytes") for each in use.biggest]
    value |= {"most_changed": dict(found.most_changed), "actors": dict(found.actors)}
    counts = [("memories", use.memories), ("versions", found.versions), ("changes awaiting review", found.proposals)]
    sizes = [("memories", use.size_bytes), ("versions", found.versions_bytes), ("history", found.history_bytes)]
    sizes += [] if found.stored_bytes is None else [("history as stored", found.stored_bytes)]
    changes, path = {"changes": itemgetter(1)}, {"path": "path"}
    sections: list[tuple[str, Sequence[Any], Any]] = [
        ("store", counts, ("what", "number")),
        ("bytes", sizes, ("what", "size")),
        ("activity", [day for day in found.days if any(day[1:])], ("day", "created", "modified", "deleted")),
        ("biggest", use.biggest, {"size": "size_bytes"} | path),
        ("least used", use.least_used, {"time": "at"} | path),
        ("most changed", found.most_changed, changes | {"path": itemgetter(0)}),
        ("who", found.actors, changes | {"actor": itemgetter(0)}),
    ]
    tables = [output.table(rows, columns, title=name) for name, rows, columns in sections if rows]
    output.emit(value, *tables)
