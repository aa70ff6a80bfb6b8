"""`ls`, `view`, `cat`, `stores`: commands that only look."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from retentive.cli import as_of as earlier
from retentive.cli import output
from retentive.cli.location import Place, pass_place
from retentive.cli.times import FORMS, Moment, moment_option
from retentive.storage.contract import Memory, StoreInfo
from retentive.store import MemoryStore
from retentive.values.listing import human_size
from retentive.values.paths import ROOT
from retentive.values.replies import Reply

_as_of_option = moment_option("--as-of", text=f"As it was at a time such as {FORMS}, or right after a version.")
_RANGE = re.compile(r"(-?[0-9]{1,18})(?:(:)(-?[0-9]{1,18})?)?", re.ASCII)


def line_range(_ctx: click.Context, _param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """`A:B`, `A:` (to the end) or `A` (one line), as the `view_range` of the tool."""
    if given is None:
        return None
    form = _RANGE.fullmatch(given)
    if form is None:
        raise click.BadParameter(f"{given!r} is not a range of lines such as 10:20, 10: or 10.")
    first, colon, last = form.groups()
    if colon is None:
        return int(first), int(first)
    return int(first), int(last or -1)


@click.command(cls=output.Command)
@click.argument("path", default=ROOT)
@click.option("--all", "show_all", is_flag=True, help="Show hidden memories too (.name, node_modules), on a terminal.")
@_as_of_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of all, with ids, hashes and times.")
@pass_place
def ls(place: Place, path: str, *, show_all: bool, as_of: Moment | None, as_json: bool) -> None:
    """List the memories below PATH, at any depth.

    On a terminal a table; in a pipe one line for every memory, hidden ones included: its size in bytes, a tab, its
    path.
    """
    with place.existing() as store:
        found = _memories(store, path) if as_of is None else earlier.memories(store, path, as_of)
    output.emit(
        map(_memory_object, found),
        as_json=as_json,
        plain=((str(memory.size_bytes), memory.path) for memory in found),
        shown=_shown(path, found, show_all=show_all),
    )


@click.command(cls=output.Command)
@click.argument("path", default=ROOT)
@click.option(
    "--range", "view_range", metavar="A:B", callback=line_range, help="Only these lines of a memory: 10:20, 10: or 10."
)
@_as_of_option
@output.json_option
@pass_place
def view(place: Place, path: str, *, view_range: tuple[int, int] | None, as_of: Moment | None, as_json: bool) -> None:
    """Show a memory with line numbers, or a directory.

    This is the reply a model gets, word for word; a directory is shown two levels deep.
    """
    given: dict[str, object] = {"command": "view", "path": path, "view_range": view_range}
    with place.existing() as store:
        reply = store.execute(given) if as_of is None else earlier.view(store, given, as_of)
        output.end(reply, as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@_as_of_option
@output.json_option
@pass_place
def cat(place: Place, path: str, *, as_of: Moment | None, as_json: bool) -> None:
    """Print the text of a memory: its exact bytes, nothing added."""
    with place.existing() as store:
        text = store.text(path) if as_of is None else store.history.text_at(path, as_of)[1]
    if as_json:
        output.end(Reply(text), as_json=True)
    output.write(text.encode())


@click.command(cls=output.Command)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_place
def stores(place: Place, *, as_json: bool) -> None:
    """List the memory stores, oldest first.

    On a terminal a table; in a pipe one line for each, with tabs between: id, key, name, number of memories, size in
    bytes, time of creation.
    """
    with place.opened() as found:
        infos = found.stores()
    rows = [_store_object(info) for info in infos]
    output.emit(
        rows,
        as_json=as_json,
        plain=(["" if cell is None else str(cell) for cell in row.values()] for row in rows),
        shown=[output.Table(("size", "memories", "created", "key", "name", "id"), map(_store_row, infos))],
    )


def _memories(store: MemoryStore, path: str) -> list[Memory]:
    found = list(store.memories(path))
    if found or path.rstrip("/") == ROOT:
        return found
    return [store.load(path)[0]]


def _shown(path: str, found: Sequence[Memory], *, show_all: bool) -> list[output.Piece]:
    """The table for people, without hidden memories, and a line that counts them."""
    shown = [memory for memory in found if show_all or not _is_hidden(memory.path, path)]
    rows = ((human_size(each.size_bytes), output.local_time(each.updated_at), each.path) for each in shown)
    hidden = len(found) - len(shown)
    return [
        output.Table(("size", "changed", "path"), rows, empty="" if hidden else "No memories."),
        f"{hidden} hidden; --all shows them." if hidden else "",
    ]


def _is_hidden(path: str, below: str) -> bool:
    """Whether a view of the directory `below` would leave the memory out, at whatever level."""
    names = path[len(below.rstrip("/")) :].split("/")
    return any(name.startswith(".") or name == "node_modules" for name in names)


def _memory_object(memory: Memory) -> dict[str, object]:
    return {
        "id": memory.id,
        "path": memory.path,
        "size_bytes": memory.size_bytes,
        "sha256": memory.sha256,
        "version_id": memory.version_id,
        "created_at": output.timestamp(memory.created_at),
        "updated_at": output.timestamp(memory.updated_at),
    }


def _store_row(info: StoreInfo) -> tuple[str, ...]:
    size, created = human_size(info.size_bytes), output.local_time(info.created_at)
    return size, str(info.memories), created, info.key or "", info.name, info.id


def _store_object(info: StoreInfo) -> dict[str, object]:
    return {
        "id": info.id,
        "key": info.key,
        "name": info.name,
        "memories": info.memories,
        "size_bytes": info.size_bytes,
        "created_at": output.timestamp(info.created_at),
    }
