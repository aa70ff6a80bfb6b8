"""`redact` and `erase`: making things go for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import FAILED
from retentive.cli.location import Location, pass_location
from retentive.errors import NotFound
from retentive.locations import find_store
from retentive.storage import capabilities
from retentive.storage.contract import Version
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from retentive.history.removal import Removed

_yes_option = click.option("--yes", is_flag=True, help="Do not ask. Needed where nobody can be asked.")
_json_option = click.option("--json", "as_json", is_flag=True, help='Print a JSON object: {"versions", "pending"}.')

_PENDING = (
    "Pending: another process is reading, so bytes of it still rest in the storage's log. When that process has ended,"
    " `retentive redact --finish` or the next removal clears it."
)
_RESTS = {
    "postgresql": "Its bytes rest in the tables until VACUUM FULL, and in the log and backups until these go.",
    "mariadb": "Its bytes rest in the tables until OPTIMIZE TABLE, and in logs and backups until these go.",
    "s3": "Where the bucket keeps old versions of objects, they stay until its lifecycle rule deletes them.",
}
_RESTS |= {"postgres": _RESTS["postgresql"], "gs": _RESTS["s3"], "az": _RESTS["s3"]}
"""What is not in the hands of retentive, by the beginning of the place; docs/history.md says more."""


@click.command(cls=output.Command)
@click.argument("version_ids", metavar="[VERSION]...", nargs=-1)
@click.option("--all-of", metavar="PATH", help="All versions of a memory or below a directory, but what is there now.")
@click.option("--finish", is_flag=True, help="Remove nothing more, but end what is still pending.")
@_yes_option
@_json_option
@pass_location
def redact(
    location: Location, version_ids: tuple[str, ...], *, all_of: str | None, finish: bool, yes: bool, as_json: bool
) -> None:
    """Remove text, path, size and hash of versions for good. Who changed what and when stays.

    The newest version of a memory that is there cannot be redacted: write a new one first, or delete it.
    """
    if sum((bool(version_ids), all_of is not None, finish)) != 1:
        raise click.UsageError("Name one: versions, --all-of or --finish.")
    with location.existing() as store:
        chosen = list(version_ids) if all_of is None else _older(store, all_of)
        if chosen:
            _ask(f"Remove the text and path of {_versions(len(chosen))} for good?", yes=yes)
        cleared = not finish or capabilities.purge(store.backend)
        removed = store.history.redact(chosen)
    pending = removed.pending or not cleared
    _say(location, f"Redacted {_versions(removed.versions)}.", removed.versions, pending=pending, as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path", required=False)
@click.option("--memory", "memory_id", metavar="ID", help="A memory by its id, also one that was deleted.")
@click.option("--whole-store", metavar="KEY", help="A memory store by key or id, with all that is in it.")
@_yes_option
@_json_option
@pass_location
def erase(
    location: Location, path: str | None, *, memory_id: str | None, whole_store: str | None, yes: bool, as_json: bool
) -> None:
    """Remove a memory with all its versions for good, or a whole memory store.

    That it was there, who erased it and when stays, under its id; nothing else.
    """
    if sum(given is not None for given in (path, memory_id, whole_store)) != 1:
        raise click.UsageError("Name one: a path, --memory or --whole-store.")
    if whole_store is not None:
        what, removed = _erase_store(location, whole_store, yes=yes)
    else:
        what, removed = _erase_memory(location, path, memory_id, yes=yes)
    _say(location, what, removed.versions, pending=removed.pending, as_json=as_json)


def _erase_store(location: Location, key: str, *, yes: bool) -> tuple[str, Removed]:
    with location.opened() as found:
        info = find_store(found.backend, key)
        if info is None or info.erased_at is not None:
            raise NotFound(f"there is no memory store {key}")
        _ask(f"Erase the memory store {key} with its {info.memories} memories for good?", yes=yes)
        return f"Erased the memory store {key}.", found.erase(info.id)


def _erase_memory(location: Location, path: str | None, memory_id: str | None, *, yes: bool) -> tuple[str, Removed]:
    with location.existing() as store:
        memory = memory_id if path is None else _memory_at(store, path)
        name = path or memory
        count = len(store.history.log(memory_id=memory))
        if count:
            _ask(f"Erase {name} with its {_versions(count)} for good?", yes=yes)
        removed = store.history.erase(memory_id=memory)
        return f"Erased {name} with {_versions(removed.versions)}.", removed


def _memory_at(store: MemoryStore, path: str) -> str:
    """The id of the memory at a path. Raises `NotFound`, which tells how to name one that lay there."""
    try:
        return store.load(path)[0].id
    except NotFound as error:
        last = next(iter(store.history.log(path, limit=1)), None)
        if last is None or any(True for _ in store.memories(path)):
            raise
        raise NotFound(f"{error}; the one that lay there last: --memory {last.memory_id}") from None


def _older(store: MemoryStore, path: str) -> list[str]:
    """The versions of what lies or lay at a path that are not the present of a memory, and still have something."""
    present = {memory.version_id for memory in store.memories()}
    found: list[Version] = store.history.log(path)
    if not found:
        raise NotFound(f"there never was a memory at {path}, or nothing is known of it any more")
    return [version.id for version in found if version.id not in present and version.redacted_at is None]


def _ask(question: str, *, yes: bool) -> None:
    """Go on only if a person says so, or `--yes` did."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("Nothing was removed. It would be for good: say --yes where nobody can be asked.")
    if not click.confirm(output.harmless(question), err=True):
        click.echo("Nothing was removed.", err=True)
        raise click.exceptions.Exit(FAILED)


def _say(location: Location, what: str, versions: int, *, pending: bool, as_json: bool) -> None:
    rests = _RESTS.get(location.url.partition("://")[0].partition("+")[0])
    output.emit(
        {"versions": versions, "pending": pending},
        as_json=as_json,
        plain=f"{what}\n",
        notes=[*([_PENDING] if pending else []), *([] if rests is None else [rests])],
    )


def _versions(number: int) -> str:
    return "1 version" if number == 1 else f"{number} versions"
