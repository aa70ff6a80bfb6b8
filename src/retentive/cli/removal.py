"""`redact` and `erase`: remove texts permanently."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from retentive.cli import layouts, output
from retentive.cli.exits import FAILED
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH
from retentive.engine.operation import Read
from retentive.errors import NotFound
from retentive.history.past import versions_of
from retentive.locations import find_store
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot
from retentive.values.paths import ROOT, MemoryPath

if TYPE_CHECKING:
    from retentive.history.removal import Removed

_YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
_JSON = 'Print a JSON object: {"versions", "pending"}.'

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
"""Copies that retentive cannot remove, by the scheme of the location. See docs/history.md."""


@output.command(json=_JSON)
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

    The newest version of an existing memory cannot be redacted: change or delete the memory first.
    """
    if sum((bool(version_ids), all_of is not None, finish)) != 1:
        raise click.UsageError("Specify versions, --all-of or --finish.")
    with location.existing() as store:
        if all_of is not None and not yes:
            with store.checking("redact"):
                path = store.parsed(all_of)
            preview = Read("redact.preview", partial(_old, path), path, needs_external_edits=True)
            if count := store.peek(preview):
                confirm(_REDACT.format(output.counted(count, "version")), declined=partial(store.result_of, preview))
        elif version_ids and not yes:
            confirm(_REDACT.format(output.counted(len(version_ids), "version")))
        cleared = not finish or capabilities.purge(store.backend)
        removed = store.history.redact(version_ids, all_of=all_of)
    pending = removed.pending or not cleared
    _emit(location, f"Redacted {output.counted(removed.versions, 'version')}.", removed.versions, pending=pending)


@output.command(json=_JSON)
@click.argument("path", required=False)
@click.option("--memory", "memory_id", metavar="ID", help="Id of the memory, which may be deleted.")
@click.option("--whole-store", metavar="KEY", help="Key or id of a memory store to erase with all its memories.")
@_YES
def erase(location: Location, path: str | None, *, memory_id: str | None, whole_store: str | None, yes: bool) -> None:
    """Permanently remove a memory with all its versions, or a whole memory store.

    Only a record under its id remains, with the actor and the time of the erasure.
    """
    if sum(given is not None for given in (path, memory_id, whole_store)) != 1:
        raise click.UsageError("Specify a path, --memory or --whole-store.")
    if whole_store is not None:
        what, removed = _erase_store(location, whole_store, yes=yes)
    else:
        what, removed = _erase_memory(location, path, memory_id, yes=yes)
    _emit(location, what, removed.versions, pending=removed.pending)


def _erase_store(location: Location, key: str, *, yes: bool) -> tuple[str, Removed]:
    with location.opened() as found:
        info = find_store(found.backend, key)
        if info is None or info.erased_at is not None:
            raise NotFound(f"the memory store {key!r} does not exist")
        if not yes:
            confirm(f"Permanently erase the memory store {key} with {output.counted(info.memories, 'memory')}?")
        return f"Erased the memory store {key}.", found.erase(info.id)


def _erase_memory(location: Location, path: str | None, memory_id: str | None, *, yes: bool) -> tuple[str, Removed]:
    with location.existing() as store:
        name, memory = path or memory_id, memory_id
        if not yes:
            with store.checking("erase"):
                target = None if path is None else store.parsed(path)
            preview = Read(
                "erase.preview", partial(_versions_to_erase, target, memory_id), target, needs_external_edits=True
            )
            memory, count = store.peek(preview)
            if count:
                question = f"Permanently erase {name} with {output.counted(count, 'version')}?"
                confirm(question, declined=partial(store.result_of, preview))
        removed = store.history.erase(path if memory is None else None, memory_id=memory)
        return f"Erased {name} with {output.counted(removed.versions, 'version')}.", removed


def _versions_to_erase(path: MemoryPath | None, memory_id: str | None, found: Snapshot) -> tuple[str | None, int]:
    """The id of the memory to erase and the number of its versions. The id is None if the memory does not exist."""
    if path is not None:
        memory = None if path.is_root else found.get(path.text).memory
        memory_id = None if memory is None else memory.id
    return memory_id, 0 if memory_id is None else len(list(found.versions(memory_id=memory_id)))


def _old(path: MemoryPath, found: Snapshot) -> int:
    """The number of old versions at or below a path that are not redacted yet."""
    present = {memory.version_id for memory in found.memories(ROOT)}
    return sum(version.id not in present and version.redacted_at is None for version in versions_of(found, path))


def confirm(question: str, *, declined: Callable[[], object] | None = None) -> None:
    """Ask for confirmation. Without it, call `declined` and exit. Raises `UsageError` without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "Nothing was removed. Removal is permanent; without a terminal to confirm it, pass --yes."
        )
    if not click.confirm(layouts.harmless(question), err=True):
        if declined is not None:
            declined()
        click.echo("Nothing was removed.", err=True)
        raise click.exceptions.Exit(FAILED)


def _emit(location: Location, what: str, versions: int, *, pending: bool) -> None:
    remnant = _REMNANTS.get(location.url.partition("://")[0].partition("+")[0])
    output.emit(
        {"versions": versions, "pending": pending},
        plain=f"{what}\n",
        notes=[*([_PENDING] if pending else []), *([] if remnant is None else [remnant])],
    )
