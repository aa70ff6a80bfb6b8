"""`retentive.open`: opens a location and wires backend, encryption, redaction and memory stores together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Unpack

from retentive import deprecation
from retentive.errors import InvalidInput, NotFound
from retentive.locations import location_exists, open_backend
from retentive.redaction.examiner import Detect, TextExaminer
from retentive.storage.contract import (
    Actor,
    Backend,
    Clock,
    NewId,
    as_actor,
    sortable_id,
)
from retentive.store.location import DEFAULT_KEY, Retentive
from retentive.values.extras import pip_install
from retentive.values.replies import REPLIES, Replies
from retentive.values.settings import DEFAULTS, NAMES, Pins

if TYPE_CHECKING:
    from retentive.redaction.detector import Rule
    from retentive.storage.sealed.keys import KeyWrapper

Keys: TypeAlias = "str | os.PathLike[str] | KeyWrapper"
"""Path of a key file, or an object that encrypts data keys."""
DEFAULT_LOCATION = "./memory"
_REMOTE = ("https", "http")

__all__ = ["DEFAULT_KEY", "DEFAULT_LOCATION", "Keys", "Retentive", "check_options", "encryption", "is_remote", "open"]


def is_remote(location: object) -> bool:
    """Return whether a location is the URL of a server."""
    return isinstance(location, str) and location.partition("://")[0].lower() in _REMOTE and "://" in location


def open(  # noqa: A001 - `retentive.open` is the name a reader expects
    location: str | os.PathLike[str] = DEFAULT_LOCATION,
    *,
    replies: Replies = REPLIES,
    actor: Actor | str | None = None,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    keys: Keys | None = None,
    seal_paths: bool = False,
    rules: Sequence[Rule] = (),
    detectors: Sequence[Detect] = (),
    sweep: bool = True,
    create: bool = True,
    api_key: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    hosted: bool | None = None,
    **settings: Unpack[Pins],
) -> Retentive:
    """Open a location and create it if it does not exist, unless `create` is False.

    `location` is a directory (`./memory`), `sqlite:///file.db` (`sqlite:////` for an absolute path), `sqlite://` for an
    in-memory database, `postgresql://user:password@host/database`, `mariadb://user:password@host/database`, or object
    storage: `s3://bucket/prefix`, `gs://` or `az://` (docs/backends.md). `~` is the home directory in paths.
    `https://host` is a server (docs/remote.md). Raises `InvalidInput` for an invalid location or setting, and the
    errors of storage.

    - `replies`: the sentences used in replies, which you can change (docs/commands.md).
    - `actor`: recorded with changes that name no other actor.
    - `keys`: a key file, a `KeyRing` or another key wrapper. New memory stores are encrypted; `seal_paths` encrypts
      their paths too (docs/encryption.md).
    - `rules`, `detectors`: find sensitive values in addition to the built-in kinds (docs/guards.md).
    - `sweep`: when a store opens, delete idle memories if its settings say so, at most once an hour. Use False to
      inspect a store or to change its settings first.
    - `create`: if False, a location or memory store that does not exist raises `NotFound`, and reading creates
      nothing: a directory of plain files gets its `.retentive` with the first change.
    - `settings`: any setting (docs/guards.md), such as `view_chars=4_000`. It overrides the setting of every store, in
      this process only.
    - `api_key`, `ca_file`, `insecure`, `hosted`: only for a server. By default, the key is read from the environment
      variable `RETENTIVE_API_KEY`. `ca_file` contains the certificates to trust. `insecure` allows http to a remote
      host. `hosted`: the server offers only Anthropic's memory stores, as at `https://api.anthropic.com`.
    """
    check_options(settings, open)
    connection = {"api_key": api_key, "ca_file": ca_file, "insecure": insecure or None, "hosted": hosted}
    if is_remote(location):
        local = {"keys": keys, "seal_paths": seal_paths, "rules": rules, "detectors": detectors, **settings}
        if replies is not REPLIES:
            local["replies"] = replies
        _refuse(local, "has no effect on a server, which has its own settings, keys and sentences")
        from retentive.remote.access import Access  # noqa: PLC0415
        from retentive.remote.opening import open_location  # noqa: PLC0415 - the HTTP client is imported late

        access = Access(api_key, None if ca_file is None else os.fspath(ca_file), insecure=insecure, hosted=hosted)
        return open_location(str(location), access, actor=as_actor(actor), create=create)
    _refuse(connection, "is only for the URL of a server, https://host")
    pins = dict(settings)
    guard = TextExaminer(rules, detectors)
    guard.check(DEFAULTS.changed(pins))  # raises for invalid settings before anything is created
    who = as_actor(actor)
    encrypted = encryption(keys, clock=clock, seal_paths=seal_paths)
    if not create and not location_exists(location):
        raise NotFound("there is nothing at the location, and create=False creates nothing")
    backend = encrypted(open_backend(location, clock=clock, new_id=new_id, create=create))
    return Retentive(
        backend, pins=pins, guard=guard, replies=replies, actor=who, clock=clock, sweep=sweep, create=create
    )


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """Raise `InvalidInput` if an option is given that has no effect."""
    for name, value in given.items():
        if value or (value == 0 and value is not False):
            raise InvalidInput(f"`{name}` {reason}")


def check_options(settings: Mapping[str, object], function: Callable[..., object]) -> None:
    """Raise `InvalidInput` if a name in `settings`, the extra keyword arguments of `function`, is not a setting."""
    deprecation.warn("setting", *settings)
    unknown = sorted(settings.keys() - set(NAMES))
    if not unknown:
        return
    import difflib  # noqa: PLC0415 - only for this error
    import inspect  # noqa: PLC0415 - only for this error

    own = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    close = difflib.get_close_matches(unknown[0], [*own, *NAMES], n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InvalidInput(
        f"unknown options {unknown}{hint}; the options are {', '.join(own)}, and the settings {', '.join(NAMES)}"
    )


def encryption(
    keys: Keys | None, *, clock: Clock = time.time, seal_paths: bool = False
) -> Callable[[Backend], Backend]:
    """Return a function that adds encryption to a backend, or returns it unchanged without keys."""
    if keys is None:
        if seal_paths:
            raise InvalidInput("seal_paths encrypts the paths of new memory stores, so it needs keys=")
        return lambda backend: backend
    try:
        from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415
        from retentive.storage.sealed.keys import as_wrapper  # noqa: PLC0415 - cryptography is imported late
    except ImportError:
        raise InvalidInput(f"encryption needs the package cryptography: {pip_install('crypto')}") from None
    wrapper = as_wrapper(keys)
    return lambda backend: SealedBackend(backend, wrapper, seal_paths=seal_paths, clock=clock)
