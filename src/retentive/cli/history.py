"""`log`, `show`, `diff` and `blame`: list changes and show their differences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import (
    Decorator,
    complete_paths,
    flag,
    named,
    option,
    path_argument,
    revision_option,
    revisions_and_path,
    source_option,
    time_option,
    trust_option,
    user_by_default,
)
from retentive.cli.reading import cat
from retentive.engine import visibility
from retentive.engine.visibility import Level
from retentive.errors import InvalidInput
from retentive.history.differences import Differences, MemoryDifference
from retentive.history.log import LogFilter, LoggedChange
from retentive.history.revisions import TIMES, Revision
from retentive.storage.contract import Version
from retentive.store import MemoryStore
from retentive.values.diff import DiffLine, as_text, unified
from retentive.values.provenance import Contributor, Provenance

_GONE = "(redacted)"


def actors_option(text: str) -> Decorator:
    """Return a decorator that adds the option `--by`, a pattern of actors."""
    return option("--by", "--author", "whose", "PATTERN", text, callback=user_by_default)


@command(json="Print a JSON list of versions; with -p, of changes with their differences.")
@click.argument("what", metavar="[REVISION] [PATH]", nargs=-1, shell_complete=complete_paths)
@flag("--oneline", "One line for each change.")
@flag("-p", "--patch", "Show the diff of each change, as `show` does.")
@actors_option("Only versions by actors that match, such as session:*, or by the user with this name.")
@time_option("--since", f"Only versions since this time: {TIMES}.")
@time_option("--until", "Only versions up to this time.")
@click.option("--operation", type=click.Choice(["created", "modified", "deleted"]), help="Only versions of this kind.")
@source_option
@option("--session", "PATTERN", "Only versions of sessions that match.")
@option("--integration", "PATTERN", "Only versions through matching integrations, such as messages.")
@option("--flag", "PATTERN", "Only versions with flags that match, such as password.")
@trust_option
@option("-n", "--limit", "N", "Only the newest N changes.", type=click.IntRange(min=0))
def log(
    location: Location,
    what: tuple[str, ...],
    *,
    oneline: bool,
    patch: bool,
    whose: str | None,
    limit: int | None,
    **only: Any,
) -> None:
    """List the changes of the store, a directory or a memory, newest first.

    A change consists of the versions that one command recorded, and has a short name, such as r1234, for `show`. The
    log of a memory includes its versions before a rename. If PATH does not exist, shows the log of the last memory
    there. With a REVISION, starts at this change; A..B lists the changes after A up to B. On a terminal, a pager shows
    a long log.

    In a pipe each line has the change, version, time, actor, operation and path of a version, separated by tabs. The
    path of a renamed memory is `old -> new`. The path of a redacted version is empty. The versions of an undo or a
    restore have one more column, such as `undo of r3`.

    \b
    retentive log notes.md --oneline
    retentive log --since yesterday -n 20
    """
    revisions, path = revisions_and_path(what, at_most=2)
    with location.existing() as store:
        path = path and named(store, path)
        chosen = LogFilter(actor=whose, **only)
        found = store.history.changes(path, only=chosen, limit=None if revisions else limit)
        if revisions:
            last = _number(store, revisions[-1])
            first = _number(store, revisions[0]) if len(revisions) > 1 else 0
            found = [change for change in found if first < change.number <= last][:limit]
        if patch:
            different = [store.history.differences(path, change=change.id) for change in found]
            texts = [text for each in different for text in (*_change_texts(each), "\n")]
            output.emit(list(map(_full_change, different)), *texts[:-1], pages=True)
            return
    if oneline or output.as_table():
        columns: dict[str, output.Column] = {"change": "id", "time": "at", "actor": "actor", "what": _summary}
        if oneline:
            del columns["time"]
        table = output.table(found, columns, "No changes.", shortens=("actor", "what"), header=not oneline)
    else:
        cells = [
            [change.id, each.id, each.created_at, each.actor, *described(each, change), *filter(None, [change.cause])]
            for change in found
            for each in change.versions
        ]
        table = output.table(cells, ())
    output.emit((version_object(each, change) for change in found for each in change.versions), table, pages=True)


def _number(store: MemoryStore, revision: Revision) -> int:
    """Return the number of the change that a revision names. Of a time, it is the last change before it."""
    if isinstance(revision.base, datetime):
        return max((change.number for change in store.history.changes(only=LogFilter(until=revision.base))), default=0)
    return store.history.differences(change=revision).changes[0].number


def _summary(change: LoggedChange) -> str:
    operation, path = described(change.versions[-1], change)
    more = f" and {len(change.versions) - 1:,} more" if len(change.versions) > 1 else ""
    by = change.versions[-1].provenance.accepted_by
    return (change.cause or f"{operation} {path or _GONE}{more}") + (f", accepted by {by}" if by else "")


def described(version: Version, change: LoggedChange) -> tuple[str, str]:
    """Return the operation and the path of a version. For a rename, the path is `old -> new`."""
    before = change.moved_from.get(version.id)
    return (version.operation, version.path) if before is None else ("renamed", f"{before} -> {version.path}")


@command(json="Print a JSON object: a version with its text, or a change with its versions and differences.")
@click.argument("what", metavar="[REVISION] [PATH]", nargs=-1, shell_complete=complete_paths)
def show(location: Location, what: tuple[str, ...]) -> None:
    """Show a version or a change.

    If REVISION is the id of a version, prints its metadata, an empty line and its text. If it names a change (r1234,
    HEAD, HEAD~2, yesterday), prints the metadata of the change, its versions and their diff. The default is HEAD,
    the newest change. With PATH, HEAD is the newest change of this memory or directory, and changes elsewhere
    are not shown. REVISION:PATH prints the text of a memory at a revision, as `cat` does.
    """
    if len(what) == 1 and ":" in what[0] and not what[0].startswith((".", "/")):
        click.get_current_context().invoke(cat, what=what[0], as_of=None)
        return
    revisions, path = revisions_and_path(what, at_most=1)
    with location.existing() as store:
        path = path and named(store, path)
        if revisions and revisions[0].is_version:
            version, text = store.history.show(revisions[0], path)
            value = version_object(version, contributors=store.trust.contributors(version))
            head = _head(value, version.provenance)
            texts = [head] if text is None else [f"{head}\n", text] if output.as_table() else [f"{head}\n{text}"]
            output.emit(value | {"text": text}, *texts, pages=True)
        else:
            found = store.history.differences(path, change=revisions[0] if revisions else "HEAD")
            output.emit(_full_change(found), *_change_texts(found), notes=_notes(found), pages=True)


def _change_texts(found: Differences) -> list[str]:
    change = found.changes[0]
    listed = [described(version, change) for version in reversed(change.versions)]
    rows = "".join(f"{operation}\t{path or _GONE}\n" for operation, path in listed)
    lines = [line for each in found.found for line in _diff_lines(each)]
    head = _head(change_object(change), change.versions[0].provenance)
    return [f"{head}\n{rows}\n", output.diff(lines)]


def _full_change(found: Differences) -> dict[str, object]:
    return change_object(found.changes[0]) | {"differences": _differences(found), "hidden": found.hidden}


def _head(value: dict[str, Any], made: Provenance) -> str:
    """Return a line for each field of the JSON form of a version or a change, and of its provenance."""
    facts = value | output.attributes(made, "integration", "session", "source", "cause", "accepted_by")
    facts |= {"flags": ", ".join(f"{kind} in line {line}" for line, kind in made.flags)}
    return "".join(
        f"{name:<11}  {output.exact(each)}\n"
        for name, each in facts.items()
        if each not in (None, "") and name not in {"versions", "provenance"}
    )


@command(json='Print a JSON list of {"path", "old", "new", "diff", "reason"}.')
@click.argument("what", metavar="[REVISION] [REVISION] [PATH]", nargs=-1, shell_complete=complete_paths)
@revision_option("--since", "Compare with the state at a time or after a change; with --by: only changes since.")
@revision_option("--until", "End the comparison then, instead of now; with --by: only changes until then.")
@actors_option("Only changes by actors that match, such as session:*, or by the user with this name.")
@option("--session", "PATTERN", "Only changes in sessions that match.")
def diff(
    location: Location,
    what: tuple[str, ...],
    *,
    since: Revision | None,
    until: Revision | None,
    whose: str | None,
    session: str | None,
) -> None:
    """Show what changed, as a unified diff.

    With one REVISION, shows the diff of this change or version. If REVISION is a time, shows everything that changed
    since then. With two revisions, compares the two versions, or the states right after the two changes. The default is
    HEAD, the newest change. PATH limits the diff to a memory or a directory; HEAD is then its newest change.

    With --by or --session, shows only the changes by these actors or sessions, and leaves out the changes that others
    made in between. Memories that are hidden from you are left out. In a pipe the output is a patch for `git apply`;
    run it in the directory that contains `memories`.

    \b
    retentive diff r2..r5
    retentive diff --since yesterday --by 'session:*'
    """
    revisions, path = revisions_and_path(what, at_most=2)
    only = None if whose is None and session is None else LogFilter(actor=whose, session=session)
    has_span = only is not None or since is not None or until is not None
    if (revisions and has_span) or (until is not None and since is None and only is None):
        raise click.UsageError("Specify revisions, or select changes with --by, --session or --since, also --until.")
    if len(revisions) == 2:
        since, until = revisions
    elif revisions and revisions[0].is_time:
        since = revisions[0]
    with location.existing() as store:
        path = path and named(store, path)
        if since is not None or has_span:
            found = store.history.differences(path, since=since, until=until, only=only)
        else:
            found = store.history.differences(path, change=revisions[0] if revisions else "HEAD")
    reasons = [each.reason for each in found.found if each.reason]
    if reasons and len(reasons) == len(found.found) and not output.as_object():
        raise InvalidInput("nothing can be compared: " + "; ".join(_notes(found)).rstrip("."))
    lines = output.diff([line for each in found.found for line in _diff_lines(each)])
    output.emit(_differences(found), lines, notes=_notes(found), pages=True)


def _notes(found: Differences) -> list[str]:
    notes = [
        f"{each.path or 'A redacted version'}: {each.reason or 'created and deleted again'}."
        for each in found.found
        if each.reason or each.old is each.new is None
    ]
    if found.hidden:
        were = "was" if found.hidden == 1 else "were"
        memories = output.counted(found.hidden, "hidden memory")
        notes.append(f"{memories} {were} left out; `retentive trust list` lists them.")
    return notes


@command(json="Print a JSON list.")
@path_argument("path")
@source_option
@trust_option
def blame(location: Location, path: str, *, source: str | None, trust: Level | None) -> None:
    """Show the change that last modified each line of a memory, with its time and actor.

    In a pipe each line has a change, version, time, actor, line number and text, separated by tabs.
    """
    with location.existing() as store:
        found = store.history.blame(named(store, path), source=source, trust=trust)
    columns = ("change", *(() if output.as_table() else ("version",)), "time", "actor", "line", "text")
    rows = []
    for each in found:
        version = each.version
        ids = [f"r{version.revision}", *([] if output.as_table() else [version.id])]
        rows.append([*ids, version.created_at, version.actor, each.number, each.text.removesuffix("\n")])
    value = ({"line": each.number, "text": each.text, "version": version_object(each.version)} for each in found)
    output.emit(value, output.table(rows, columns, shortens=["actor"], header=False), pages=True)


def _diff_lines(found: MemoryDifference) -> list[DiffLine]:
    """Return the diff of a memory: a line with both changes, the header lines of Git, and the lines that differ.

    `git apply` ignores the line with the changes.
    """
    old, new = found.old, found.new
    sides = [(each.path, each.sha256) if each else None for each in (old, new)]
    if found.reason or sides[0] == sides[1]:
        return []
    lines = [" to ".join(f"r{each.revision}" if each else "nothing" for each in (old, new))]
    before, after = (each.path if each else found.path for each in (old, new))
    lines.append(f"diff --git a{before} b{after}")
    if old is None:
        lines.append("new file mode 100644")
    elif new is None:
        lines.append("deleted file mode 100644")
    elif before != after:
        lines += [f"rename from {before[1:]}", f"rename to {after[1:]}"]
    return [*(DiffLine("header", line) for line in lines), *_unified(found)]


def _unified(found: MemoryDifference) -> list[DiffLine]:
    old, new = found.old, found.new
    return unified(found.old_text, found.new_text, old_name=f"a{old and old.path}", new_name=f"b{new and new.path}")


def version_object(
    version: Version, change: LoggedChange | None = None, *, contributors: Sequence[Contributor] | None = None
) -> dict[str, object]:
    """Return the JSON form of a version. If `change` is given, the JSON includes the path before a rename.

    `contributors` lists all contributors, if the provenance of the version does not name them.
    """
    made = version.provenance
    names = ("id", "memory_id", "operation", "path", "size_bytes", "sha256", "actor", "created_at", "redacted_at")
    origin = output.attributes(
        made, "integration", "tool_use_id", "session", "source", "cause", "api_key_id", "accepted_by"
    )
    origin["flags"] = [{"line": line, "kind": kind} for line, kind in made.flags]
    origin["contributors"] = list(map(visibility.described, contributors or made.contributors))
    found = output.attributes(version, *names, "redacted_by") | {"path": version.path or None}
    found |= {"change": f"r{version.revision}", "provenance": origin}
    return found if change is None else found | {"path_before": change.moved_from.get(version.id)}


def change_object(change: LoggedChange) -> dict[str, object]:
    """Return the JSON form of a change."""
    versions = [version_object(version, change) for version in change.versions]
    return {"change": change.id, "actor": change.actor, "time": change.at, "versions": versions}


def _differences(found: Differences) -> list[dict[str, object]]:
    return [
        {
            "path": each.path or None,
            "old": each.old and version_object(each.old),
            "new": each.new and version_object(each.new),
            "diff": "" if each.reason else as_text(_unified(each)),
            "reason": each.reason,
        }
        for each in found.found
    ]
