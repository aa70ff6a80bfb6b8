"""`keys`: making, rotating and destroying the keys of sealed memory stores."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, key_file, pass_location
from retentive.errors import InvalidInput
from retentive.opening import Retentive
from retentive.storage import capabilities

if TYPE_CHECKING:
    from retentive.storage.sealed.backend import SealedBackend, StoreStatus

_COLUMNS = ("key", "sealed", "kek", "paths", "readable", "id")


@click.group("keys")
def keys() -> None:
    """Make, rotate and destroy the keys of sealed memory stores.

    With keys (--keys FILE before the command, or the environment) memory stores are encrypted where they rest. Who
    loses the keys has lost the memories: keep a copy of the key file, in another place than the memories.
    """


@keys.command("new", cls=output.Command)
@click.option("--json", "as_json", is_flag=True, help='Print a JSON object: {"key_id"}.')
@pass_location
def new(location: Location, *, as_json: bool) -> None:
    """Make a key file, or add a key to it and make that the current one.

    Keys that are there stay: they open what they sealed until `retentive keys rotate` has wrapped it anew.
    """
    _need_library()
    from retentive.storage.sealed.keys import add_key  # noqa: PLC0415 - imports cryptography

    key_id = add_key(_file(location))
    text = f"Made {key_id}, the current key from now on. Keep a copy of the key file.\n"
    output.emit({"key_id": key_id}, as_json=as_json, plain=text)


@keys.command("rotate", cls=output.Command)
@click.option("--new", "add", is_flag=True, help="Add a new key to the key file first, and make it the current one.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object of counts.")
@pass_location
def rotate(location: Location, *, add: bool, as_json: bool) -> None:
    """Wrap the data keys of all memory stores by the current key.

    Texts need not be written again, so this is quick, and the memories may be in use. Broken off, it can be run again.
    Afterwards the old key may go from the key file, once no backup that is still wanted was sealed by it.
    """
    _need_library()
    from retentive.storage.sealed import backend as sealed  # noqa: PLC0415 - imports cryptography

    with location.opened() as found:
        backend = _sealed(found)
        if add:
            from retentive.storage.sealed.keys import add_key  # noqa: PLC0415

            add_key(_file(location))
        with output.progress("Rotating", total=len(backend.list_stores())) as progress:
            done = sealed.rotate(backend, progress=progress)
    text = f"{done.rewrapped} memory stores wrapped by the current key, {done.current} were already."
    left = [f"{count} {what}" for what, count in asdict(done).items() if what in _LEFT and count]
    output.emit(asdict(done), as_json=as_json, plain=text + (f" Left: {', '.join(left)}." if left else "") + "\n")
    if done.locked:
        raise click.exceptions.Exit(status_of("locked"))


_LEFT = ("locked", "destroyed", "unsealed")


@keys.command("status", cls=output.Command)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_location
def status(location: Location, *, as_json: bool) -> None:
    """Show how each memory store is sealed, and whether the keys at hand open it.

    In a pipe one line for each, with tabs between: key, sealed (yes, no, or since when destroyed), the id of the key
    that wraps its own with `current` or `old`, whether paths are sealed, whether it can be read, id.
    """
    _need_library()
    from retentive.storage.sealed import backend as sealed  # noqa: PLC0415 - imports cryptography

    with location.opened() as found:
        stores, damaged = sealed.status(found.backend), capabilities.quarantined(found.backend)
    rows = [_row(store) for store in stores]
    output.emit(
        {"stores": [asdict(store) for store in stores], "damaged": damaged},
        as_json=as_json,
        plain=rows,
        shown=[output.Table(_COLUMNS, rows)],
        notes=[f"{damaged} altered files of sealed memory stores are kept in .retentive/damaged."] if damaged else [],
    )


@keys.command("destroy", cls=output.Command)
@click.argument("store")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help='Print a JSON object: {"store", "destroyed_at"}.')
@pass_location
def destroy(location: Location, store: str, *, yes: bool, as_json: bool) -> None:
    """Destroy the key of the memory store STORE (its key or id): nothing in it can be read again.

    The key-encryption key is not needed for it. A backup made before still has the wrapped key; it ends when the
    key-encryption key is rotated and the old one thrown away.
    """
    _need_library()
    from retentive.storage.sealed import backend as sealed  # noqa: PLC0415 - imports cryptography

    with location.opened() as found:
        info = sealed.find_store(found.backend, store)
        if not yes:
            held = f"{info.memories} memories and their history"
            click.confirm(f"Destroy the key of {info.key or info.id} for ever ({held})?", abort=True, err=True)
        since = sealed.destroy(found.backend, info.id)
    text = f"The key of {info.key or info.id} was destroyed at {since}.\n"
    output.emit({"store": info.id, "destroyed_at": since}, as_json=as_json, plain=text)


def _row(store: StoreStatus) -> tuple[str, ...]:
    sealed = f"destroyed {store.destroyed_at}" if store.destroyed_at else _yes(is_so=store.sealed)
    kek = f"{store.kek_id} {'current' if store.current else 'old'}" if store.kek_id else ""
    paths = _yes(is_so=store.paths) if store.sealed else ""
    return store.key or "", sealed, kek, paths, _yes(is_so=store.readable), store.id


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "no"


def _need_library() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415
    except ImportError:
        raise InvalidInput("encryption needs its library: pip install 'retentive[crypto]'") from None


def _file(location: Location) -> str:
    """The key file. Raises `InvalidInput` if none is named."""
    path = key_file(location.keys, os.environ)
    if path is None:
        raise InvalidInput("no key file was named: retentive --keys FILE keys ..., or RETENTIVE_KEYS_FILE")
    return path


def _sealed(found: Retentive) -> SealedBackend:
    from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415 - imports cryptography

    if not isinstance(found.backend, SealedBackend):
        raise InvalidInput("no keys were given: retentive --keys FILE keys ..., or RETENTIVE_KEYS_FILE")
    return found.backend
