"""`export`, `import`, `backup`, `restore-backup` and `migrate`: memories on their way in and out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, pass_location, shown
from retentive.errors import InvalidInput, NotFound
from retentive.locations import is_there, open_backend
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.storage.contract import Backend
    from retentive.store import MemoryStore
    from retentive.transfer.archive_reader import Archive
    from retentive.transfer.import_files import Outcome
    from retentive.transfer.sources import Source

_WHOLE = (".tar", ".tar.gz", ".tgz")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
_STORES = click.option(
    "--store", "stores", metavar="KEY", multiple=True, help="Only this memory store, by key or id; may be repeated."
)


@click.command(cls=output.Command)
@click.argument("dest")
@click.option("--notes", is_flag=True, help="Into a file: also what is kept beside memories, such as proposals.")
@_JSON
@pass_location
def export(location: Location, dest: str, *, notes: bool, as_json: bool) -> None:
    """Write a memory store to DEST: a new directory of plain files, or one file with its whole history.

    DEST is a file if its name ends in .tar, .tar.gz or .tgz. It is complete when it has its name, as the store was at
    one moment; others may go on writing meanwhile. Texts are written plain, also those of a sealed store. Ends with
    status 4 if DEST is there, or if the file system cannot hold the name of some memory; with 13 if what is stored is
    damaged: then a directory has the other memories, and a file is not made.
    """
    from retentive.transfer.export import export_files, export_whole  # noqa: PLC0415 - not free to import

    with location.existing() as store, output.progress("Exporting") as progress:
        if dest.endswith(_WHOLE):
            done = export_whole(store, dest, notes=notes, progress=progress)
        else:
            done = export_files(store, dest, progress=progress)
    versions = "" if done.versions is None else f" and {done.versions} versions"
    output.emit(
        asdict(done),
        as_json=as_json,
        plain=f"Exported {done.memories} memories{versions}, as of revision {done.revision}.\n",
        notes=(f"{path}: {why}" for path, why in done.left_out),
    )
    if done.left_out:
        raise click.exceptions.Exit(status_of("damaged" if done.damaged else "path_taken"))


@click.command("import", cls=output.Command)
@click.argument("source")
@click.option(
    "--git", "revision", metavar="REV", help="SOURCE is a Git repository: its files at REV, or REV:DIRECTORY."
)
@click.option("--under", metavar="PATH", default=ROOT, show_default=True, help="The directory they go to.")
@click.option("--overwrite", is_flag=True, help="Replace memories that are there; they are left as they are otherwise.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and do nothing.")
@click.option("--whole", is_flag=True, help="Of an export: a new memory store with its ids, times and whole history.")
@click.option("--as", "key", metavar="KEY", help="With --whole: the key of the new memory store, if not that it had.")
@_JSON
@pass_location
def import_(
    location: Location,
    source: str,
    *,
    revision: str | None,
    under: str,
    overwrite: bool,
    dry_run: bool,
    whole: bool,
    key: str | None,
    as_json: bool,
) -> None:
    """Make memories of files: of a directory, a Git repository or an export.

    Of a directory in which there is a directory `memories`, the files in that. Links are not followed, and what is no
    text is left. The guards of the memory store hold, as for any change; the actor is job:import. One line is printed
    for each file: created, replaced, same, exists (and was kept) or refused, the path, and why; and one for what never
    holds memories, such as .git: left. Ends with status 1 if a file was refused.
    """
    if key is not None and not whole:
        raise click.UsageError("--as goes with --whole")
    if whole:
        if revision is not None or overwrite or dry_run or under != ROOT:
            raise click.UsageError("--whole goes with no other option but --as")
        _import_whole(location, source, key, as_json=as_json)
        return
    from retentive.transfer.import_files import Import  # noqa: PLC0415 - not free to import

    counts: Counter[str] = Counter()
    told: list[dict[str, object]] = []
    with ExitStack() as stack:
        found = stack.enter_context(_source(source, revision))
        store = stack.enter_context(_store(location, dry_run=dry_run))
        progress = stack.enter_context(output.progress("Importing"))
        for outcome in Import(store, under=under, overwrite=overwrite, dry_run=dry_run).run(found, progress):
            counts[outcome.became] += 1
            told.append(asdict(outcome)) if as_json else _tell(outcome)
    summed = {name: counts[name] for name in ("created", "replaced", "same", "exists", "left", "refused")}
    output.emit(
        {**summed, "dry_run": dry_run, "inside": found.inside, "files": told},
        as_json=as_json,
        notes=[_totals(counts, found.inside, dry_run=dry_run)],
    )
    if counts["refused"]:
        raise click.exceptions.Exit(status_of("refused"))


def _tell(outcome: Outcome) -> None:
    why = [outcome.why] if outcome.why else []
    output.emit_row([outcome.became, outcome.path or outcome.name, *why], widths=[len("replaced")])


def _totals(counts: Counter[str], inside: str | None, *, dry_run: bool) -> str:
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to import"
    where = f" (only what is in {inside}/)" if inside is not None else ""
    return f"{'Would be: ' if dry_run else ''}{said}{where}."


def _import_whole(location: Location, source: str, key: str | None, *, as_json: bool) -> None:
    from retentive.transfer.archive_reader import open_archive  # noqa: PLC0415 - not free to import
    from retentive.transfer.restore import import_whole  # noqa: PLC0415

    with (
        open_archive(source) as archive,
        location.opened(create=True) as found,
        output.progress("Importing") as progress,
    ):
        done = import_whole(archive, found.backend, key=key, progress=progress)
    text = f"Imported {done.memories} memories and {done.versions} versions as {done.key or done.id}.\n"
    output.emit(asdict(done), as_json=as_json, plain=text)


@click.command(cls=output.Command)
@click.argument("location")
@click.argument("file")
@_STORES
@_JSON
def backup(location: str, file: str, *, stores: Sequence[str], as_json: bool) -> None:
    """Write all memory stores at PLACE to the new file FILE, with history, settings and notes.

    PLACE is what --at would be; FILE is compressed if its name ends in .tar.gz or .tgz. Each store is as it was at one
    moment; others may go on writing. No keys are needed: what is sealed is sealed in the backup too, and is worth
    nothing without its keys. Try a backup now and then by restoring it.
    """
    from retentive.transfer.backup import back_up  # noqa: PLC0415 - not free to import

    with _backend(location, None) as backend, output.progress("Backing up") as progress:
        done = back_up(backend, file, stores=stores, progress=progress)
    lines = [
        f"{one.key or one.id}: {one.memories} memories and {one.versions} versions, as of revision {one.revision}\n"
        for one in done
    ]
    output.emit({"stores": [asdict(one) for one in done]}, as_json=as_json, plain="".join(lines))


@click.command("restore-backup", cls=output.Command)
@click.argument("file")
@click.argument("location")
@_STORES
@_JSON
def restore_backup(file: str, location: str, *, stores: Sequence[str], as_json: bool) -> None:
    """Restore the memory stores in FILE, a backup, to PLACE, where they are not.

    The whole file is checked before anything is written. Ids, versions and times are as they were, and sealed stores
    open with the keys they had. Broken off, it can be run again. A store that is there with other versions is refused.
    """
    from retentive.transfer.archive_reader import open_archive  # noqa: PLC0415 - not free to import
    from retentive.transfer.restore import restore  # noqa: PLC0415

    with (
        open_archive(file) as archive,
        _backend(location, None, create=True) as backend,
        output.progress("Restoring") as progress,
    ):
        done = restore(archive, backend, stores=stores, progress=progress)
    lines = [
        f"{one.key or one.id}: {one.memories} memories and {one.versions} versions, {one.added} of them new\n"
        for one in done
    ]
    output.emit({"stores": [asdict(one) for one in done]}, as_json=as_json, plain="".join(lines))


@click.command(cls=output.Command)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--from-keys", metavar="FILE", help="The key file of FROM.")
@click.option("--to-keys", metavar="FILE", help="The key file of TO: memory stores are sealed there.")
@click.option("--seal-paths", is_flag=True, help="With --to-keys: memory stores that are made hide their paths too.")
@_STORES
@_JSON
def migrate(
    source: str,
    target: str,
    *,
    from_keys: str | None,
    to_keys: str | None,
    seal_paths: bool,
    stores: Sequence[str],
    as_json: bool,
) -> None:
    """Copy all memory stores from one place to another, with ids, history, times, settings and notes.

    Others may go on writing to FROM: what was written after the copy is fetched by running it again, and a copy that
    was broken off goes on where it was. In the end everything is compared. Without keys, what is sealed is copied as
    it rests and opens with the keys it had; --keys and its variables have no part in it.
    """
    from retentive.transfer.migrate import migrate as run  # noqa: PLC0415 - not free to import

    if seal_paths and to_keys is None:
        raise InvalidInput("paths can be sealed only with keys")
    if _same(source, target):
        raise InvalidInput("both places are the same")
    with (
        _backend(source, from_keys) as origin,
        _backend(target, to_keys, create=True, seal_paths=seal_paths) as goal,
        output.progress("Copying") as progress,
    ):
        done = run(origin, goal, stores=stores, progress=progress)
    lines = []
    for one in done:
        copied = f"{one.memories} memories and {one.versions} versions, {one.copied} copied now"
        more = "; more was written meanwhile, run it again" if one.behind else ""
        lines.append(f"{one.key or one.id}: {copied}, up to revision {one.revision}{more}\n")
    output.emit({"stores": [asdict(one) for one in done]}, as_json=as_json, plain="".join(lines))


def _same(source: str, target: str) -> bool:
    return source == target or ("://" not in source + target and os.path.realpath(source) == os.path.realpath(target))


@contextmanager
def _backend(url: str, keys: str | None, *, create: bool = False, seal_paths: bool = False) -> Iterator[Backend]:
    """The backend at a place, sealed if there are keys. Raises `NotFound` if nothing is there, unless `make`."""
    if not create and not is_there(url):
        raise NotFound(f"there is no memory at {shown(url)}")
    if keys is None:
        backend = open_backend(url)
    else:
        from retentive.opening import open as open_location  # noqa: PLC0415 - the start of every command waits

        backend = open_location(url, keys=keys, seal_paths=seal_paths).backend
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def _source(source: str, revision: str | None) -> Iterator[Source]:
    """What to import."""
    from retentive.transfer.archive_reader import open_archive  # noqa: PLC0415 - not free to import
    from retentive.transfer.git_source import GitSource  # noqa: PLC0415
    from retentive.transfer.sources import ArchiveSource, DirectorySource  # noqa: PLC0415

    if revision is not None:
        yield GitSource(source, revision)
    elif os.path.isfile(source):
        archive: Archive
        with open_archive(source) as archive:
            yield ArchiveSource(archive)
    else:
        yield DirectorySource(source)


@contextmanager
def _store(location: Location, *, dry_run: bool) -> Iterator[MemoryStore]:
    """The store to import to; for a dry run where there is none, an empty one that is nowhere."""
    if not dry_run:
        with location.created() as store:
            yield store
        return
    import retentive  # noqa: PLC0415 - what is imported here is loaded already

    with ExitStack() as stack:
        try:
            store = stack.enter_context(location.existing())
        except NotFound:
            store = stack.enter_context(retentive.open("sqlite://")).store()
        yield store
