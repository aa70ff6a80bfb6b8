"""Runs commands of the memory tool, and prints their replies and the versions that they recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.engine.handlers import RunCommand, RunView, Viewed
from retentive.engine.operation import Operation, Read
from retentive.engine.rendering import error_reply, paths_named, rendered
from retentive.errors import Refused, RetentiveError
from retentive.remote import remote_store
from retentive.storage.contract import Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.commands import Append, View, Write, parse
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Recorded
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore

MEMORIES = "Print a JSON list of memories, with path, memory_id, version_id, size_bytes, sha256 and times."
VIEW = 'Print one JSON object: {"text", "is_error", "code", "path", "memory_id", "version_id"}.'
CHANGE = VIEW.replace("}.", ', "changes"}; changes is a list of {"path", "memory_id", "version_id", "operation"}.')


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Result of a command: its reply, the path, and the versions that the command read or recorded.

    `read` is the version that a view showed. `changes` contains the versions that the command recorded. It is empty if
    the output format does not show changes, and None for a command that only reads.
    """

    reply: Reply
    path: str | None = None
    read: Recorded | None = None
    changes: Sequence[Mapping[str, object]] | None = ()
    notes: Sequence[str] = ()


def perform(store: MemoryStore, if_version: str | None = None, /, **given: object) -> Done:
    """Run a command of the memory tool. Errors of input and storage become error replies.

    `given` contains the fields of the command. If `if_version` is given but is not the id of the newest version of the
    memory, nothing is changed.
    """
    there = remote_store(store)
    if there is not None:
        return _remote(there, given, if_version)
    try:
        command = parse(given)
    except Refused:  # `execute` writes the audit entry of a malformed call
        return Done(store.execute(given), changes=None if given["command"] == "view" else ())
    if isinstance(command, View):
        return run(store, RunView(command))
    return run(store, RunCommand(command, if_version))


def perform_text(
    store: MemoryStore, command: type[Write | Append], path: str, text: str, if_version: str | None
) -> Done:
    """Run `write` or `append`. Applications can use these commands; the memory tool of a model does not have them."""
    if remote_store(store) is not None:
        return perform(store, if_version, command=command.name, path=path, file_text=text)
    core = core_of(store)
    try:
        target = core.parsed(path)
    except RetentiveError as error:
        return Done(output.failure(error), path)
    return run(store, RunCommand(command(target, text), if_version=if_version))


def _remote(store: RemoteStore, given: dict[str, object], if_version: str | None) -> Done:
    answer = store.answer(given, if_version)
    path = None if answer.path is None else ROOT + answer.path.rstrip("/")
    if given["command"] == "view":
        is_memory = answer.memory_id is not None
        seen = Recorded(answer.memory_id or "", answer.memory_version_id or "") if is_memory else None
        return Done(answer.reply(), path, seen, None)
    changes = [
        {
            "path": ROOT + each.path,
            "version_id": each.memory_version_id,
            "memory_id": each.memory_id,
            "operation": each.operation,
        }
        for each in answer.changes
    ]
    return Done(answer.reply(), path, changes=changes)


def run(store: MemoryStore, operation: Operation[Any]) -> Done:
    """Run an operation and return its reply. Errors of input and storage become error replies."""
    core, named = core_of(store), paths_named(operation)
    changes = None if isinstance(operation, RunView) else ()
    try:
        outcome = core.run(operation, core.invocation())
        reply = rendered(core, operation, outcome)
    except RetentiveError as error:
        return Done(error_reply(core, error, named), named[-1].text, changes=changes)
    if isinstance(outcome.result, Viewed):
        if outcome.result.memory is not None:
            core.accesses.note(core.id, outcome.result.memory)
        return Done(reply, named[-1].text, version_read(outcome.result), None)
    notes = _explained(store, named) if reply.code == "read_only" else []
    return Done(reply, named[-1].text, changes=_changes(store, outcome.recorded), notes=notes)


def _explained(store: MemoryStore, named: Sequence[MemoryPath]) -> list[str]:
    from retentive.cli.read_only import explanation  # noqa: PLC0415 - only for this error

    return [explanation(store, [path.text for path in named])]


def version_read(result: object) -> Recorded | None:
    """Return the ids of the memory and version that a view showed. Returns None if it showed a directory."""
    memory = result.memory if isinstance(result, Viewed) else None
    return None if memory is None else Recorded(memory.id, memory.version_id)


def memory_object(memory: Memory) -> dict[str, object]:
    """Return the JSON form of a memory."""
    names = ("version_id", "size_bytes", "sha256", "created_at", "updated_at")
    return {"path": memory.path, "memory_id": memory.id, **output.attributes(memory, *names)}


def emit_done(done: Done) -> None:
    """Print a reply. In formats for programs, the path and the changes are printed too.

    If the command read or recorded exactly one version, the ids of its memory and version are also printed.
    """
    if not output.as_object():
        output.emit_reply(done.reply, notes=done.notes)
        return
    only = dict(done.changes[0]) if done.changes and len(done.changes) == 1 else {}
    if done.read is not None:
        only = done.read._asdict()
    value = {
        **output.attributes(done.reply, "text", "is_error", "code"),
        "path": done.path,
        "memory_id": only.get("memory_id"),
        "version_id": only.get("version_id"),
        **({} if done.changes is None else {"changes": done.changes}),
    }
    output.emit(value, error=done.reply.text if done.reply.is_error else "")


def end(done: Done) -> NoReturn:
    """Print a reply and exit with its status."""
    emit_done(done)
    raise click.exceptions.Exit(status_of(done.reply.code) if done.reply.is_error else 0)


def _changes(store: MemoryStore, recorded: Sequence[Recorded]) -> Sequence[Mapping[str, object]]:
    """Return the recorded versions in their JSON form, or nothing if the output format does not show them.

    They are read after the command. This is safe, because versions do not change.
    """

    def work(found: Snapshot) -> list[Mapping[str, object]]:
        versions = [found.version(each.version_id)[0] for each in recorded]
        return [
            {"path": each.path, "memory_id": each.memory_id, "version_id": each.id, "operation": each.operation}
            for each in versions
        ]

    return core_of(store).peek(Read("versions", work, sees_all=True)) if recorded and output.as_object() else ()
