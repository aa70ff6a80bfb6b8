"""`stores`: list, create, describe and archive memory stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from retentive.cli import layouts, output
from retentive.cli.location import INTEGRATION, Location
from retentive.errors import InvalidInput
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo
from retentive.values.listing import human_size

_JSON = "Print a JSON object with id, key, name, description, metadata, workspace_id, memories, size_bytes and times."
_FIELDS = (
    *("id", "key", "name", "memories", "size_bytes", "created_at", "workspace_id", "description", "metadata"),
    *("updated_at", "archived_at", "damage"),
)
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@output.group("stores", default="list")
def stores() -> None:
    """List, create, describe and archive memory stores."""


def _options(*, name: bool) -> _Decorator:
    """Return a decorator that adds the options --description and --meta of a store to a command.

    If `name` is true, the decorator also adds the option --name.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        text = "Entry of the metadata; may be repeated. Without a value, `stores update` removes the entry."
        command = click.option("--meta", "metadata", metavar="NAME=VALUE", multiple=True, help=text)(command)
        command = click.option("--description", metavar="TEXT", help="What the store is for.")(command)
        return click.option("--name", metavar="TEXT", help="New display name.")(command) if name else command

    return add


_workspace_option: _Decorator = click.option(
    "--workspace", metavar="ID", default=DEFAULT_WORKSPACE, help="Workspace in which the key is looked up."
)


@output.command("list", group=stores, json="Print a JSON list.")
@click.option("--workspace", metavar="ID", help="Only the stores of this workspace.")
@click.option("--archived", "only_archived", is_flag=True, help="Only archived stores.")
def list_(location: Location, *, workspace: str | None, only_archived: bool) -> None:
    """List the memory stores, oldest first.

    Prints a table on a terminal. In a pipe each line has an id, key, name, number of memories, size in bytes and
    creation time, separated by tabs.
    """
    with location.opened() as found:
        infos = [info for info in found.stores() if workspace in {None, info.workspace_id}]
    infos = [info for info in infos if info.archived_at is not None or not only_archived]
    output.emit(
        [output.attributes(info, *_FIELDS) for info in infos],
        plain=map(_row, infos),
        shown=[
            layouts.Table(
                ("size", "memories", "created", "key", "name", "id"),
                map(_shown_row, infos),
                shortens=("id", "name", "key"),
            )
        ],
    )


@output.command("create", group=stores, json=_JSON)
@click.argument("name")
@_options(name=False)
@click.option("--key", metavar="KEY", help="Key of the store. If it is taken, the store with this key is printed.")
@_workspace_option
def create(
    location: Location,
    name: str,
    *,
    description: str | None,
    metadata: tuple[str, ...],
    key: str | None,
    workspace: str,
) -> None:
    """Create a memory store and print it. NAME is its display name; several stores may have the same name.

    Creates the location if it does not exist. Without --key, the store can only be found by its id.
    """
    given = {key: value for key, value in _metadata(metadata).items() if value is not None}
    with location.opened(create=True) as found:
        info = found.create_store(name, description=description or "", metadata=given, key=key, workspace=workspace)
    _emit(info)


@output.command("show", group=stores, json=_JSON)
@click.argument("store")
@_workspace_option
def show(location: Location, store: str, *, workspace: str) -> None:
    """Show the memory store with the given id or key."""
    with location.opened() as found:
        _emit(found.get_store(store, workspace=workspace))


@output.command("update", group=stores, json=_JSON)
@click.argument("store")
@_options(name=True)
@_workspace_option
def update(
    location: Location,
    store: str,
    *,
    name: str | None,
    description: str | None,
    metadata: tuple[str, ...],
    workspace: str,
) -> None:
    """Change the name, the description or the metadata of a memory store. An archived store cannot be changed."""
    if name is None and description is None and not metadata:
        raise click.UsageError("Specify --name, --description or --meta.")
    given = {"name": name, "description": description, "workspace": workspace}
    with location.opened() as found:
        info = found.through(INTEGRATION).update_store(store, metadata=_metadata(metadata), **given)  # type: ignore[arg-type]
    _emit(info)


@output.command("archive", group=stores, json=_JSON)
@click.argument("store")
@_workspace_option
def archive(location: Location, store: str, *, workspace: str) -> None:
    """Archive a memory store permanently.

    An archived store can be read, and its memories can be deleted, redacted and erased. Everything else is refused.
    """
    with location.opened() as found:
        _emit(found.through(INTEGRATION).archive_store(store, workspace=workspace))


def _metadata(given: tuple[str, ...]) -> dict[str, str | None]:
    pairs = [each.partition("=") for each in given]
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise InvalidInput("--meta gives the same entry of the metadata more than once")
    return {name: value if equals else None for name, equals, value in pairs}


def _emit(info: StoreInfo) -> None:
    value = output.attributes(info, *_FIELDS)
    rows = [(name, _cell(each)) for name, each in value.items()]
    output.emit(value, plain=rows, shown=[layouts.Table(("property", "value"), rows, folds=True)])


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return "" if value is None else str(value)


def _shown_row(info: StoreInfo) -> tuple[str, ...]:
    size, created = human_size(info.size_bytes), output.local_time(info.created_at)
    return size, str(info.memories), created, info.key or "", info.name, info.id


def _row(info: StoreInfo) -> tuple[str, ...]:
    counts = str(info.memories), str(info.size_bytes)
    name = info.name if info.damage is None else f"{info.name} (damaged: {info.damage})".lstrip()
    return info.id, info.key or "", name, *counts, output.exact_time(info.created_at)
