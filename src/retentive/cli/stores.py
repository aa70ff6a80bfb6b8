"""`init`, `stores` and `settings`: create and describe memory stores, and change their limits and permissions."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import click

from retentive.cli import output
from retentive.cli.location import INTEGRATION, Location
from retentive.cli.options import Group, command
from retentive.cli.parameters import Decorator, flag, option
from retentive.errors import InvalidInput
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo
from retentive.values.settings import NAMES, describe

_JSON = "Print a JSON object with id, key, name, description, metadata, workspace_id, memories, size_bytes and times."
_FIELDS = (
    *("id", "key", "name", "memories", "size_bytes", "created_at", "workspace_id", "description", "metadata"),
    *("updated_at", "archived_at", "damage"),
)


@command(json="Print a JSON object.")
def init(location: Location) -> None:
    """Create the location and the memory store. Existing memories are kept, and files of a directory become memories.

    The Python code to use it is `retentive.open(LOCATION).store(KEY)`.
    """
    location.take_over()
    with location.created() as store:
        key, memories = store.key or location.store_key, store.usage().memories
    said = f"The memory store {key} is at {location.shown}, with {output.counted(memories, 'memory')}."
    output.emit({"at": location.shown, "store": key, "memories": memories}, said)


@click.group("stores", cls=Group, default="list")
def stores() -> None:
    """List, create, describe and archive memory stores."""


def _metadata(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, str | None]:
    return {name: value if equals else None for name, equals, value in (each.partition("=") for each in given)}


_meta_option: Decorator = option(
    "--meta",
    "metadata",
    "NAME=VALUE",
    "Entry of the metadata; may be repeated. Without a value, `stores update` removes the entry.",
    multiple=True,
    callback=_metadata,
)
_workspace_option: Decorator = option(
    "--workspace", "ID", "Workspace in which the key is looked up.", default=DEFAULT_WORKSPACE
)


@command("list", group=stores, json="Print a JSON list.")
@option("--workspace", "ID", "Only the stores of this workspace.")
@flag("--archived", "only_archived", "Only archived stores.")
def list_(location: Location, *, workspace: str | None, only_archived: bool) -> None:
    """List the memory stores, oldest first.

    In a pipe each line has an id, key, name, number of memories, size in bytes and creation time, separated by tabs.
    """
    with location.opened() as found:
        infos = [info for info in found.stores() if workspace in {None, info.workspace_id}]
    infos = [info for info in infos if info.archived_at is not None or not only_archived]
    columns: dict[str, output.Column] = {
        "id": "id",
        "key": "key",
        "name": lambda info: info.name if info.damage is None else f"{info.name} (damaged: {info.damage})".lstrip(),
        "memories": "memories",
        "size": "size_bytes",
        "created": "created_at",
    }
    table = output.table(infos, columns, "No memory stores.", shortens=("id", "name", "key"))
    output.emit([output.attributes(info, *_FIELDS) for info in infos], table)


@command("create", group=stores, json=_JSON)
@click.argument("name")
@option("--description", "TEXT", "What the store is for.", default="")
@_meta_option
@option("--key", "KEY", "Key of the store. If it is taken, the store with this key is printed.")
@_workspace_option
def create(location: Location, /, name: str, *, metadata: dict[str, str | None], **given: Any) -> None:
    """Create a memory store and print it. NAME is its display name; several stores may have the same name.

    Creates the location if it does not exist. Without --key, the store can only be found by its id.

    \b
    retentive stores create 'Support team' --key support --meta owner=ann
    """
    texts = {entry: text for entry, text in metadata.items() if text is not None}
    if missing := [entry for entry in metadata if entry not in texts]:
        raise click.UsageError(f"--meta {missing[0]}: specify a value, as in --meta {missing[0]}=VALUE.")
    with location.opened(create=True) as found:
        info = found.create_store(name, metadata=texts, **given)
    _emit_store(info)


@command("show", group=stores, json=_JSON)
@click.argument("store")
@_workspace_option
def show(location: Location, store: str, *, workspace: str) -> None:
    """Show the memory store with the given id or key."""
    with location.opened() as found:
        _emit_store(found.get_store(store, workspace=workspace))


@command("update", group=stores, json=_JSON)
@click.argument("store")
@option("--name", "TEXT", "New display name.")
@option("--description", "TEXT", "What the store is for.")
@_meta_option
@_workspace_option
def update(location: Location, /, store: str, **given: Any) -> None:
    """Change the name, the description or the metadata of a memory store. An archived store cannot be changed."""
    if not any((given["name"], given["description"] is not None, given["metadata"])):
        raise click.UsageError("Specify --name, --description or --meta.")
    with location.opened() as found:
        info = found.through(INTEGRATION).update_store(store, **given)
    _emit_store(info)


@command("archive", group=stores, json=_JSON)
@click.argument("store")
@_workspace_option
def archive(location: Location, store: str, *, workspace: str) -> None:
    """Archive a memory store permanently.

    An archived store can be read, and its memories can be deleted, redacted and erased. Everything else is refused.
    """
    with location.opened() as found:
        _emit_store(found.through(INTEGRATION).archive_store(store, workspace=workspace))


def _emit_store(info: StoreInfo) -> None:
    value = output.attributes(info, *_FIELDS)
    metadata = ", ".join(f"{name}={each}" for name, each in info.metadata.items())
    rows = [(name, "" if each is None else str(each)) for name, each in (value | {"metadata": metadata}).items()]
    output.emit(value, output.table(rows, ("property", "value"), folds=True))


@click.group("settings", cls=Group, default="show")
def settings() -> None:
    """Show or change the settings of a memory store, such as limits and permissions.

    Settings are stored in the memory store and apply at once, in every process that has the store open.
    """


@command("show", group=settings, json="Print a JSON object of all settings.")
def show_settings(location: Location) -> None:
    """Show all settings. If a setting was changed, its default is shown too.

    In a pipe each line has the name and the value of a setting, separated by a tab.
    """
    with location.existing() as store:
        values = asdict(store.settings())
    rows = [(name, json.dumps(values[name]), default, text) for name, default, text in describe()]
    if output.as_table():
        rows = [(name, value, "" if value == default else default, text) for name, value, default, text in rows]
        output.emit(values, output.table(rows, ("setting", "value", "default", "meaning"), folds=True))
    else:
        output.emit(values, output.table([row[:2] for row in rows], ("setting", "value")))


@command("set", group=settings, json="Print a JSON object of all settings after the change.")
@click.argument("changes", nargs=-1, metavar="NAME=VALUE...")
@option("--unset", "NAME", "Reset this setting to its default. May be repeated.", multiple=True)
def change(location: Location, changes: tuple[str, ...], *, unset: tuple[str, ...]) -> None:
    """Change settings, and print what changed. If one of them is invalid, no setting is changed.

    A VALUE is JSON (4000, true, ["/memories/team/**"]), a plain word, or a number with a unit: 100k, 2M or 1G (of 1,024
    for bytes), 30d, 4w or 1y (for days).

    \b
    retentive settings set expire_after_days=90d max_memory_bytes=200k
    retentive settings set 'review=["session:*"]'
    """
    given = dict(map(_parsed, changes)) | dict.fromkeys(unset)
    if not given:
        raise InvalidInput("specify a setting to change, such as max_memories=500")
    for name in given:
        if name not in NAMES and (close := get_close_matches(name, NAMES, n=3, cutoff=0.5)):
            raise InvalidInput(f"there is no setting {name!r}; did you mean {' or '.join(close)}?")
    with location.existing() as store:
        before = asdict(store.settings())
        store.change_settings(given)
        after = asdict(store.settings())
    changed = [name for name in NAMES if before[name] != after[name]]
    lines = [f"{name}: {json.dumps(before[name])} -> {json.dumps(after[name])}\n" for name in changed]
    output.emit(after, "".join(lines) or "Nothing changed.")


def _parsed(change: str) -> tuple[str, object]:
    name, equals, value = change.partition("=")
    if not equals:
        raise InvalidInput(f"{change!r} does not have the form NAME=VALUE, such as max_memories=500")
    kilo = 1_024 if "bytes" in name else 1_000
    units = {"d": 1, "w": 7, "y": 365} if "days" in name else {"k": kilo, "m": kilo**2, "g": kilo**3}
    number, unit = value[:-1], value[-1:].lower()
    if unit in units and len(number) < 13 and number.isascii() and number.isdigit():
        return name, int(number) * units[unit]
    try:
        return name, json.loads(value)
    except ValueError:
        if value[:1].isdigit():
            raise InvalidInput(f"{value!r} is not a number, nor one with a unit: {', '.join(units)}") from None
        return name, value
