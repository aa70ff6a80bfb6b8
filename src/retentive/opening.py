"""`retentive.open`: opens a location and combines its backend with encryption, guards and settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.locations import location_exists, open_backend
from retentive.redaction.examiner import Detect, TextExaminer
from retentive.storage.contract import Actor, Backend, Clock, NewId, as_actor, sortable_id
from retentive.store.location import DEFAULT_KEY, Retentive
from retentive.values.extras import pip_install
from retentive.values.settings import DEFAULTS, NAMES, Pins

if TYPE_CHECKING:
    from retentive.redaction.detector import Rule
    from retentive.storage.sealed.keys import KeyWrapper

Keys: TypeAlias = "str | os.PathLike[str] | KeyWrapper"
"""Encryption keys: the path of a key file, or an object that encrypts the data keys of memory stores."""
DEFAULT_LOCATION = "./memory"
_REMOTE = ("https", "http")

__all__ = ["DEFAULT_KEY", "DEFAULT_LOCATION", "Keys", "Retentive", "check_options", "encryption", "is_remote", "open"]


def is_remote(location: object) -> bool:
    """Return whether a location is the URL of a retentive server (`https://` or `http://`)."""
    return isinstance(location, str) and location.partition("://")[0].lower() in _REMOTE and "://" in location


def open(  # noqa: A001 - `retentive.open` is the name a reader expects
    location: str | os.PathLike[str] = DEFAULT_LOCATION,
    *,
    actor: Actor | str | None = None,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    keys: Keys | None = None,
    rules: Sequence[Rule] = (),
    detectors: Sequence[Detect] = (),
    sweep: bool = True,
    create: bool = True,
    api_key: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    **settings: Unpack[Pins],
) -> Retentive:
    """Open a location and return it. A location that does not exist is created, unless `create` is False.

    `location` is one of these (docs/platforms.md):

    - a directory of plain files: `./memory`. `~` is the home directory.
    - a SQLite database: `sqlite:///file.db`, `sqlite:////absolute/path/file.db`, or `sqlite://` for a database in
      memory.
    - a database on a database server: `postgresql://user:password@host/database` or
      `mariadb://user:password@host/database`.
    - object storage: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
    - a retentive server: `https://host` (docs/server.md).

    The other arguments:

    - `actor`: the actor that is recorded with a change, unless the call names another actor.
    - `keys`: encryption keys: a key file, a `KeyRing` or another key wrapper. With `keys`, new memory stores are
      encrypted (docs/security.md).
    - `rules`, `detectors`: find kinds of sensitive values that are not built in (docs/guards.md).
    - `sweep`: if True, idle memories are deleted when a store opens, after writes and at `close`, at most once a day
      and a few at a time. This happens only if the settings of the store say when memories expire. Use False to
      inspect a store, or to change its settings, before anything is deleted.
    - `create`: if False, a location or memory store that does not exist raises `NotFound`, and reading creates no
      files. In a directory of plain files that retentive has never opened, the first change creates `.retentive`.
    - `settings`: any setting (docs/guards.md), such as `view_chars=4_000`. In this process, the value replaces the
      setting of every store. It is not saved.
    - `api_key`, `ca_file`, `insecure`: only for the URL of a server. If `api_key` is not given, it is read
      from the environment variable `RETENTIVE_API_KEY`. `ca_file` is a file with the certificates to trust. `insecure`
      allows `http://` for a host other than this machine.

    Raises `InvalidInput` for an invalid location, option or setting. Also raises the errors of storage.
    """
    check_options(settings, open)
    connection = {"api_key": api_key, "ca_file": ca_file, "insecure": insecure or None}
    if is_remote(location):
        local = {"keys": keys, "rules": rules, "detectors": detectors, **settings}
        _refuse(local, "has no effect on a server, which has its own settings and keys")
        try:
            from retentive.remote.location import RemoteLocation, server_at  # noqa: PLC0415 - the HTTP client comes late
        except ModuleNotFoundError:
            packages = pip_install("client")
            raise InvalidInput(f"to open the URL of a server, install an HTTP client: {packages}") from None
        file = None if ca_file is None else os.fspath(ca_file)
        server = server_at(str(location), api_key=api_key, ca_file=file, insecure=insecure)
        return RemoteLocation(server, actor=as_actor(actor), create=create)
    _refuse(connection, "can only be used with the URL of a server, such as https://host")
    pins = dict(settings)
    guard = TextExaminer(rules, detectors)
    guard.check(DEFAULTS.changed(pins))  # raises for invalid settings before anything is created
    who = as_actor(actor)
    encrypted = encryption(keys, clock=clock, new_id=new_id)
    if not create and not location_exists(location):
        raise NotFound("the location does not exist; omit `create=False` to create the location")
    backend = encrypted(open_backend(location, clock=clock, new_id=new_id, create=create))
    return Retentive(backend, pins=pins, examiner=guard, actor=who, clock=clock, sweep=sweep, create=create)


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """Raise `InvalidInput` if one of the options in `given` has a value. `reason` says why the option is refused."""
    for name, value in given.items():
        if value or (value == 0 and value is not False):
            raise InvalidInput(f"`{name}` {reason}")


def check_options(settings: Mapping[str, object], function: Callable[..., object]) -> None:
    """Raise `InvalidInput` if a name in `settings` is not a setting.

    `settings` are keyword arguments that were passed to `function` but are not among its parameters. The error lists
    the options of `function` and all settings.
    """
    unknown = sorted(settings.keys() - set(NAMES))
    if not unknown:
        return
    import difflib  # noqa: PLC0415 - only for this error
    import inspect  # noqa: PLC0415 - only for this error

    own = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    close = difflib.get_close_matches(unknown[0], [*own, *NAMES], n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InvalidInput(
        f"unknown options {unknown}{hint}; the options are {', '.join(own)}, and the settings are {', '.join(NAMES)}"
    )


def encryption(
    keys: Keys | None, *, clock: Clock = time.time, new_id: NewId = sortable_id
) -> Callable[[Backend], Backend]:
    """Return a function that wraps a backend with encryption. If `keys` is None, it returns the backend unchanged.

    Raises `InvalidInput` if the package for encryption is not installed.
    """
    if keys is None:
        return lambda backend: backend
    try:
        from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415
        from retentive.storage.sealed.keys import as_wrapper  # noqa: PLC0415 - cryptography is imported late
    except ImportError:
        raise InvalidInput(f"encryption needs the package cryptography: {pip_install('crypto')}") from None
    wrapper = as_wrapper(keys)
    return lambda backend: SealedBackend(backend, wrapper, clock=clock, new_id=new_id)
