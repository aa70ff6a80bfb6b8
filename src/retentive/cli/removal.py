"""`redact` and `erase`: permanently remove texts and memories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import click

from retentive.cli import output
from retentive.cli.exits import FAILED
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH, time_option
from retentive.engine.operation import Read
from retentive.errors import InvalidInput, NotFound
from retentive.history.removal import memories_below
from retentive.history.revisions import TIMES
from retentive.history.versions import versions_of
from retentive.locations import find_store
from retentive.remote import is_remote
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath

_YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
_REDACTED = 'Print a JSON object: {"versions", "pending"}.'
_ERASED = 'Print a JSON object: {"versions", "pending", "memories"}; memories is a list of ids.'

_REDACT = "Permanently remove the text and path of {}?"
_PENDING = (
    "Pending: another process is reading, so the log of the storage still has the removed bytes. After that process has"
    " ended, `retentive redact --finish` or the next removal clears them."
)
_REMNANTS = {
    "postgresql": "The bytes stay in the tables until VACUUM FULL, and in logs and backups until these are deleted.",
    "mariadb": "The bytes stay in the tables until OPTIMIZE TABLE, and in logs and backups until these are deleted.",
    "s3": "If the bucket keeps old versions of objects, they stay until a lifecycle rule deletes them.",
}
_REMNANTS |= {"postgres": _REMNANTS["postgresql"], "gs": _REMNANTS["s3"], "az": _REMNANTS["s3"]}
"""Notes about copies that retentive cannot remove, by the scheme of the location. See docs/history.md."""


@output.command(json=_REDACTED)
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
    pending = removed.pending or not cleared
    text = f"Redacted {output.counted(removed.versions, 'version')}."
    _emit(location, text, {"versions": removed.versions, "pending": pending})


@output.command(json=_ERASED)
@click.argument("path", required=False)
@click.option("--memory", "memory_id", metavar="ID", help="Id of the memory. It may be a deleted memory.")
@click.option("--whole-store", is_flag=True, help="Erase the memory store given with --store, with all its memories.")
@time_option("--older-than", f"Only memories whose last change is before this time: {TIMES}.")
@_YES
def erase(
    location: Location,
    path: str | None,
    *,
    memory_id: str | None,
    whole_store: bool,
    older_than: datetime | None,
    yes: bool,
) -> None:
    """Permanently remove a memory, the memories below a directory, or a whole memory store, with all versions.

    For a directory, deleted memories that were below it are erased too, and the proposals and the paths in the audit
    log that name something below it. For each memory, a record remains. It has the id of the memory, and the actor and
    time of the erasure. After an interruption, run the command again. With --whole-store, --store must be given on the
    command line, so that no store is erased by default.
    """
    if sum((path is not None, memory_id is not None, whole_store)) != 1:
        raise click.UsageError("Specify a path, --memory or --whole-store, but only one of them.")
    if older_than is not None and path is None:
        raise click.UsageError("--older-than works only with a path. Add a path, or leave --older-than out.")
    if whole_store:
        _erase_store(location, location.named_store(), yes=yes)
    elif memory_id is not None:
        _erase_memories(location, memory_id, Target(memory_id=memory_id), yes=yes)
    elif path == ROOT and older_than is None:
        raise InvalidInput(
            f"{path} is the whole memory store; erase the store with --whole-store --store {location.store_key}"
        )
    else:
        _erase_memories(location, str(path), Target(path, older_than=older_than), yes=yes)


def _erase_store(location: Location, key: str, *, yes: bool) -> None:
    with location.opened() as found:
        info = found.get_store(key) if is_remote(found) else find_store(found.backend, key)
        if info is None or info.erased_at is not None:
            raise NotFound(f"the memory store {key!r} does not exist")
        if not yes:
            confirm(f"Permanently erase the memory store {key} with {output.counted(info.memories, 'memory')}?")
        removed = found.erase(info.id)
    value = {"versions": removed.versions, "pending": removed.pending, "memories": []}
    _emit(location, f"Erased the memory store {key}.", value)


@dataclass(frozen=True, slots=True)
class Target:
    """Memories to erase: the memory with the id `memory_id`, or the memories at or below `path`.

    If `older_than` is given, only memories whose last change was before this time are erased.
    """

    path: str | None = None
    memory_id: str | None = None
    older_than: datetime | None = None


def _erase_memories(location: Location, name: str, target: Target, *, yes: bool) -> None:
    with location.existing() as store:
        if is_remote(store):
            _erase_remote(location, store, name, target, yes=yes)
            return
        core = core_of(store)
        path = None if target.path is None else core.parsed(target.path)
        preview = Read("erase.preview", partial(_to_erase, target, path), path, needs_external_edits=True)
        counts = core.peek(preview)
        many = output.counted(len(counts), "memory") + " in " if len(counts) > 1 else ""
        if counts and not yes:
            question = f"Permanently erase {many}{name} with {output.counted(sum(counts.values()), 'version')}?"
            confirm(question, declined=partial(core.result_of, preview))
        if not counts and target.older_than is not None:
            raise NotFound(f"nothing was erased: no memory at or below {name} was last changed before --older-than")
        if target.older_than is None:
            removed = [store.history.erase(target.path, memory_id=target.memory_id)]
        else:
            removed = [store.history.erase(memory_id=each) for each in counts]
    versions = sum(each.versions for each in removed)
    value = {"versions": versions, "pending": any(each.pending for each in removed), "memories": list(counts)}
    _emit(location, f"Erased {many}{name} with {output.counted(versions, 'version')}.", value)


def _erase_remote(location: Location, store: MemoryStore, name: str, target: Target, *, yes: bool) -> None:
    if target.older_than is not None:
        raise InvalidInput("--older-than cannot be used with a server; run the command on the machine of the server")
    memory_id = target.memory_id if target.path is None else store.load(target.path)[0].id
    if not yes:
        confirm(f"Permanently erase {name}?")
    removed = store.history.erase(memory_id=memory_id)
    value = {"versions": removed.versions, "pending": removed.pending, "memories": [memory_id]}
    _emit(location, f"Erased {name} with {output.counted(removed.versions, 'version')}.", value)


def _to_erase(target: Target, path: MemoryPath | None, found: Snapshot) -> dict[str, int]:
    """Return the ids of the memories to erase, each with the number of versions of the memory."""
    if path is None:
        ids = [str(target.memory_id)]
    else:
        memory = None if path.is_root else found.get(path.text).memory
        ids = [memory.id] if memory is not None else memories_below(found, path)
    versions = {each: list(found.versions(memory_id=each)) for each in ids}
    limit = target.older_than
    return {each: len(all_) for each, all_ in versions.items() if all_ and (not limit or all_[0].created_at < limit)}


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
    output.emit(value, plain=f"{what}\n", notes=notes)
