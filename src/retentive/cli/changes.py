"""`create`, `write`, `append`, `cp`, `replace`, `insert`, `mv`, `rm`: change memories."""

from __future__ import annotations

from collections.abc import Sequence

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH, VERSION_ID, given_text, text_of_file, text_options
from retentive.cli.performed import CHANGE, emit_done, end, memory_object, perform, perform_text
from retentive.values.commands import Append, Write
from retentive.values.records import Written

_hash_option = click.option(
    "--if-sha256", metavar="HASH", help="Change nothing unless the text of the memory has this sha256."
)
_version_option = click.option(
    "--if-version",
    metavar="ID",
    type=VERSION_ID,
    help="Change nothing unless this is the newest version of the memory. '' means that the memory must not exist.",
)


@output.command(json=CHANGE)
@click.argument("path")
@text_options
def create(location: Location, path: str, text: str | None, file: str | None) -> None:
    """Create a memory at PATH from TEXT, from a file or from standard input.

    An existing memory is kept; `write` replaces it. Creates the location and the memory store if they do not exist.
    """
    content = given_text(text, file)
    with location.created(sweep=True) as store:
        end(perform(store, command="create", path=path, file_text=content))


@output.command(json=CHANGE)
@click.argument("path")
@text_options
@_version_option
def write(location: Location, path: str, text: str | None, file: str | None, *, if_version: str | None) -> None:
    """Create a memory from TEXT, a file or standard input, or replace the whole text of an existing memory.

    Creates the location and the memory store if they do not exist.
    """
    content = given_text(text, file)
    with location.created(sweep=True) as store:
        end(perform_text(store, Write, path, content, if_version))


@output.command(json=CHANGE)
@click.argument("path")
@text_options
@_version_option
def append(location: Location, path: str, text: str | None, file: str | None, *, if_version: str | None) -> None:
    """Append TEXT, a file or standard input to a memory, as whole lines. Creates the memory if it does not exist.

    Creates the location and the memory store if they do not exist.
    """
    content = given_text(text, file)
    with location.created(sweep=True) as store:
        end(perform_text(store, Append, path, content, if_version))


@output.command(json=CHANGE)
@click.argument("old_path", metavar="SOURCE")
@click.argument("new_path", metavar="NEW")
def cp(location: Location, old_path: str, new_path: str) -> None:
    """Copy the text of a memory to a new memory. The history stays with SOURCE.

    NEW is the complete new path and must not exist.
    """
    with location.existing(sweep=True) as store:
        end(perform(store, command="create", path=new_path, file_text=store.read(old_path)))


@output.command(json=CHANGE)
@click.argument("path")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--old-file", metavar="FILE", help="Read OLD from this file; - is standard input.")
@click.option("--new-file", metavar="FILE", help="Read NEW from this file; - is standard input.")
def replace(
    location: Location, path: str, old: str | None, new: str | None, *, old_file: str | None, new_file: str | None
) -> None:
    """Replace OLD with NEW. OLD must occur exactly once in the memory.

    Without NEW, OLD is removed. With --old-file, the argument after PATH is NEW.
    """
    old_text, new_text = _old_and_new([old, new], old_file, new_file)
    with location.existing(sweep=True) as store:
        end(perform(store, command="str_replace", path=path, old_str=old_text, new_str=new_text))


@output.command(json=CHANGE)
@click.argument("path")
@click.argument("line", type=int)
@text_options
def insert(location: Location, path: str, line: int, text: str | None, file: str | None) -> None:
    """Insert TEXT, a file or standard input after line LINE of a memory.

    The text becomes whole lines. LINE 0 inserts at the top.
    """
    content = given_text(text, file)
    with location.existing(sweep=True) as store:
        end(perform(store, command="insert", path=path, insert_line=line, insert_text=content))


@output.command(json=CHANGE)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@_version_option
def rm(location: Location, paths: Sequence[str], *, if_version: str | None) -> None:
    """Delete memories, or directories with everything below them.

    A directory is deleted as a whole or not at all. After an error, rm continues with the next PATH, and finally exits
    with the status of the first error.
    """
    if if_version is not None and len(paths) > 1:
        raise click.UsageError("--if-version needs a single PATH.")
    first_error = 0
    with location.existing(sweep=True) as store:
        for path in paths:
            done = perform(store, if_version, command="delete", path=path)
            emit_done(done)
            if done.reply.is_error:
                first_error = first_error or status_of(done.reply.code)
    raise click.exceptions.Exit(first_error)


@output.command(json=CHANGE)
@click.argument("old_path", metavar="OLD")
@click.argument("new_path", metavar="NEW")
@_version_option
def mv(location: Location, old_path: str, new_path: str, *, if_version: str | None) -> None:
    """Rename a memory, or a directory with everything below it.

    NEW is the complete new path and must not exist.
    """
    with location.existing(sweep=True) as store:
        end(perform(store, if_version, command="rename", old_path=old_path, new_path=new_path))


@output.command(json="Print a JSON object with the fields of `ls`, and the number of `changes`: 0 or 1.")
@click.argument("memory_id", metavar="MEMORY_ID")
@text_options
@click.option("--path", "new_path", metavar="PATH", type=MEMORY_PATH, help="New path of the memory.")
@_hash_option
def update(
    location: Location,
    memory_id: str,
    text: str | None,
    file: str | None,
    *,
    new_path: str | None,
    if_sha256: str | None,
) -> None:
    """Change the text or the path of the memory with the given id. A change of both adds only one version.

    If neither TEXT nor --file is given, only the path changes. If TEXT is `-`, the text is read from standard input. If
    the memory already has this text and path, nothing is changed, and --if-sha256 is not checked.
    """
    content = None if text is None and file is None else given_text(text, file)
    with location.existing(sweep=True) as store:
        _emit_written(store.by_id.update(memory_id, text=content, path=new_path, if_sha256=if_sha256), "Updated")


@output.command("delete-id", json="Print a JSON object with the fields of `ls`, and the number of `changes`.")
@click.argument("memory_id", metavar="MEMORY_ID")
@_hash_option
def delete_id(location: Location, memory_id: str, *, if_sha256: str | None) -> None:
    """Delete the memory with the given id."""
    with location.existing(sweep=True) as store:
        _emit_written(store.by_id.delete(memory_id, if_sha256=if_sha256), "Deleted")


def _emit_written(done: Written, verb: str) -> None:
    assert done.memory is not None
    said = f"{verb} {done.path}." if done.memories else f"{done.path} already has this content; nothing was changed."
    text = "\n".join([said, *done.notes, *(["This change awaits review."] if done.is_proposed else [])])
    output.emit(memory_object(done.memory) | {"changes": done.memories}, plain=text + "\n")


def _old_and_new(arguments: Sequence[str | None], old_file: str | None, new_file: str | None) -> tuple[str, str]:
    """Return the old and the new text. Each is read from its file, or taken from the next argument.

    The new text is empty if it is not given. Raises `UsageError` if the arguments do not fit.
    """
    waiting = [argument for argument in arguments if argument is not None]
    if old_file == new_file == "-":
        raise click.UsageError("Only one of --old-file and --new-file can be -.")
    if old_file is None and not waiting:
        raise click.UsageError("Missing argument 'OLD'. Pass it, or --old-file.")
    old = text_of_file(old_file) if old_file is not None else waiting.pop(0)
    new = text_of_file(new_file) if new_file is not None else waiting.pop(0) if waiting else ""
    if waiting:
        raise click.UsageError("A text was passed twice, as an argument and as a file.")
    return old, new
