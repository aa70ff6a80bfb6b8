"""`create`, `replace`, `insert`, `rm`, `mv`: commands that change memories, each in one change."""

from __future__ import annotations

from collections.abc import Sequence

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.input import text_of_file, text_or_stdin
from retentive.cli.location import Place, pass_place


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("text", required=False)
@output.json_option
@pass_place
def create(place: Place, path: str, text: str | None, *, as_json: bool) -> None:
    """Make a memory at PATH with TEXT, or what is piped in.

    The place and the memory store are made if they are not there.
    """
    given = {"command": "create", "path": path, "file_text": text_or_stdin(text)}
    with place.made(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--old-file", metavar="FILE", help="Read OLD from this file, - for what is piped in.")
@click.option("--new-file", metavar="FILE", help="Read NEW from this file, - for what is piped in.")
@output.json_option
@pass_place
def replace(
    place: Place,
    path: str,
    old: str | None,
    new: str | None,
    *,
    old_file: str | None,
    new_file: str | None,
    as_json: bool,
) -> None:
    """Replace the only occurrence of OLD in a memory by NEW.

    Without NEW it is taken out. With --old-file, the argument after PATH is NEW.
    """
    old_text, new_text = _old_and_new([old, new], old_file, new_file)
    given = {"command": "str_replace", "path": path, "old_str": old_text, "new_str": new_text}
    with place.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("line", type=int)
@click.argument("text", required=False)
@output.json_option
@pass_place
def insert(place: Place, path: str, line: int, text: str | None, *, as_json: bool) -> None:
    """Put lines into a memory, after line LINE.

    TEXT, or what is piped in, becomes lines of its own; after line 0 is the top.
    """
    given = {"command": "insert", "path": path, "insert_line": line, "insert_text": text_or_stdin(text)}
    with place.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@output.json_option
@pass_place
def rm(place: Place, paths: Sequence[str], *, as_json: bool) -> None:
    """Delete memories, or directories with all below them.

    A directory goes at once or not at all. What cannot be deleted is said and the rest deleted; the exit status is that
    of the first error.
    """
    first_error = 0
    with place.existing(sweep=True) as store:
        for path in paths:
            reply = store.execute({"command": "delete", "path": path})
            output.emit_reply(reply, as_json=as_json)
            if reply.is_error:
                first_error = first_error or status_of(reply.code)
    raise click.exceptions.Exit(first_error)


@click.command(cls=output.Command)
@click.argument("old_path", metavar="OLD")
@click.argument("new_path", metavar="NEW")
@output.json_option
@pass_place
def mv(place: Place, old_path: str, new_path: str, *, as_json: bool) -> None:
    """Rename a memory, or a directory with all below it.

    NEW is the whole new path, and must not exist.
    """
    given = {"command": "rename", "old_path": old_path, "new_path": new_path}
    with place.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


def _old_and_new(arguments: Sequence[str | None], old_file: str | None, new_file: str | None) -> tuple[str, str]:
    """The two texts, each from its file or else from the next argument."""
    waiting = [argument for argument in arguments if argument is not None]
    if old_file == new_file == "-":
        raise click.UsageError("Only one of --old-file and --new-file can be -.")
    if old_file is None and not waiting:
        raise click.UsageError("Missing argument 'OLD'; give it, or --old-file.")
    old = text_of_file(old_file) if old_file is not None else waiting.pop(0)
    new = text_of_file(new_file) if new_file is not None else waiting.pop(0) if waiting else ""
    if waiting:
        raise click.UsageError("A text was given twice, as an argument and as a file.")
    return old, new
