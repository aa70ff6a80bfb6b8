"""`ls`, `view` and `cat`: read memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.parameters import line_range, revision_option
from retentive.cli.performed import MEMORIES, VIEW, Done, end, memory_object, perform, version_read
from retentive.engine.handlers import RunView
from retentive.engine.operation import ReadOperation
from retentive.engine.queries import list_memories, load
from retentive.engine.rendering import rendered
from retentive.errors import NotFound, Refused
from retentive.remote import remote_store
from retentive.storage.contract import Memory
from retentive.store import MemoryStore, core_of
from retentive.values.commands import View, parse
from retentive.values.listing import human_size
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.history.revisions import Revision

R = TypeVar("R")
_as_of_option = revision_option(
    "--as-of", text="Show the state at a time or right after a change: HEAD~2, r1234, yesterday, 2h."
)


@output.command(json=MEMORIES)
@click.argument("path", default=ROOT)
@click.option("--all", "show_all", is_flag=True, help="On a terminal, show hidden memories too (.name, node_modules).")
@_as_of_option
def ls(location: Location, path: str, *, show_all: bool, as_of: Revision | None) -> None:
    """List all memories below PATH.

    Prints a table on a terminal. The table has hidden memories only if --all is given. In a pipe, hidden memories are
    always included, and each line has the size in bytes and the path of a memory, separated by a tab.
    """
    with location.existing() as store, output.progress("Reading"):
        found = _memories(store, path, as_of)
    output.emit(
        map(memory_object, found),
        plain=((str(memory.size_bytes), memory.path) for memory in found),
        shown=_shown(path, found, show_all=show_all),
    )


@output.command(json=VIEW)
@click.argument("path", default=ROOT)
@click.option(
    "--range",
    "view_range",
    metavar="A:B",
    callback=line_range,
    help="Show only these lines of a memory: 10:20, 10: or 10.",
)
@_as_of_option
def view(location: Location, path: str, *, view_range: tuple[int, int] | None, as_of: Revision | None) -> None:
    """Show a memory with line numbers, or list a directory.

    Prints exactly the reply that a model gets. A directory is listed two levels deep.
    """
    given: dict[str, object] = {"command": "view", "path": path, "view_range": view_range}
    with location.existing() as store:
        with output.progress("Reading"):
            done = perform(store, **given) if as_of is None else _past_view(store, given, as_of)
        end(done)


@output.command(json="Print a JSON object with the fields of `ls`, and the text.")
@click.argument("path")
@_as_of_option
def cat(location: Location, path: str, *, as_of: Revision | None) -> None:
    """Print the exact bytes of a memory."""
    with location.existing() as store:
        memory, text = store.load(path) if as_of is None else _past_load(store, path, as_of)
    if output.as_object():
        output.emit(memory_object(memory) | {"text": text})
    else:
        output.write(text.encode())


def _past_load(store: MemoryStore, path: str, at: Revision) -> tuple[Memory, str]:
    remote = remote_store(store)
    if remote is not None:
        return remote.load_at(path, at)
    core = core_of(store)
    operation = load(core.parsed(path))
    return core.result_of(_at(at, operation))


def _memories(store: MemoryStore, path: str, at: Revision | None) -> list[Memory]:
    """Return the memories at or below a path, in the state of the revision `at`, or in the current state.

    Raises `NotFound` and `InvalidInput`.
    """
    core = core_of(store)
    target = core.parsed(path)
    remote = remote_store(store)
    if remote is not None and at is None:
        found = remote.memories(path)
        return found or ([] if target.is_root else [_only(store, path)])
    if remote is not None and at is not None:
        found = remote.memories_at(path, at)
    else:
        found = core.result_of(_at(at, list_memories(target, or_at=True)))
    if not found and not target.is_root:
        raise NotFound(f"{path} does not exist" if at is None else f"{path} did not exist at that time")
    return found


def _only(store: MemoryStore, path: str) -> Memory:
    try:
        return store.load(path)[0]
    except NotFound:
        raise NotFound(f"{path} does not exist") from None


def _at(moment: Revision | None, operation: ReadOperation[R]) -> ReadOperation[R]:
    """Return an operation that reads the state at a revision. If `moment` is None, it reads the current state."""
    if moment is None:
        return operation
    from retentive.history.past import AsOf  # noqa: PLC0415 - rarely needed, and slow to import

    return AsOf(operation, moment)


def _shown(path: str, found: Sequence[Memory], *, show_all: bool) -> list[output.Piece]:
    """Return two results for a terminal: the table, and a line with the number of hidden memories.

    The table has hidden memories only if `show_all` is true.
    """
    from retentive.cli import layouts  # noqa: PLC0415 - only terminals need it

    shown = [memory for memory in found if show_all or not _is_hidden(memory.path, path)]
    rows = ((human_size(each.size_bytes), output.local_time(each.updated_at), each.path) for each in shown)
    hidden = len(found) - len(shown)
    return [
        layouts.Table(("size", "changed", "path"), rows, empty="" if hidden else "No memories."),
        f"{hidden} hidden; --all shows them." if hidden else "",
    ]


def _is_hidden(path: str, below: str) -> bool:
    """Return whether the part of the path below `below` has a name that starts with a dot or is `node_modules`."""
    names = path[len(below.rstrip("/")) :].split("/")
    return any(name.startswith(".") or name == "node_modules" for name in names)


def _past_view(store: MemoryStore, given: dict[str, object], at: Revision) -> Done:
    try:
        command = parse(given)
    except Refused as refusal:
        return Done(core_of(store).refused("view.as_of", refusal), changes=None)
    assert isinstance(command, View)
    operation = RunView(command)
    core = core_of(store)
    outcome = core.run(_at(at, operation), core.invocation())
    if outcome.error is not None and not isinstance(outcome.error, Refused):
        raise outcome.error
    reply = rendered(core, operation, outcome)
    return Done(reply, command.path.text, version_read(outcome.result), None)
