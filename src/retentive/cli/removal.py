"""`redact` and `erase`: permanently remove texts and memories."""

from __future__ import annotations

import click

from retentive.cli import output
from retentive.cli.location import Location, no_store
from retentive.cli.options import command
from retentive.cli.parameters import MEMORY_PATH, is_memory_id
from retentive.errors import InvalidInput, NotFound
from retentive.history.removal import Removed
from retentive.locations import find_store, local_path
from retentive.remote import is_remote
from retentive.values.paths import ROOT

_YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
_PENDING = (
    "Pending: another process is reading, so the log of the storage still has the removed bytes. After that process has"
    " ended, `retentive admin maintain` or the next removal clears them."
)
_REMNANTS = "The database server or object store may keep the bytes for some time; see docs/history.md."


@command(json='Print a JSON object: {"versions", "pending"}.')
@click.argument("version_ids", metavar="[VERSION]...", nargs=-1)
@click.option(
    "--all-of",
    metavar="PATH",
    type=MEMORY_PATH,
    help="Redact all old versions of a memory, or of the memories below a directory.",
)
@_YES
def redact(location: Location, version_ids: tuple[str, ...], *, all_of: str | None, yes: bool) -> None:
    """Permanently remove the text, path, size and hash of versions. Ids, actors and times are kept.

    The newest version of an existing memory cannot be redacted: change or delete the memory first. If nothing is left
    to redact, the status is 3.

    \b
    retentive redact --all-of notes.md --yes
    """
    if bool(version_ids) == (all_of is not None):
        raise click.UsageError("Specify versions or --all-of, but only one of them.")
    many = output.counted(len(version_ids), "version") if all_of is None else f"all old versions of {all_of}"
    with location.existing() as store:
        confirm(f"Permanently remove the text and path of {many}?", yes=yes)
        removed = store.history.redact(version_ids, all_of=all_of)
    if not removed.versions:
        what = "the versions are redacted already" if all_of is None else f"{all_of} has no old version with a text"
        raise NotFound(f"nothing was redacted: {what}")
    _emit(location, f"Redacted {output.counted(removed.versions, 'version')}.", removed)


@command(json='Print a JSON object: {"versions", "pending"}.')
@click.argument("path", required=False)
@click.option("--whole-store", is_flag=True, help="Erase the memory store given with --store, with all its memories.")
@_YES
def erase(location: Location, path: str | None, *, whole_store: bool, yes: bool) -> None:
    """Permanently remove a memory, the memories below a directory, or a whole memory store, with all versions.

    PATH may be the id of a memory, also of a deleted one. For a directory, deleted memories that were below it are
    erased too, and the proposals and the paths in the audit log that name something below it. For each memory, a record
    remains. It has the id of the memory, and the actor and time of the erasure. After an interruption, run the command
    again. With --whole-store, --store must be given on the command line, so that no store is erased by default.

    \b
    retentive erase customers/ada.md
    retentive erase customers/ --yes
    """
    if (path is None) != whole_store:
        raise click.UsageError("Specify a path or --whole-store, but only one of them.")
    if path == ROOT:
        store_key = location.store_key
        raise InvalidInput(f"{path} is the whole memory store; erase it with --whole-store --store {store_key}")
    if path is None:
        key = location.named_store()
        with location.opened() as found:
            info = found.get_store(key) if is_remote(found) else find_store(found.backend, key)
            if info is None or info.erased_at is not None:
                raise no_store(key)
            many = output.counted(info.memories, "memory")
            confirm(f"Permanently erase the memory store {key} with {many}?", yes=yes)
            removed = found.erase(info.id)
        _emit(location, f"Erased the memory store {key}.", removed)
        return
    with location.existing() as store:
        below = [] if yes or is_memory_id(path) else store.memories(path)
        many = f" with {output.counted(len(below), 'memory')} and their" if below else " and its"
        confirm(f"Permanently erase {path}{many} history?", yes=yes)
        removed = store.history.erase(memory_id=path) if is_memory_id(path) else store.history.erase(path)
    _emit(location, f"Erased {path} with {output.counted(removed.versions, 'version')}.", removed)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user to confirm a removal, unless the option --yes was given. Returns only if the user agrees."""
    if not yes:
        output.confirm(
            question,
            without_terminal="Nothing was removed. Removal is permanent; without a terminal to confirm it, pass --yes.",
            declined="Nothing was removed.",
        )


def _emit(location: Location, text: str, removed: Removed) -> None:
    notes = [*([_PENDING] if removed.pending else []), *([] if local_path(location.url) else [_REMNANTS])]
    output.emit(removed, f"{text}\n", notes=notes)
