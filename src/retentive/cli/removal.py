"""`redact` and `erase`: permanently remove texts and memories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

import click

from retentive.cli import output
from retentive.cli.exits import FAILED
from retentive.cli.location import Location, no_store
from retentive.cli.options import command
from retentive.cli.parameters import MEMORY_PATH, is_memory_id, time_option
from retentive.engine.operation import Read
from retentive.errors import InvalidInput, NotFound
from retentive.history.removal import memories_below
from retentive.history.revisions import TIMES, versions_of
from retentive.locations import find_store
from retentive.remote import is_remote
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot
from retentive.store import core_of
from retentive.values.paths import ROOT, MemoryPath

_YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
_REDACT = "Permanently remove the text and path of {}?"
_PENDING = (
    "Pending: another process is reading, so the log of the storage still has the removed bytes. After that process has"
    " ended, `retentive redact --finish` or the next removal clears them."
)
_TABLES = "The bytes stay in the tables until {}, and in logs and backups until these are deleted."
_REMNANTS = {
    **dict.fromkeys(("postgresql", "postgres"), _TABLES.format("VACUUM FULL")),
    "mariadb": _TABLES.format("OPTIMIZE TABLE"),
    **dict.fromkeys(
        ("s3", "gs", "az"),
        "If the bucket keeps old versions of objects, they stay until a lifecycle rule deletes them.",
    ),
}
"""Notes about copies that retentive cannot remove, by the scheme of the location. See docs/history.md."""


@command(json='Print a JSON object: {"versions", "pending"}.')
@click.argument("version_ids", metavar="[VERSION]...", nargs=-1)
@click.option(
    "--all-of",
    metavar="PATH",
    type=MEMORY_PATH,
    help="Redact all old versions of a memory, or of the memories below a directory.",
)
@click.option("--finish", is_flag=True, help="Only finish pending removals.")
@_YES
def redact(location: Location, version_ids: tuple[str, ...], *, all_of: str | None, finish: bool, yes: bool) -> None:
    """Permanently remove the text, path, size and hash of versions. Ids, actors and times are kept.

    The newest version of an existing memory cannot be redacted: change or delete the memory first. If nothing is left
    to redact, the status is 3.

    \b
    retentive redact --all-of notes.md --yes
    """
    if sum((bool(version_ids), all_of is not None, finish)) != 1:
        raise click.UsageError("Specify versions, --all-of or --finish, but only one of them.")
    with location.existing() as store:
        if all_of is not None and not yes and is_remote(store):
            confirm(_REDACT.format(f"all old versions of {all_of}"))
        elif all_of is not None and not yes:
            core = core_of(store)
            path = core.parsed(all_of)
            preview = Read("redact.preview", partial(_old, path), path, needs_external_edits=True)
            if count := core.peek(preview):
                confirm(_REDACT.format(output.counted(count, "version")), declined=partial(core.result_of, preview))
        elif version_ids and not yes:
            confirm(_REDACT.format(output.counted(len(version_ids), "version")))
        cleared = not finish or capabilities.purge(core_of(store).backend)
        removed = store.history.redact(version_ids, all_of=all_of)
    if not removed.versions and not finish:
        what = "the versions are redacted already" if all_of is None else f"{all_of} has no old version with a text"
        raise NotFound(f"nothing was redacted: {what}")
    text = f"Redacted {output.counted(removed.versions, 'version')}."
    _emit(location, text, {"versions": removed.versions, "pending": removed.pending or not cleared})


@command(json='Print a JSON object: {"versions", "pending", "memories"}; memories is a list of ids.')
@click.argument("path", required=False)
@click.option("--whole-store", is_flag=True, help="Erase the memory store given with --store, with all its memories.")
@time_option("--older-than", f"Only memories whose last change is before this time: {TIMES}.")
@_YES
def erase(location: Location, path: str | None, *, whole_store: bool, older_than: datetime | None, yes: bool) -> None:
    """Permanently remove a memory, the memories below a directory, or a whole memory store, with all versions.

    PATH may be the id of a memory, also of a deleted one. For a directory, deleted memories that were below it are
    erased too, and the proposals and the paths in the audit log that name something below it. For each memory, a record
    remains. It has the id of the memory, and the actor and time of the erasure. After an interruption, run the command
    again. With --whole-store, --store must be given on the command line, so that no store is erased by default.

    \b
    retentive erase customers/ada.md
    retentive erase customers/ --older-than 90d --yes
    """
    if (path is None) != whole_store:
        raise click.UsageError("Specify a path or --whole-store, but only one of them.")
    if older_than is not None and path is None:
        raise click.UsageError("--older-than works only with a path. Add a path, or leave --older-than out.")
    if path == ROOT and older_than is None:
        raise InvalidInput(
            f"{path} is the whole memory store; erase the store with --whole-store --store {location.store_key}"
        )
    if path is None:
        _erase_store(location, location.named_store(), yes=yes)
    else:
        _erase_memories(location, path, older_than, yes=yes)


def _erase_store(location: Location, key: str, *, yes: bool) -> None:
    with location.opened() as found:
        info = found.get_store(key) if is_remote(found) else find_store(found.backend, key)
        if info is None or info.erased_at is not None:
            raise no_store(key)
        if not yes:
            confirm(f"Permanently erase the memory store {key} with {output.counted(info.memories, 'memory')}?")
        removed = found.erase(info.id)
    value = {"versions": removed.versions, "pending": removed.pending, "memories": []}
    _emit(location, f"Erased the memory store {key}.", value)


def _erase_memories(location: Location, name: str, older_than: datetime | None, *, yes: bool) -> None:
    many = ""
    with location.existing() as store:
        if is_remote(store):
            if older_than is not None:
                raise InvalidInput("--older-than cannot be used with a server; run the command on the server's machine")
            ids = [name if is_memory_id(name) else store.load(name)[0].id]
            if not yes:
                confirm(f"Permanently erase {name}?")
            removed = [store.history.erase(memory_id=ids[0])]
        else:
            core = core_of(store)
            path = None if is_memory_id(name) else core.parsed(name)
            preview = Read(
                "erase.preview", partial(_to_erase, path or name, older_than), path, needs_external_edits=True
            )
            counts = core.peek(preview)
            ids, versions = list(counts), output.counted(sum(counts.values()), "version")
            many = output.counted(len(ids), "memory") + " in " if len(ids) > 1 else ""
            if ids and not yes:
                confirm(f"Permanently erase {many}{name} with {versions}?", declined=partial(core.result_of, preview))
            if not ids and older_than is not None:
                raise NotFound(f"nothing was erased: no memory at or below {name} was last changed before --older-than")
            if older_than is not None:
                removed = [store.history.erase(memory_id=each) for each in ids]
            elif path is None:
                removed = [store.history.erase(memory_id=name)]
            else:
                removed = [store.history.erase(name)]
    count = sum(each.versions for each in removed)
    value = {"versions": count, "pending": any(each.pending for each in removed), "memories": ids}
    _emit(location, f"Erased {many}{name} with {output.counted(count, 'version')}.", value)


def _to_erase(target: MemoryPath | str, older_than: datetime | None, found: Snapshot) -> dict[str, int]:
    """Return the ids of the memories to erase, each with the number of versions of the memory."""
    if isinstance(target, str):
        ids = [target]
    else:
        memory = None if target.is_root else found.get(target.text).memory
        ids = [memory.id] if memory is not None else memories_below(found, target)
    versions = {each: list(found.versions(memory_id=each)) for each in ids}
    return {
        each: len(all_)
        for each, all_ in versions.items()
        if all_ and (older_than is None or all_[0].created_at < older_than)
    }


def _old(path: MemoryPath, found: Snapshot) -> int:
    """Return the number of old versions at or below a path that are not redacted yet."""
    present = {memory.version_id for memory, _ in found.list(ROOT)}
    return sum(version.id not in present and version.redacted_at is None for version in versions_of(found, path))


def confirm(question: str, *, declined: Callable[[], object] | None = None) -> None:
    """Ask the user to confirm a removal. Returns only if the user agrees.

    If the user declines, call `declined`, and exit. Raises `UsageError` without a terminal.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "Nothing was removed. Removal is permanent; without a terminal to confirm it, pass --yes."
        )
    if not click.confirm(output.harmless(question), err=True):
        if declined is not None:
            declined()
        click.echo("Nothing was removed.", err=True)
        raise click.exceptions.Exit(FAILED)


def _emit(location: Location, what: str, value: Mapping[str, object]) -> None:
    remnant = _REMNANTS.get(location.url.partition("://")[0].partition("+")[0])
    notes = [*([_PENDING] if value["pending"] else []), *([] if remnant is None else [remnant])]
    output.emit(value, f"{what}\n", notes=notes)
