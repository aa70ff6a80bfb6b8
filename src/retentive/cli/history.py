"""`log`, `show`, `diff` and `blame`: list changes and show their differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.cli.parameters import (
    revision_option,
    revisions_and_path,
    source_option,
    time_option,
    trust_option,
    user_by_default,
)
from retentive.engine import trust as levels
from retentive.engine.trust import Level
from retentive.errors import InvalidInput, NotFound
from retentive.history.differences import Differences, MemoryDifference
from retentive.history.log import LogFilter
from retentive.history.revisions import TIMES, Revision
from retentive.history.versions import LoggedChange
from retentive.storage.contract import Version
from retentive.store import MemoryStore
from retentive.values.diff import DiffLine, as_text, unified
from retentive.values.provenance import Contributor

_GONE = "(redacted)"
_FEW = 10  # maximum number of versions of one change in the table of `log`
_LOOKED_AT = 200  # versions from which known actors and the like are listed


def actors_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the option `--by`, a pattern of actors."""
    return click.option("--by", "whose", metavar="PATTERN", callback=user_by_default, help=text)


@output.command(json="Print a JSON list of versions.")
@click.argument("what", metavar="[PATH]", nargs=-1)
@actors_option("Only versions by actors that match, such as session:*, or by the user with this name.")
@time_option("--since", f"Only versions since this time: {TIMES}.")
@time_option("--until", "Only versions up to this time.")
@click.option("--operation", type=click.Choice(["created", "modified", "deleted"]), help="Only versions of this kind.")
@source_option
@click.option("--session", metavar="PATTERN", help="Only versions of sessions that match.")
@click.option("--integration", metavar="PATTERN", help="Only versions through matching integrations, such as messages.")
@click.option("--flag", metavar="PATTERN", help="Only versions with flags that match, such as password.")
@trust_option
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="Only the newest N changes.")
@click.option("--provenance", is_flag=True, help="Show integration, session, source, flags and trust too.")
def log(
    location: Location, what: tuple[str, ...], *, whose: str | None, limit: int | None, provenance: bool, **only: Any
) -> None:
    """List the changes of the store, a directory or a memory, newest first.

    A change consists of the versions that one command recorded, and has a short name, such as r1234. The log of a
    memory includes its versions before a rename. If PATH does not exist, shows the log of the last memory there. On
    a terminal, a long log is shown in a pager.

    In a pipe each line has the change, version, time, actor, operation and path of a version, separated by tabs. The
    path of a renamed memory is `old -> new`. The path of a redacted version is empty. The versions of an undo or a
    restore have one more column, such as `undo of r3`.
    """
    _, path = revisions_and_path(what, at_most=0)
    with location.existing() as store:
        chosen = LogFilter(actor=whose, **only)
        found = store.history.changes(path, only=chosen, limit=limit)
        if not found:
            _check_known(store, chosen)
        versions = [version for change in found for version in change.versions]
        more = _origins(store, versions) if provenance else [()] * len(versions)
    origins = dict(zip((version.id for version in versions), more, strict=True))
    rows = chain.from_iterable(_rows(each, origins) for each in found)
    columns = ("change", "time", "actor", "what", *(_ORIGIN if provenance else ()))
    output.emit(
        (version_object(each, change) for change in found for each in change.versions),
        plain=(
            (
                change.id,
                each.id,
                output.exact_time(each.created_at),
                _actor(each),
                *described(each, change),
                *origins[each.id],
                *([change.cause] if change.cause else []),
            )
            for change in found
            for each in change.versions
        ),
        shown=[
            layouts.Aligned(
                rows,
                ("yellow", "blue", "green"),
                empty="No changes.",
                header=columns,
                shortens=(2, *range(4, len(columns)), 3),
            )
        ],
        pages=True,
    )


def _check_known(store: MemoryStore, only: LogFilter) -> None:
    """Raise `NotFound` if a condition without wildcards names what occurs in no version, such as an unknown actor."""
    for name in ("actor", "session", "source", "integration", "flag"):
        value = getattr(only, name)
        if value is None or {"*", "?"} & set(value) or store.history.log(limit=1, **{name: value}):
            continue
        newest = store.history.log(limit=_LOOKED_AT)
        known = dict.fromkeys(each for version in newest for each in _values(version, name) if each)
        others = f"; the newest ones are {', '.join(list(known)[:_FEW])}" if known else ""
        raise NotFound(f"no change has the {name} {value}{others}")


def _values(version: Version, name: str) -> list[str]:
    made = version.provenance
    match name:
        case "actor":
            return [_actor(version)]
        case "session":
            return [levels.session_of(version) or ""]
        case "flag":
            return [kind for _, kind in made.flags]
    return [getattr(made, name)]


def _rows(change: LoggedChange, origins: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the table rows of a change. Only the first row has the name, time and actor of the change."""
    head: tuple[str, ...] = (change.id, output.local_time(change.at), str(change.actor or ""))
    if change.cause:
        yield *head, change.cause, *("" for _ in origins[change.versions[0].id])
        head = ("",) * 3
    in_order = change.versions[::-1]
    shown = in_order if len(in_order) <= _FEW else in_order[: _FEW - 1]
    for version in shown:
        operation, path = described(version, change)
        yield *head, f"{operation} {path or _GONE}", *origins[version.id]
        head = ("",) * 3
    if left := len(change.versions) - len(shown):
        yield *head, f"and {left} more: retentive show {change.id}", *("" for _ in origins[change.versions[0].id])


def described(version: Version, change: LoggedChange) -> tuple[str, str]:
    """Return the operation and the path of a version. For a rename, the path is `old -> new`."""
    before = change.moved_from.get(version.id)
    return (version.operation, version.path) if before is None else ("renamed", f"{before} -> {version.path}")


@output.command(json="Print a JSON object: a version with its text, or a change with its versions and differences.")
@click.argument("what", metavar="[REVISION] [PATH]", nargs=-1)
def show(location: Location, what: tuple[str, ...]) -> None:
    """Show a version or a change.

    If REVISION is the id of a version, prints its metadata, an empty line and its text. If it names a change (r1234,
    HEAD, HEAD~2, yesterday), prints the metadata of the change, its versions and their diff. The default is HEAD,
    the newest change. With PATH, HEAD is the newest change of this memory or directory, and changes elsewhere
    are not shown.
    """
    revisions, path = revisions_and_path(what, at_most=1)
    with location.existing() as store:
        if revisions and revisions[0].is_version:
            version, text = store.history.show(revisions[0], path)
            _show_version(version, text, store.trust.contributors(version))
        else:
            _show_change(store.history.differences(path, change=revisions[0] if revisions else "HEAD"))


def _show_version(version: Version, text: str | None, contributors: Sequence[Contributor]) -> None:
    by = f" by {version.redacted_by}" if version.redacted_by else ""
    facts = {
        "version": version.id,
        "memory": version.memory_id,
        "path": version.path,
        "change": f"r{version.revision}",
        "operation": version.operation,
        **_facts(version),
        "size": "" if version.size_bytes is None else f"{version.size_bytes} bytes",
        "redacted": "" if version.redacted_at is None else output.exact_time(version.redacted_at) + by,
    }
    head, piece = _head(facts)
    output.emit(
        version_object(version, contributors=contributors) | {"text": text},
        plain=head if text is None else f"{head}\n{text}",
        shown=[piece, *([] if text is None else [f"\n{text}"])],
        pages=True,
    )


def _show_change(found: Differences) -> None:
    change = found.changes[0]
    rows = [described(version, change) for version in reversed(change.versions)]
    facts = {"change": change.id, **_facts(change.versions[0])}
    head, piece = _head(facts)
    lines = [line for each in found.found for line in _diff_lines(each)]
    listed = [*((operation, path or _GONE) for operation, path in rows)]
    output.emit(
        change_object(change) | {"differences": list(map(_difference_object, found.found)), "hidden": found.hidden},
        plain=f"{head}\n" + "".join(f"{operation}\t{path}\n" for operation, path in listed) + f"\n{as_text(lines)}",
        shown=[piece, "\n", layouts.Aligned(listed, (None, "cyan")), "\n", layouts.Diff(lines)],
        notes=_notes(found),
        pages=True,
    )


def _facts(version: Version) -> dict[str, str]:
    """Return the metadata that is the same for all versions of a change. `version` is one of them."""
    made = version.provenance
    return {
        "actor": _actor(version),
        "time": output.exact_time(version.created_at),
        "integration": made.integration,
        "session": made.session,
        "source": made.source,
        "cause": made.cause,
        "flags": ", ".join(f"{kind} in line {line}" for line, kind in made.flags),
    }


def _head(facts: dict[str, str]) -> tuple[str, layouts.Aligned]:
    """Return the facts that are not empty, as text for a pipe and as a layout for a terminal."""
    known = [(name, value) for name, value in facts.items() if value]
    return "".join(f"{name:<11}  {value}\n" for name, value in known), layouts.Aligned(known, ("yellow",))


@output.command(json='Print a JSON list of {"path", "old", "new", "diff", "reason"}.')
@click.argument("what", metavar="[REVISION] [REVISION] [PATH]", nargs=-1)
@revision_option("--since", text="Compare with the state at a time or after a change; with --by: only changes since.")
@revision_option("--until", text="End the comparison then, instead of now; with --by: only changes until then.")
@actors_option("Only changes by actors that match, such as session:*, or by the user with this name.")
@click.option("--session", metavar="PATTERN", help="Only changes in sessions that match.")
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
    """
    revisions, path = revisions_and_path(what, at_most=2)
    is_filtered = whose is not None or session is not None
    has_span = is_filtered or since is not None or until is not None
    if revisions and has_span:
        raise click.UsageError(
            "Specify revisions, or select changes with --since, --until, --by and --session, but not both."
        )
    if until is not None and since is None and not is_filtered:
        raise click.UsageError("--until needs --since, --by or --session.")
    with location.existing() as store:
        if len(revisions) == 2:
            found = store.history.differences(path, since=revisions[0], until=revisions[1])
        elif has_span:
            only = LogFilter(actor=whose, session=session) if is_filtered else None
            found = store.history.differences(path, since=since, until=until, only=only)
            if only is not None and not (found.found or found.hidden):
                _check_known(store, only)
        elif revisions and revisions[0].is_time:
            found = store.history.differences(path, since=revisions[0])
        else:
            found = store.history.differences(path, change=revisions[0] if revisions else "HEAD")
    _emit_differences(found)


def _emit_differences(found: Differences) -> None:
    reasons = [each.reason for each in found.found if each.reason]
    if reasons and len(reasons) == len(found.found) and not output.as_json():
        raise InvalidInput("nothing can be compared: " + "; ".join(_notes(found)).rstrip("."))
    lines = [line for each in found.found for line in _diff_lines(each)]
    output.emit(
        list(map(_difference_object, found.found)),
        plain=as_text(lines),
        shown=[layouts.Diff(lines)],
        notes=_notes(found),
        pages=True,
    )


def _notes(found: Differences) -> list[str]:
    notes = [
        f"{each.path or 'A redacted version'}: {each.reason or 'created and deleted again'}."
        for each in found.found
        if each.reason or each.old is each.new is None
    ]
    if found.hidden:
        memories = "1 hidden memory was" if found.hidden == 1 else f"{found.hidden} hidden memories were"
        notes.append(f"{memories} left out; `retentive trust list` lists them.")
    return notes


@output.command(json="Print a JSON list.")
@click.argument("path")
@source_option
@trust_option
@click.option("--provenance", is_flag=True, help="Show integration, session, source, flags and trust too.")
def blame(location: Location, path: str, *, source: str | None, trust: Level | None, provenance: bool) -> None:
    """Show the change that last modified each line of a memory, with its time and actor.

    In a pipe each line has a version, time, actor, line number and text, separated by tabs.
    """
    with location.existing() as store:
        found = store.history.blame(path, source=source, trust=trust)
        more = _origins(store, [line.version for line in found]) if provenance else [()] * len(found)

    def rows(name: Callable[[Version], str], time: Callable[[datetime], str]) -> Iterator[tuple[str, ...]]:
        for line, origin in zip(found, more, strict=True):
            made = line.version
            head = name(made), time(made.created_at), _actor(made)
            yield *head, *origin, str(line.number), line.text.removesuffix("\n")

    width = len(_ORIGIN) if provenance else 0
    styles = ("yellow", "blue", "green", *([None] * width), "bright_black")
    shown = rows(lambda version: f"r{version.revision}", output.local_time)
    output.emit(
        ({"line": line.number, "text": line.text, "version": version_object(line.version)} for line in found),
        plain=rows(lambda version: version.id, output.exact_time),
        shown=[layouts.Aligned(shown, styles, right={3 + width}, shortens=[2])],
        pages=True,
    )


def _diff_lines(found: MemoryDifference) -> list[DiffLine]:
    """Return the diff of a memory: a line with both versions, the header lines of Git, and the lines that differ.

    `git apply` ignores the line with the versions.
    """
    old, new = found.old, found.new
    sides = [(each.path, each.sha256) if each else None for each in (old, new)]
    if found.reason or sides[0] == sides[1]:
        return []
    name = (lambda each: f"r{each.revision}") if output.on_terminal() else (lambda each: each.id)  # r1 fits 80 columns
    lines = [" to ".join(name(each) if each else "nothing" for each in (old, new))]
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


_ORIGIN = ("integration", "session", "source", "flags", "trust")


def _origins(store: MemoryStore, versions: Sequence[Version]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for version, level in zip(versions, store.trust.levels(versions), strict=True):
        made = version.provenance
        flags = ", ".join(f"{kind} in line {line}" for line, kind in made.flags)
        found.append((made.integration, made.session, made.source, flags, level))
    return found


def _provenance(version: Version, contributors: Sequence[Contributor] | None) -> dict[str, object]:
    made = version.provenance
    names = ("integration", "tool_use_id", "session", "source", "cause", "api_key_id")
    flags = [{"line": line, "kind": kind} for line, kind in made.flags]
    return output.attributes(made, *names) | {
        "flags": flags,
        "contributors": list(map(levels.described, contributors or made.contributors)),
    }


def _actor(version: Version) -> str:
    return "" if version.actor is None else str(version.actor)


def version_object(
    version: Version, change: LoggedChange | None = None, *, contributors: Sequence[Contributor] | None = None
) -> dict[str, object]:
    """Return the JSON form of a version. If `change` is given, the JSON includes the path before a rename.

    `contributors` lists all contributors, if the provenance of the version does not name them.
    """
    names = ("id", "memory_id", "operation", "path", "size_bytes", "sha256", "actor", "created_at", "redacted_at")
    found = output.attributes(version, *names, "redacted_by") | {"path": version.path or None}
    found |= {"change": f"r{version.revision}", "provenance": _provenance(version, contributors)}
    return found if change is None else found | {"path_before": change.moved_from.get(version.id)}


def change_object(change: LoggedChange) -> dict[str, object]:
    """Return the JSON form of a change."""
    versions = [version_object(version, change) for version in change.versions]
    return {"change": change.id, "actor": change.actor, "time": change.at, "versions": versions}


def _difference_object(found: MemoryDifference) -> dict[str, object]:
    old, new = (each and version_object(each) for each in (found.old, found.new))
    return {
        "path": found.path or None,
        "old": old,
        "new": new,
        "diff": as_text(_unified(found)) if not found.reason else "",
        "reason": found.reason,
    }
