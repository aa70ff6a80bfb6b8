"""`log`, `show`, `diff`, `blame`, `restore`, `undo`: show versions of memories, and restore earlier states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import (
    FORMS,
    VERSION,
    Moment,
    moment_option,
    source_option,
    time_option,
    trust_option,
    user_by_default,
)
from retentive.engine.trust.levels import Level, described
from retentive.storage.contract import Version
from retentive.store import MemoryStore
from retentive.values.diff import DiffLine, as_text, unified

if TYPE_CHECKING:
    from retentive.history.apply import RestoreOutcome, Step
    from retentive.history.plan import Mode
    from retentive.values.replies import Replies

_GONE = "(redacted)"


@output.command(json="Print a JSON list.")
@click.argument("path", required=False)
@click.option(
    "--actor",
    "whose",
    metavar="PATTERN",
    callback=user_by_default,
    help="Only versions by these actors, such as session:*, or by the user of this name.",
)
@time_option("--since", f"Only versions since this time: {FORMS}.")
@time_option("--until", "Only versions up to this time.")
@click.option("--operation", type=click.Choice(["created", "modified", "deleted"]), help="Only versions of this kind.")
@source_option
@click.option("--session", metavar="PATTERN", help="Only versions of these sessions.")
@click.option("--integration", metavar="PATTERN", help="Only versions through these integrations, such as messages.")
@click.option("--flag", metavar="PATTERN", help="Only versions with lines flagged as this, such as instructions.")
@trust_option
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="Only the newest N versions.")
@click.option("--provenance", is_flag=True, help="Show integration, session, source, flags and trust too.")
def log(location: Location, path: str | None, *, whose: str | None, provenance: bool, **only: Any) -> None:
    """List the versions of the store, a directory or a memory, newest first.

    The versions of a memory include those before a rename. If PATH does not exist, the last memory at PATH is meant. In
    a pipe each line has a version, time, actor, operation and path, separated by tabs; the path of a redacted version
    is empty.
    """
    with location.existing() as store:
        found = store.history.log(path, actor=whose, **only)
        more = _origins(store, found) if provenance else [()] * len(found)
    rows = (
        (*_row(each, output.local_time)[:4], each.path or _GONE, *origin)
        for each, origin in zip(found, more, strict=True)
    )
    styles = ("yellow", "blue", "green", None, "cyan")
    output.emit(
        map(_object, found),
        plain=((*_row(each), *origin) for each, origin in zip(found, more, strict=True)),
        shown=[layouts.Aligned(rows, styles, empty="No versions.")],
    )


@output.command(json="Print a JSON object, with the text.")
@click.argument("version_id", metavar="VERSION")
def show(location: Location, version_id: str) -> None:
    """Show a version: its metadata, an empty line and the text after it."""
    with location.existing() as store:
        version, text = store.history.show(version_id)
    by = f" by {version.redacted_by}" if version.redacted_by else ""
    facts = {
        "version": version.id,
        "memory": version.memory_id,
        "path": version.path,
        "change": version.operation,
        "actor": _actor(version),
        "time": output.timestamp(version.created_at),
        "integration": version.provenance.integration,
        "session": version.provenance.session,
        "source": version.provenance.source,
        "flags": ", ".join(f"{kind} in line {line}" for line, kind in version.provenance.flags),
        "size": "" if version.size_bytes is None else f"{version.size_bytes} bytes",
        "redacted": "" if version.redacted_at is None else output.timestamp(version.redacted_at) + by,
    }
    known = [(name, value) for name, value in facts.items() if value]
    head = "".join(f"{name:<11}  {value}\n" for name, value in known)
    output.emit(
        _object(version) | {"text": text},
        plain=head if text is None else f"{head}\n{text}",
        shown=[layouts.Aligned(known, ("yellow",)), *([] if text is None else [f"\n{text}"])],
    )


@output.command(json='Print a JSON object: {"old", "new", "diff"}.')
@click.argument("first", metavar="VERSION|PATH")
@click.argument("second", metavar="[VERSION]", required=False)
@moment_option("--since", text=f"With a PATH: compare with the state at a time ({FORMS}), or right after a version.")
def diff(location: Location, first: str, second: str | None, *, since: Moment | None) -> None:
    """Show what changed, as a unified diff.

    Compares two versions, one version with the version it replaced, or the memory at PATH with its previous version
    or with its state at --since. Prints nothing if nothing changed. In a pipe the output is a patch for `git apply`, in
    the directory above `memories`.
    """
    by_path = not first.startswith(VERSION)
    if by_path and second is not None:
        raise click.UsageError("Specify two versions, or a path with --since.")
    if not by_path and since is not None:
        raise click.UsageError("--since needs a path.")
    with location.existing() as store:
        if by_path:
            sides = store.history.changes_since(first, since)
        else:
            sides = store.history.change(second or first, old=None if second is None else first)
    (old, old_text), (new, new_text) = sides
    rows = unified(old_text, new_text, old_name=f"a{old and old.path}", new_name=f"b{new and new.path}")
    lines = [*_header(old, new), *rows]
    value = {"old": old and _object(old), "new": new and _object(new), "diff": as_text(rows)}
    output.emit(value, plain=as_text(lines), shown=[layouts.Diff(lines)])


@output.command(json="Print a JSON list.")
@click.argument("path")
@source_option
@trust_option
@click.option("--provenance", is_flag=True, help="Show integration, session, source, flags and trust too.")
def blame(location: Location, path: str, *, source: str | None, trust: Level | None, provenance: bool) -> None:
    """Show the version, time and actor that last changed each line of a memory.

    In a pipe each line has a version, time, actor, line number and text, separated by tabs.
    """
    with location.existing() as store:
        found = store.history.blame(path, source=source, trust=trust)
        more = _origins(store, [line.version for line in found]) if provenance else [()] * len(found)

    def rows(time: Callable[[datetime], str]) -> Iterator[tuple[str, ...]]:
        for line, origin in zip(found, more, strict=True):
            yield *_row(line.version, time)[:3], *origin, str(line.number), line.text.removesuffix("\n")

    width = len(_ORIGIN) if provenance else 0
    styles = ("yellow", "blue", "green", *([None] * width), "bright_black")
    output.emit(
        ({"line": line.number, "text": line.text, "version": _object(line.version)} for line in found),
        plain=rows(output.timestamp),
        shown=[layouts.Aligned(rows(output.local_time), styles, right={3 + width})],
    )


def _header(old: Version | None, new: Version | None) -> list[DiffLine]:
    """The lines of version ids, which `git apply` skips, and the Git header lines. Empty if nothing changed."""
    sides = [(each.path, each.sha256) if each else None for each in (old, new)]
    if sides[0] == sides[1]:
        return []
    lines = [" to ".join(each.id if each else "nothing" for each in (old, new))]
    before, after = (each.path if each else other.path if other else "" for each, other in ((old, new), (new, old)))
    lines.append(f"diff --git a{before} b{after}")
    if old is None:
        lines.append("new file mode 100644")
    elif new is None:
        lines.append("deleted file mode 100644")
    elif before != after:
        lines += [f"rename from {before[1:]}", f"rename to {after[1:]}"]
    return [DiffLine("header", line) for line in lines]


def _row(version: Version, time: Callable[[datetime], str] = output.timestamp) -> tuple[str, ...]:
    return version.id, time(version.created_at), _actor(version), version.operation, version.path


_ORIGIN = ("integration", "session", "source", "flags", "trust")


def _origins(store: MemoryStore, versions: Sequence[Version]) -> list[tuple[str, ...]]:
    """Integration, session, source, flagged lines and level of trust of versions."""
    found: list[tuple[str, ...]] = []
    for version, level in zip(versions, store.trust.levels(versions), strict=True):
        made = version.provenance
        flags = ", ".join(f"{kind} in line {line}" for line, kind in made.flags)
        found.append((made.integration, made.session, made.source, flags, level))
    return found


def _provenance(version: Version) -> dict[str, object]:
    made = version.provenance
    names = ("integration", "tool_use_id", "session", "source")
    flags = [{"line": line, "kind": kind} for line, kind in made.flags]
    return output.attributes(made, *names) | {"flags": flags, "contributors": list(map(described, made.contributors))}


def _actor(version: Version) -> str:
    return "" if version.actor is None else str(version.actor)


def _object(version: Version) -> dict[str, object]:
    names = ("id", "memory_id", "operation", "path", "size_bytes", "sha256", "actor", "created_at", "redacted_at")
    path = {"path": version.path or None, "provenance": _provenance(version)}
    return output.attributes(version, *names, "redacted_by") | path


_OUTCOME_JSON = 'Print a JSON object: {"done", "dry_run", "proposed", "steps", "conflicts", "left"}.'
_DRY_RUN = "Print the changes without making them."


@output.command(json=_OUTCOME_JSON)
@click.argument("path")
@moment_option(
    "--to", text=f"Time to restore ({FORMS}), or a version, to restore the state right after it.", required=True
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--force", is_flag=True, help="Delete the memories that are in the way.")
def restore(location: Location, path: str, *, to: Moment, dry_run: bool, force: bool) -> None:
    """Restore a memory, a directory or, with /memories, the whole store to its state at a moment.

    The memory at PATH gets the text it had at that moment. If PATH does not exist, the memory that was there is created
    anew, with its id. In a directory, newer memories are deleted and moved memories return. It is one change, which
    `undo` can revert. If other memories are in the way, nothing is done and the status is 6.
    """
    with location.existing() as store:
        outcome = store.history.restore(path, to, mode="force" if force else "refuse", dry_run=dry_run)
    _emit_outcome(outcome, store.replies)


@output.command(json=_OUTCOME_JSON)
@click.argument("version_id", metavar="[VERSION]", required=False)
@click.option(
    "--actor",
    "whose",
    metavar="PATTERN",
    callback=user_by_default,
    help="Undo all changes of these actors, such as session:*, or of the user of this name.",
)
@click.option("--session", metavar="ID", help="Undo all changes of a session.")
@time_option("--since", f"With --actor or --session: only changes since this time: {FORMS}.")
@click.option("--merge", is_flag=True, help="Keep later changes of the same memories, if they are in other lines.")
@click.option("--force", is_flag=True, help="Undo later changes of the same memories too.")
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
def undo(
    location: Location,
    version_id: str | None,
    *,
    whose: str | None,
    session: str | None,
    since: datetime | None,
    merge: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Undo one change with all its versions, or all changes of an actor.

    Changes are reverted in reverse order, in one change that can itself be undone. If later changes depend on them,
    nothing is done, the conflicts are printed, and the status is 6.
    """
    if sum(given is not None for given in (version_id, whose, session)) != 1:
        raise click.UsageError("Specify a version, --actor or --session.")
    if since is not None and version_id is not None:
        raise click.UsageError("--since needs --actor or --session.")
    if merge and force:
        raise click.UsageError("--merge and --force exclude each other.")
    mode: Mode = "merge" if merge else "force" if force else "refuse"
    actors = whose if session is None else _pattern(session)
    with location.existing() as store:
        if version_id is not None:
            outcome = store.undo(version_id, mode=mode, dry_run=dry_run)
        else:
            outcome = store.undo_by(actors or "", since=since, mode=mode, dry_run=dry_run)
    _emit_outcome(outcome, store.replies)


def _pattern(session: str) -> str:
    if {"*", "?"} & set(session):
        raise click.UsageError("--session takes an id without * and ?; use --actor for a pattern.")
    return f"session:{session}"


def _emit_outcome(outcome: RestoreOutcome, replies: Replies) -> None:
    """Print the steps, or the conflicts with their exit status."""
    would = "nothing would be done" if outcome.dry_run else "nothing was done"
    conflicts = [f"Error: {would}.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)]
    rows = [_step_row(step, is_done=not (outcome.dry_run or outcome.proposed)) for step in outcome.steps]
    below = [replies.awaits_review] if outcome.proposed else []
    if not rows and not below:
        below = ["Nothing to do."]
    has_conflicts = bool(outcome.conflicts)
    steps = [_step_object(step) for step in outcome.steps]
    output.emit(
        output.attributes(outcome, "done", "dry_run", "proposed")
        | {"steps": steps, "conflicts": outcome.conflicts, "left": outcome.left},
        plain=[] if has_conflicts else [*rows, *((line,) for line in below)],
        shown=[] if has_conflicts else [layouts.Aligned(rows, (None, "cyan")), *below],
        notes=[f"{each.path} was not fully restored: {each.reason}." for each in outcome.left],
        error="\n".join(conflicts) if has_conflicts else "",
        status=status_of("conflict") if has_conflicts else 0,
    )


DONE = {"deleted": "deleted", "moved": "moved", "made": "recreated", "changed": "reverted"}
"""Word for each kind of step."""


def _step_row(step: Step, *, is_done: bool) -> tuple[str, str]:
    what = DONE[step.what] if is_done else f"would be {DONE[step.what]}"
    came = f"{step.before.path} -> " if step.what == "moved" and step.before is not None else ""
    return what, f"{came}{step.path}"


def _step_object(step: Step) -> dict[str, object]:
    before = {"path_before": step.before and step.before.path}
    return output.attributes(step, "what", "memory_id") | before | {"path": step.path}
