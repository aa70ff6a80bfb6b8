"""`export`, `import`, `backup`, `restore-backup` and `migrate`: move memories between locations and files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from glob import glob
from hashlib import sha256
from typing import Any

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import STORAGE_CODES, Location, naming, read_keys, shown
from retentive.cli.options import command
from retentive.cli.parameters import complete_stores, file_to_write, flag, option, path_option
from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.locations import location_exists, parse_location
from retentive.opening import Keys
from retentive.opening import open as open_location
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend
from retentive.store.backup_runs import recorded_backup
from retentive.transfer.archive import COMPRESSED, OF_GZIP, open_archive
from retentive.transfer.copies import Copy
from retentive.transfer.digest import write_digest
from retentive.transfer.elsewhere import import_from
from retentive.transfer.export import back_up, export_files, export_whole
from retentive.transfer.files import mapped_os_errors
from retentive.transfer.formats import FORMATS
from retentive.transfer.import_files import directory_source, import_files, tar_source
from retentive.transfer.location_records import CARRIED, TransferResult
from retentive.transfer.restore import import_whole, restore
from retentive.transfer.restore import migrate as copy_stores
from retentive.values.paths import ROOT
from retentive.values.records import SYSTEM_STORE

_WHOLE = (".tar", *COMPRESSED, *OF_GZIP)
_STORES_HELP = "Key or id of a memory store; may be repeated. The default is all; RETENTIVE_STORE has no effect."
_STORES = option("--store", "stores", "KEY", _STORES_HELP, shell_complete=complete_stores, multiple=True)
_WITH_LOCATION = click.option(
    "--without-keys",
    "with_location",
    flag_value=False,
    default=True,
    help="Leave out API keys, groups and webhook endpoints. With --store, they are left out in any case.",
)


@command(json="Print a JSON object.")
@click.argument("dest", callback=file_to_write)
@flag("--digest", "Write a digest into DEST, a file such as CLAUDE.md or AGENTS.md.")
@option("--budget", "TOKENS", "With --digest: at most these.", type=int, default=1_000, show_default=True)
def export(location: Location, dest: str, *, digest: bool, budget: int) -> None:
    """Export a memory store to DEST: a new directory of plain files, or one file with its whole history.

    DEST is a file if its name ends in .tar, .tar.zst or .tzst. It appears only after it is complete, and is a snapshot;
    the memory store can stay in use. Texts are not encrypted. The audit log, proposals and other records are only in
    backups.

    With --digest, writes or refreshes a marked block in DEST, with the notes used last and the paths of others. The
    rest of DEST stays as it is. Sensitive values and memories in quarantine are left out.

    Exits with status 4 if DEST exists, or if the file system cannot store the name of a memory, and with 13 if stored
    data is damaged; a directory then has the memories that are not damaged.
    """
    with location.existing() as store, output.progress("Exporting") as progress, naming("Destination", dest):
        if digest:
            written = write_digest(store, dest, budget_tokens=budget)
            facts = f"{output.counted(len(written.notes), 'note')} and {output.counted(written.listed, 'path')}"
            changed = "Written" if written.is_changed else "Unchanged"
            output.emit(
                written,
                f"{changed}: {facts}, about {output.counted(written.tokens, 'token')}.\n",
                notes=(f"{path}: {why}" for path, why in written.left_out),
            )
            return
        if dest.endswith(_WHOLE):
            whole = export_whole(store, dest, progress=progress)
            output.emit(whole, f"Exported {_contents(whole)}, as of revision {whole.revision}.\n")
            return
        done = export_files(store, dest, progress=progress)
    output.emit(
        done,
        f"Exported {output.counted(done.memories, 'memory')}, as of revision {done.revision}.\n",
        notes=(f"{path}: {why}" for path, why in done.left_out),
        status=status_of("damaged" if done.damaged else "path_taken") if done.left_out else 0,
    )


@command("import", json="Print a JSON object.")
@click.argument("source")
@path_option("--under", metavar="PATH", default=ROOT, help="Directory for the imported memories.")
@flag("--overwrite", "Replace existing memories, which are kept by default.")
@flag("--dry-run", "Print the result without importing anything.")
@click.option("--from", "kind", type=click.Choice(list(FORMATS)), help="SOURCE is an export of another product.")
@flag("--whole", "SOURCE is an export file; import it as a new memory store with its ids, times and history.")
@option("--as", "key", "KEY", "With --whole: key of the new memory store.  [default: its original key]")
def import_(
    location: Location,
    source: str,
    *,
    under: str,
    overwrite: bool,
    dry_run: bool,
    kind: str | None,
    whole: bool,
    key: str | None,
) -> None:
    """Import files as memories, from a directory or a tar file, or the export of another product (--from).

    If SOURCE contains a directory `memories`, only the files in it are imported. Links are not followed, and files that
    are not text are refused. The guards of the memory store apply. The actor of the changes is job:import.

    With --from, each conversation, user or entity becomes a memory, and the source of the changes is import:FORMAT. A
    later import updates the memories that nobody has edited since, and leaves out those that were deleted. Nothing is
    imported from a broken export.

    For each file, prints a line with the outcome, the path and the reason: `created`, `replaced`, `same` (the memory
    has this text already), `exists` (the memory was kept), `refused`, or `left` for names that never contain memories,
    such as .git, for temporary files of editors, and for deleted imports. Exits with status 1 if a file was refused.
    """
    if (key is not None and not whole) or (whole and (overwrite or dry_run or kind or under != ROOT)):
        raise click.UsageError("--as needs --whole, which excludes --under, --overwrite, --dry-run and --from.")
    if whole:
        _import_whole(location, source, key)
        return
    with (
        naming("Source", source),
        ExitStack() as stack,
        location.created(dry_run=dry_run) as store,
        output.progress("Importing") as progress,
    ):
        options: dict[str, Any] = {"under": under, "overwrite": overwrite, "dry_run": dry_run, "progress": progress}
        inside = None
        if kind is not None:
            done = import_from(store, kind, FORMATS[kind](source), **options)
        else:
            if os.path.isfile(source):
                stack.enter_context(mapped_os_errors())
                try:
                    found = tar_source(stack.enter_context(open(source, "rb")))
                except RetentiveError as error:
                    if fitting := _fitting(source):
                        error.add_note(f"This is an export of another product: add {fitting}.")
                    raise
            else:
                found = directory_source(source)
            inside, done = found.inside, import_files(store, found, **options)
    counts = Counter[str](outcome.became for outcome in done.files)
    totals = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "nothing to import"
    only = f" (only the files in {inside}/)" if inside else ""
    rows = [(each.became, each.path or each.name, *filter(None, [each.why])) for each in done.files]
    summed = {name: counts[name] for name in ("created", "replaced", "same", "exists", "left", "refused")}
    output.emit(
        summed | {"dry_run": dry_run, "inside": inside, "files": done.files},
        output.table(rows, ("became", "path", "why"), header=False),
        rows="files",
        notes=[
            f"{'Would be: ' if dry_run else ''}{totals}{only}.",
            *(["The changes await review."] if done.is_proposed else []),
        ],
        status=status_of("refused") if counts["refused"] else 0,
    )


def _fitting(source: str) -> str:
    """Return the options --from with which the file could be imported."""
    found = []
    for name, read in FORMATS.items():
        with suppress(RetentiveError):
            if name != "basic-memory" or source.endswith(".md"):  # it takes any file
                found += [f"--from {name}"] * any(True for _ in read(source))
    return " or ".join(found)


def _import_whole(location: Location, source: str, key: str | None) -> None:
    with (
        naming("Source", source),
        open_archive(source) as archive,
        location.opened(create=True) as opened,
        output.progress("Importing") as progress,
    ):
        copy = import_whole(archive, opened.backend, key=key, progress=progress)
    output.emit(copy, f"Imported {_contents(copy)} as {copy.key or copy.id}.")


@command(json="Print a JSON object.")
@click.argument("file", callback=file_to_write)
@option("--keep", "N", "FILE is a directory: keep N backups in it.", type=click.IntRange(min=1))
@_STORES
@_WITH_LOCATION
def backup(location: Location, file: str, *, keep: int | None, stores: Sequence[str], with_location: bool) -> None:
    """Back up all memory stores to the new file FILE, with history, settings and records.

    FILE is compressed if its name ends in .tar.zst or .tzst. The backup of each memory store is a snapshot; the stores
    can stay in use. Encrypted memory stores stay encrypted. Their keys are needed only if their earlier texts
    are compressed, which happens in the course of time, and after a restore.

    FILE has API keys (as hashes), groups and webhook endpoints too. Secrets of webhook endpoints are only in it if they
    are encrypted in the location; otherwise a restore makes new ones. Whoever can write FILE can add an API key to it.

    With --keep, FILE is an existing directory. The new file in it is named after the location and the time. Of the
    backups of the same location and memory stores there, all but the newest N are deleted.

    If the location has been served, it records how a backup of all its memory stores ended: GET /metrics shows it.
    """
    location.take_over()
    chosen = _chosen(location, stores)
    with (
        _backend(location.url, location.given_keys()) as opened,
        nullcontext(below_encryption(opened)) as backend,
        nullcontext() if chosen else recorded_backup(backend),
        naming("File", file),
        output.progress("Backing up") as progress,
    ):
        path, deleted, is_directory = file, list[str](), os.path.isdir(file)
        if keep is None and is_directory:
            raise InvalidInput("FILE is a directory; name a new file, or add --keep N for the N newest backups in it")
        if keep is not None:
            if not is_directory:
                raise InvalidInput(f"{file} is not a directory; --keep needs an existing directory")
            prefix = _backup_prefix(location.url, backend, chosen)
            path = os.path.join(file, f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.tar.zst")
        done = back_up(backend, path, stores=chosen, with_location=with_location, progress=progress)
        if keep is not None:
            with mapped_os_errors():
                kept = set(glob(f"{prefix}{'[0-9]' * 8}T{'[0-9]' * 12}Z.tar.zst", root_dir=file))
                deleted = sorted(kept - {os.path.basename(path)})[: 1 - keep or None]
                for each in deleted:
                    with suppress(FileNotFoundError):  # another backup has deleted it
                        os.unlink(os.path.join(file, each))
    lines = [] if keep is None else [f"Written: {path}", *(f"Deleted: {name}" for name in deleted)]
    _emit(done, [f"as of revision {one.revision}" for one in done.stores], *lines, file=path, deleted=deleted)


def _backup_prefix(url: str, backend: Backend, stores: Sequence[str]) -> str:
    """Return the beginning of the names of backups of these memory stores of a location.

    It depends on the place of the location and on its first memory store, so that two hosts with the same place, such
    as /var/lib/memory, can write to one directory.
    """
    scheme, path = parse_location(url)
    place = os.path.realpath(path) if scheme in {None, "sqlite"} else shown(url)
    first = next((info.id for info in backend.list_stores(limit=2) if info.id != SYSTEM_STORE), "")
    return f"retentive-{sha256(' '.join([place, first, *sorted(stores)]).encode()).hexdigest()[:12]}-"


@command("restore-backup", json="Print a JSON object.")
@click.argument("file")
@_STORES
@_WITH_LOCATION
def restore_backup(location: Location, file: str, *, stores: Sequence[str], with_location: bool) -> None:
    """Restore the memory stores in the backup FILE to a location that does not have them.

    The whole file is checked before anything is written. Encrypted memory stores need the same keys as before. After an
    interruption, run the command again. A memory store is refused if it already exists with other versions.

    API keys, groups and webhook endpoints are restored too. Those that the location has already stay as they are. A
    webhook endpoint whose secret is not in FILE gets a new one, which is printed once: give it to the receiver.
    """
    with (
        naming("File", file),
        open_archive(file) as archive,
        _backend(location.url, None, create=True) as backend,
        output.progress("Restoring") as progress,
    ):
        chosen = _chosen(location, stores)
        done = restore(archive, backend, stores=chosen, with_location=with_location, progress=progress)
    _emit(done, [f"{one.added} of them new" for one in done.stores])


@command(json="Print a JSON object.")
@click.argument("target", metavar="TO")
@option("--from-keys", "FILE", "Key file of the location.")
@option("--to-keys", "FILE", "Key file of TO; memory stores are encrypted there.")
@_STORES
@_WITH_LOCATION
def migrate(
    location: Location,
    target: str,
    *,
    from_keys: str | None,
    to_keys: str | None,
    stores: Sequence[str],
    with_location: bool,
) -> None:
    """Copy all memory stores from the location to another location, TO, with ids, history, times and settings.

    API keys, groups and webhook endpoints with their secrets are copied too.

    The location can stay in use: run migrate again to copy later changes, or after an interruption. At the end,
    everything is compared. If you give no keys, encrypted memory stores are copied in encrypted form, and need the same
    keys as before. RETENTIVE_KEYS and RETENTIVE_KEYS_FILE have no effect.
    """
    if "keys" in location.typed:  # if it were ignored, the copy might not be encrypted
        raise click.UsageError(
            "migrate does not take --keys. Use --from-keys for the source location, and --to-keys for TO."
        )
    with naming("TO", shown(target)):
        (scheme, path), (other, to) = parse_location(location.url), parse_location(target)
        is_directory = scheme is None and os.path.realpath(path) == os.path.realpath(to)
        if scheme == other and (path == to or is_directory):
            raise InvalidInput("TO is the same location as the source; choose another target")
    location.take_over()
    stores = _chosen(location, stores)
    with (
        _backend(location.url, from_keys) as origin,
        _backend(target, to_keys, label="TO", create=True) as goal,
        output.progress("Copying") as progress,
    ):
        done = copy_stores(origin, goal, stores=stores, with_location=with_location, progress=progress)
    _emit(done, [f"{one.added} copied now, up to revision {one.revision}" for one in done.stores])


def _chosen(location: Location, stores: Sequence[str]) -> Sequence[str]:
    """Return the stores given with --store before or after the command name. An empty sequence means all stores."""
    return stores or ((location.store_key,) if "store" in location.typed else ())


def _emit(done: TransferResult, remarks: Sequence[str], *more: str, **facts: object) -> None:
    """Print a line for each memory store, and those that name what was carried beside them."""
    lines, carried = [], done.location
    for one, remark in zip(done.stores, remarks, strict=True):
        lines.append(f"{one.key or one.id}: {_contents(one)}, {remark}")
    if carried.records:
        counts = [output.counted(number, CARRIED[kind]) for kind, number in carried.records.items()]
        lines.append(f"Location: {', '.join(counts)}")
    for name in carried.kept:
        what = name.replace("/", " ", 1) if "/" in name else "the audit log of the location"
        lines.append(f"Kept as it is there: {what}")
    secrets = [f"New secret of {new.webhook_endpoint_id} ({new.url}): {new.signing_secret}" for new in carried.secrets]
    text = "".join(f"{line}\n" for line in (*lines, *secrets, *more))
    output.emit(output.attributes(done, "stores", "location") | facts, text, rows="stores")


def _contents(store: Copy) -> str:
    return f"{output.counted(store.memories, 'memory')} and {output.counted(store.versions, 'version')}"


@contextmanager
def _backend(url: str, keys: Keys | None, *, label: str = "Location", create: bool = False) -> Iterator[Backend]:
    """Context manager that opens the backend of a location. `keys` are the keys or the path of their file.

    If `create` is true, a location that does not exist is created. If `create` is false, `NotFound` is raised for it.
    """
    with naming(label, shown(url)):
        parse_location(url)
    if not create and not location_exists(url):
        raise NotFound(f"there is no location {shown(url)}")
    ring = read_keys(keys) if isinstance(keys, str) else keys
    with naming(label, shown(url)):
        opened = open_location(url, keys=ring)
    with naming(label, shown(url), codes=STORAGE_CODES), closing(opened.backend) as backend:
        yield backend
