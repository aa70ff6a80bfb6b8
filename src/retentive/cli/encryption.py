"""`encryption`: create, rotate and destroy the keys of encrypted memory stores."""

from __future__ import annotations

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, naming
from retentive.cli.options import Group, command
from retentive.cli.parameters import flag
from retentive.errors import InvalidInput
from retentive.locations import existing_store
from retentive.storage.sealed import rotation
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import add_key


@click.group("encryption", cls=Group, default="status")
def encryption() -> None:
    """Create, rotate and destroy the keys of encrypted memory stores.

    If you pass keys (--keys FILE, or an environment variable), new memory stores are encrypted on disk. They cannot be
    read without their keys: keep a copy of the key file in a different place than the memories.
    """


@command("new", group=encryption, json='Print a JSON object: {"key_id"}.')
def new(location: Location) -> None:
    """Create a key file, or add a new current key to an existing key file.

    Each memory store has its own data key, which is encrypted (wrapped) with a key of this file. New memory stores use
    the current key. Existing ones need the older keys until `rotate` wraps their data keys again.
    """
    key_id = _add_key(location)
    text = f"Created {key_id}, now the current key. Keep a copy of the key file.\n"
    output.emit({"key_id": key_id}, text)


@command("rotate", group=encryption, json="Print a JSON object of counts.")
@flag("--new", "add", "First add a new current key to the key file.")
def rotate(location: Location, *, add: bool) -> None:
    """Wrap the data keys of all memory stores with the current key.

    Texts are not rewritten, so this is quick. The memory stores can stay in use. After an interruption, run the command
    again. Then only old backups need the old key. In a pipe each line has one of `rewrapped`, `current` (before),
    `locked`, `destroyed` and `unsealed`, and the number of such data keys, separated by a tab.
    """
    with location.opened() as found:
        backend = found.backend
        if not isinstance(backend, SealedBackend):
            raise InvalidInput("this command needs keys: pass --keys FILE, or set RETENTIVE_KEYS_FILE")
        if add:
            _add_key(location)
        with output.progress("Rotating") as progress:
            done = rotation.rotate(backend, progress=progress)
    table = output.table(list(done.items()), ("data keys", "number"))
    output.emit(done, table, status=status_of("locked") if done["locked"] else 0)


@command("status", group=encryption, json="Print a JSON object.")
def status(location: Location) -> None:
    """Show how each memory store is encrypted, and whether the given keys can decrypt it.

    In a pipe each line has five fields, separated by tabs: the key of the store; whether it is encrypted (yes, no, or
    the time when its data key was destroyed); the id of the key that wraps its data key, followed by `current`, `old`,
    or `missing` if you did not give this key; whether it can be read; its id.
    """
    with location.opened() as found:
        stores = rotation.status(found.backend)
    rows = []
    for store in stores:
        sealed = f"destroyed {store.destroyed_at}" if store.destroyed_at else store.sealed
        age = "current" if store.current else "old" if store.readable else "missing"
        rows.append((store.key, sealed, f"{store.kek_id} {age}" if store.kek_id else "", store.readable, store.id))
    columns = ("key", "encrypted", "wrapped by", "readable", "id")
    output.emit({"stores": stores}, output.table(rows, columns, shortens=("id", "wrapped by", "key")), rows="stores")


@command("destroy", group=encryption, json='Print a JSON object: {"store_id", "store_key", "destroyed_at"}.')
@flag("--yes", "Do not ask for confirmation.")
def destroy(location: Location, *, yes: bool) -> None:
    """Destroy the data key of the memory store given with --store. The memory store can then never be read again.

    The key file is not needed. Earlier backups still contain the wrapped data key. To make them unreadable too, rotate
    the key that wraps the data key, and delete the old key.
    """
    key = location.named_store()
    with location.opened() as found:
        info = existing_store(found.backend, key)
        many = f"with {output.counted(info.memories, 'memory')} and all history"
        output.confirm(f"Permanently destroy the key of {info.key or info.id}, {many}?", yes=yes)
        since = rotation.destroy(found.backend, info.id)
    text = f"The key of {info.key or info.id} was destroyed at {since}.\n"
    output.emit({"store_id": info.id, "store_key": info.key, "destroyed_at": since}, text)


def _add_key(location: Location) -> str:
    path = location.key_file
    if path is None:
        raise InvalidInput("this command needs a key file: pass --keys FILE, or set RETENTIVE_KEYS_FILE")
    with naming("Key file", path):
        return add_key(path)
