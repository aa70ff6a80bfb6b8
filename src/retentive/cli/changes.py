"""`create`, `write`, `append`, `cp`, `replace`, `insert`, `mv` and `rm`: run commands of the memory tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import READ_ONLY_ADVICE, STORAGE_CODES, Location, failure
from retentive.cli.options import command
from retentive.cli.parameters import flag, named, option, path_argument, text_options
from retentive.engine.handlers import run_command
from retentive.engine.memories import parse_for_applications
from retentive.engine.operation import Read
from retentive.engine.rendering import error_reply, paths_named, rendered
from retentive.errors import Refused, RetentiveError
from retentive.remote import remote_store
from retentive.storage.contract import Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.commands import View
from retentive.values.replies import Reply

MEMORIES = "Print a JSON list of memories, with path, memory_id, version_id, size_bytes, sha256 and times."
CHANGE = (
    'Print one JSON object: {"text", "is_error", "code", "path", "memory_id", "version_id", "changes"}; changes is a'
    ' list of {"path", "memory_id", "version_id", "operation"}.'
)


def perform(store: MemoryStore, name: str, /, if_version: str | None = None, **given: object) -> dict[str, Any]:
    """Run a command that changes memories, and return its `result`. Errors of input and storage become error replies.

    `given` contains the fields of the command; a path may be the id of a memory. If `if_version` is given but is not
    the id of the newest version of the memory, nothing is changed. Only formats for programs list the versions.
    """
    given |= {field: named(store, str(given[field])) for field in ("path", "old_path") if field in given}
    if there := remote_store(store):
        answer = there.answer({"command": name, **given}, if_version)
        changes = [
            output.attributes(each, "path", "memory_id", "operation") | {"version_id": each.memory_version_id}
            for each in answer.changes
        ]
        return result(answer.reply(), answer.path, changes)
    core = core_of(store)
    try:
        parsed = parse_for_applications({"command": name, **given})
    except Refused as refusal:
        return result(core.refused(name, refusal), None, ())
    assert not isinstance(parsed, View)
    operation = run_command(parsed, if_version)
    paths = paths_named(operation)
    try:
        outcome = core.run(operation, core.invocation())
        reply = rendered(core, operation, outcome)
    except RetentiveError as error:
        return result(error_reply(core, error, paths), paths[-1].text, ())

    def work(found: Snapshot) -> list[dict[str, object]]:
        versions = [found.version(each.version_id)[0] for each in outcome.recorded]
        return [
            output.attributes(each, "path", "memory_id", "operation") | {"version_id": each.id} for each in versions
        ]

    shows = outcome.recorded and output.as_object()
    return result(reply, paths[-1].text, core.peek(Read("versions", work, sees_all=True)) if shows else ())


def result(reply: Reply, path: str | None, changes: Sequence[dict[str, object]] | None = None) -> dict[str, Any]:
    """Return the JSON form of the result of a command of the memory tool.

    `changes` are the recorded versions, or None for a view. If there is exactly one, the ids of its memory and version
    are also in the result itself.
    """
    value = output.attributes(reply, "text", "is_error", "code") | {"path": path}
    if changes is None:
        return value
    only = changes[0] if len(changes) == 1 else {}
    return value | {name: only.get(name) for name in ("memory_id", "version_id")} | {"changes": changes}


def memory_object(memory: Memory) -> dict[str, object]:
    """Return the JSON form of a memory."""
    names = ("version_id", "size_bytes", "sha256", "created_at", "updated_at")
    return {"path": memory.path, "memory_id": memory.id, **output.attributes(memory, *names)}


def emit_result(value: dict[str, Any]) -> int:
    """Print the result of a command, and return the exit status."""
    text, code, is_error = value["text"], value["code"], value["is_error"]
    context = click.get_current_context()
    notes = []
    if code == "read_only":
        notes = [READ_ONLY_ADVICE]
    elif code == "already_exists" and context.command is create:
        notes = ["`retentive write` replaces the text of a memory, and `retentive append` adds to it."]
    elif code in STORAGE_CODES and "\nLocation: " not in text:
        notes = [f"Location: {(context.find_object(Location) or Location()).shown}"]
    output.emit(value, "" if is_error else f"{text}\n", error=text if is_error else "", notes=notes)
    return status_of(code) if is_error else 0


def end(value: dict[str, Any]) -> NoReturn:
    """Print the result of a command, and exit with its status."""
    raise click.exceptions.Exit(emit_result(value))


def _run(
    location: Location, name: str, /, if_version: str | None = None, *, creates: bool = False, **given: object
) -> NoReturn:
    with location.created(sweep=True) if creates else location.existing(sweep=True) as store:
        end(perform(store, name, if_version, **given))


def _inside(old_path: str, new_path: str) -> str:
    """Return the new path of a memory or directory. If it ends with a slash, it names the directory to put it into."""
    return f"{new_path}{old_path.rstrip('/').rpartition('/')[2]}" if new_path.endswith("/") else new_path


_version_option = option(
    "--if-version",
    "ID",
    "Change nothing unless this is the newest version of the memory. '' means that the memory must not exist.",
)


@command(json=CHANGE)
@path_argument("path")
@text_options
def create(location: Location, path: str, text: str) -> None:
    """Create a memory at PATH from TEXT, from a file or from standard input.

    An existing memory is kept; `write` replaces it. Creates the location and the memory store if they do not exist.

    \b
    retentive create notes.md "Refunds: within 30 days"
    git log --oneline | retentive create log.txt -
    """
    _run(location, "create", creates=True, path=path, file_text=text)


@command(json=CHANGE)
@path_argument("path")
@text_options
@_version_option
def write(location: Location, path: str, text: str, if_version: str | None) -> None:
    """Create a memory from TEXT, a file or standard input, or replace the whole text of an existing memory.

    PATH may be the id of a memory, mem_... Creates the location and the memory store if they do not exist.

    \b
    pandoc page.html -t markdown | retentive write page.md
    """
    _run(location, "write", if_version, creates=True, path=path, file_text=text)


@command(json=CHANGE)
@path_argument("path")
@text_options
@_version_option
def append(location: Location, path: str, text: str, if_version: str | None) -> None:
    """Append TEXT, a file or standard input to a memory, as whole lines. Creates the memory if it does not exist.

    Creates the location and the memory store if they do not exist.

    \b
    retentive append log.md "14:05 deployed"
    """
    _run(location, "append", if_version, creates=True, path=path, file_text=text)


@command(json=CHANGE)
@path_argument("old_path", metavar="SOURCE")
@path_argument("new_path", metavar="NEW")
def cp(location: Location, old_path: str, new_path: str) -> None:
    """Copy the text of a memory to a new memory. The history stays with SOURCE.

    NEW is the new path and must not exist, or the directory of the copy, with a slash at its end.
    """
    with location.existing(sweep=True) as store:
        source = named(store, old_path)
        end(perform(store, "create", path=_inside(source, new_path), file_text=store.read(source)))


@command(json=CHANGE)
@path_argument("path")
@click.argument("old")
@click.argument("new", default="")
def replace(location: Location, path: str, old: str, new: str) -> None:
    """Replace OLD with NEW. OLD must occur exactly once in the memory. Without NEW, OLD is removed.

    \b
    retentive replace notes.md "30 days" "14 days"
    """
    _run(location, "str_replace", path=path, old_str=old, new_str=new)


@command(json=CHANGE)
@path_argument("path")
@click.argument("line", type=int)
@text_options
def insert(location: Location, path: str, line: int, text: str) -> None:
    """Insert TEXT, a file or standard input after line LINE of a memory.

    The text becomes whole lines. LINE 0 inserts at the top.

    \b
    retentive insert notes.md 0 "# Notes"
    """
    _run(location, "insert", path=path, insert_line=line, insert_text=text)


@command(json=CHANGE)
@path_argument("paths", metavar="PATH...", nargs=-1, required=True)
@_version_option
@flag("-r", "-f", "_", "Has no effect: directories are deleted anyway.", expose_value=False)
def rm(location: Location, paths: Sequence[str], if_version: str | None) -> None:
    """Delete memories, or directories with everything below them.

    PATH may be the id of a memory. A directory is deleted as a whole or not at all. After an error, rm continues with
    the next PATH, and finally exits with the status of the first error. Deleted texts stay in the history, by default
    for a year: `undo` brings them back, and `erase` removes them.
    """
    if if_version is not None and len(paths) > 1:
        raise click.UsageError("--if-version needs a single PATH.")
    statuses = []
    with location.existing(sweep=True) as store:
        for path in paths:
            try:
                value = perform(store, "delete", if_version, path=path)
            except RetentiveError as error:  # an unknown id
                value = result(failure(error), path, ())
            statuses.append(emit_result(value))
    raise click.exceptions.Exit(next(filter(None, statuses), 0))


@command(json=CHANGE)
@path_argument("old_path", metavar="OLD")
@path_argument("new_path", metavar="NEW")
@_version_option
def mv(location: Location, old_path: str, new_path: str, if_version: str | None) -> None:
    """Rename a memory, or a directory with everything below it.

    OLD may be the id of a memory. NEW is the new path and must not exist, or the directory to move OLD into, with a
    slash at its end.
    """
    with location.existing(sweep=True) as store:
        source = named(store, old_path)
        end(perform(store, "rename", if_version, old_path=source, new_path=_inside(source, new_path)))
