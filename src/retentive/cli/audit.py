"""`audit`: verify, anchor, export and show the audit log of a memory store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import click

from retentive.audit.chain import versions_in
from retentive.audit.reader import AnchorKey, Audit
from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, failure, naming
from retentive.cli.options import Group, command
from retentive.cli.parameters import file_to_write, flag, option, time_option
from retentive.errors import RetentiveError
from retentive.history.revisions import TIMES
from retentive.values.replies import Reply

_of = flag("--location", "of_location", "The log of the location: sign-ins to the console. It is always on.")


@contextmanager
def _opened(location: Location, of_location: bool) -> Iterator[Audit]:
    """Open the audit log of the memory store, or of its location."""
    if of_location:
        with location.opened() as opened:
            yield opened.records.audit
    else:
        with location.existing() as store:
            yield store.audit


@click.group("audit", cls=Group)
def audit() -> None:
    """Verify, export and show the audit log. It has actors, operations, times and outcomes, but no texts.

    Operations are logged while the setting `audit` is on: `retentive settings set audit=true`.
    """


@command("verify", group=audit, json="Print a JSON object.")
@option(
    "--expect",
    "SEQ:HASH",
    "Head of the log from an earlier report; the log must still contain it. May be repeated.",
    multiple=True,
)
@option("--anchor", "FILE", "Compare the log and all versions with the anchors in FILE.")
@option("--key", "FILE", "With --anchor: the key that signed the anchors.")
@_of
def verify(
    location: Location, *, of_location: bool, expect: tuple[str, ...], anchor: str | None, key: str | None
) -> None:
    """Verify that no entry of the log was modified, removed or reordered.

    If the log was modified, prints the first wrong entry and exits with status 13. Prints the head of the log: the
    number and the hash of its last entry. Keep it in another place, and pass it to --expect later, to detect a log that
    was rewritten or truncated. Versions without an entry, recorded while the log was on, are listed as unaudited.

    With --anchor, also lists each anchored version that was altered or removed, each one that was inserted among them,
    and each later version without an entry.
    """
    if (anchor is None) != (key is None):
        raise click.UsageError("Pass --anchor and --key together.")
    with _opened(location, of_location) as log, naming("Key file", key or ""), naming("Anchors", anchor or ""):
        found = log.verify(expect=expect, anchor=anchor, key=key)
    head, sound = found.head and str(found.head), f"Sound: {output.counted(found.entries, 'entry')}."
    rows = [
        (sound if found.is_sound else f"Not sound: {found.findings[0]}.",),
        *((each.what, each.version_id) for each in found.differences),
        *([("head", head)] if head else []),
        *(("unaudited", one.id, output.exact(one.created_at), str(one.actor or "")) for one in found.unaudited),
    ]
    output.emit(
        output.attributes(found, "entries", "problem", "differences")
        | {"head": head, "unaudited": [version.id for version in found.unaudited]},
        "".join("\t".join(row) + "\n" for row in rows),
        status=0 if found.is_sound else status_of("damaged"),
    )


@command("anchor", group=audit, json="Print a JSON list: an object for each log that changed.")
@click.argument("file", callback=file_to_write)
@option("--key", "FILE", "The key that signs the anchor; see `admin audit key`.", required=True)
@flag("--all", "of_all", "FILE is a directory: anchor each store with an audit log there.")
def anchor(location: Location, *, file: str, key: str, of_all: bool) -> None:
    """Append a signed anchor to FILE: the head of the log, and digests of the versions since the last anchor.

    Run it once a day. Keep FILE and the key where nobody with write access to the storage can change them: `admin audit
    verify --anchor FILE` then detects every later change to the log and the history. If the memory store differs from
    FILE, nothing is appended and the status is 13.

    With --all, the anchors of a memory store are in the file ID.anchors of the directory. If a store cannot be
    anchored, the others are, and the status is that of the first error.
    """
    texts, objects, failed = list[str](), list[dict[str, object]](), list[Reply]()
    with location.opened() as opened:
        for info in opened.stores() if of_all else [None]:
            name, path = "" if info is None else info.key or info.id, file
            try:
                with naming("Store", name):
                    store = location.chosen(opened) if info is None else opened.store(info.id)
                    if info is not None:
                        path = os.path.join(file, f"{info.id}.anchors")
                        if not store.settings().audit:
                            continue
                    with naming("Key file", key), naming("Anchors", path):
                        made = store.audit.anchor(path, key)
            except RetentiveError as error:
                if info is None:
                    raise
                failed.append(failure(error))
                continue
            said = "Nothing changed since the last anchor."
            if made is not None:
                said = f"Anchored the head {made.head.seq} and {output.counted(len(made.versions), 'version')}."
                objects.append({"store_id": store.id, "head": str(made.head), "time": made.time})
                objects[-1]["versions"] = len(made.versions)
            texts.append(f"{name}: {said}\n" if name else f"{said}\n")
    output.emit(
        objects,
        "".join(texts),
        error="\n".join(each.text for each in failed),
        status=status_of(failed[0].code) if failed else 0,
    )


@command("key", group=audit, json='Print a JSON object: {"key"}, the id of the key.')
@click.argument("file", callback=file_to_write)
def key(_location: Location, *, file: str) -> None:
    """Create a key for anchors in the new file FILE. An existing file is never overwritten."""
    with naming("Key file", file):
        made = AnchorKey.create(file)
    output.emit({"key": made.id}, f"Created the key {made.id}. Keep it apart from the memories.\n")


@command("export", group=audit, json="Has no effect: the output is always JSON.")
@time_option("--since", f"Only entries since this time: {TIMES}.")
@_of
def export(location: Location, *, of_location: bool, since: datetime | None) -> None:
    """Print the stored entries, one JSON object per line."""
    with _opened(location, of_location) as log:
        for line in log.export(since):
            output.write_line(line)


@command("show", group=audit, json="Print a JSON list.")
@time_option("--since", f"Only entries since this time: {TIMES}.")
@_of
def show(location: Location, *, of_location: bool, since: datetime | None) -> None:
    """Show the entries, oldest first.

    In a pipe each line has a time, actor, operation, outcome, paths, and the versions that were recorded or read,
    separated by tabs.
    """
    with _opened(location, of_location) as log:
        found = list(log.entries(since))
    rows = []
    for entry in found:
        operation = (entry.operation or "-") + {None: "", True: " audit=on", False: " audit=off"}[entry.audit]
        marks = [*(["listing"] if entry.listed else []), *(["repeated"] if entry.repeated else [])]
        marks += [f"{name}={entry.facts[name]}" for name in ("by", "address", "key", "reason") if name in entry.facts]
        marks += [each.version_id for each in versions_in(entry)]
        paths = "withheld" if entry.paths is None else " ".join(entry.paths)
        rows.append((entry.time, entry.actor, operation, entry.outcome, paths, " ".join(marks)))
    columns = ("time", "actor", "operation", "outcome", "paths", "versions")
    output.emit(found, output.table(rows, columns, empty="No entries."))
