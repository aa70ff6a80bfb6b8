"""`open`: from a place to a working memory, the one spot where the parts are put together."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias, Unpack

from retentive.engine.access_times import Accesses
from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.extras import pip_install
from retentive.history.retention import is_on
from retentive.locations import find_store, open_backend
from retentive.redaction.guard import Detect, Examination
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Backend, Clock, NewId, StoreInfo, as_actor, plain_name, sortable_id
from retentive.store import MemoryStore
from retentive.values.replies import LANGUAGES, Replies
from retentive.values.settings import DEFAULTS, Pins

if TYPE_CHECKING:
    from retentive.history.removal import Removed
    from retentive.redaction.detector import Rule
    from retentive.storage.sealed.keys import KeyWrapper

Keys: TypeAlias = "str | os.PathLike[str] | KeyWrapper"
"""A key file by its path, or keys that are opened already."""
DEFAULT_PLACE = "./memory"
DEFAULT_KEY = "default"
_ID = re.compile(r"memstore_[0-9a-f]{32}")


class Retentive:
    """An opened backend with the memory stores in it. Threads may share it; it survives a fork."""

    def __init__(
        self,
        backend: Backend,
        *,
        pins: Mapping[str, object],
        examination: Examination,
        replies: Replies,
        actor: Actor | None,
        clock: Clock,
        sweep: bool = True,
    ) -> None:
        self.backend = backend
        self._sweeps = sweep
        self._pins = pins
        self._examination = examination
        self._replies = replies
        self._actor = actor
        self._clock = clock
        self._accesses = Accesses(backend, clock=clock)

    def store(self, id_or_key: str | None = None, *, name: str | None = None) -> MemoryStore:
        """The memory store with this id, else the one with this key, made if there is none.

        A key has 1 to 255 characters, none of them a control character; None means the store with the key `default`.
        `name` is shown to people and used only when the store is made. Idle memories expire now, as the settings of the
        store say, unless the place was opened with `sweep=False`. Raises `InvalidInput` for what can be no key,
        `NotFound` for an id that is not there, `Locked` for a store that is sealed with a key that is not here.
        """
        key = DEFAULT_KEY if id_or_key is None else id_or_key
        info = find_store(self.backend, key)
        if info is not None and info.erased_at is not None:
            raise NotFound(f"the memory store {key} was erased")
        if info is None:
            if _ID.fullmatch(key):
                raise NotFound(f"there is no memory store {key}")
            info = self.backend.create_store(key=key, name=plain_name("a store name", name or key))
        capabilities.unlock(self.backend, info)
        store = MemoryStore(
            self.backend,
            info,
            pins=self._pins,
            examination=self._examination,
            replies=self._replies,
            actor=self._actor,
            clock=self._clock,
            accesses=self._accesses,
        )
        if self._sweeps:
            _sweep(store)
        return store

    def stores(self) -> list[StoreInfo]:
        """All memory stores, oldest first."""
        return self.backend.list_stores()

    def erase(self, id_or_key: str, *, actor: Actor | str | None = None) -> Removed:
        """Remove a memory store with all that is in it, for good; only its id stays.

        Raises `NotFound`, and `InvalidInput` for what can be no key.
        """
        info = find_store(self.backend, id_or_key)
        if info is None or info.erased_at is not None:
            raise NotFound(f"there is no memory store {id_or_key}")
        self.backend.erase_store(info.id, as_actor(actor) or self._actor)
        from retentive.history.removal import Removed  # noqa: PLC0415 - seldom wanted

        return Removed(0, pending=not capabilities.purge(self.backend))

    def close(self) -> None:
        """Give back files and connections. Not closing loses nothing but what was viewed in the last minute."""
        with suppress(RetentiveError):
            self._accesses.flush()
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open(  # noqa: A001 - `retentive.open` is the name a reader expects
    at: str | os.PathLike[str] = DEFAULT_PLACE,
    *,
    replies: Replies | str = "en",
    actor: Actor | str | None = None,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    keys: Keys | None = None,
    seal_paths: bool = False,
    rules: Sequence[Rule] = (),
    detectors: Sequence[Detect] = (),
    sweep: bool = True,
    **settings: Unpack[Pins],
) -> Retentive:
    """The memory at a place, made if it is not there.

    `at` is a directory (`./memory`), `sqlite:///file.db` (`sqlite:////` for an absolute path), `sqlite://` for one
    in memory, `postgresql://user:password@host/database`, `mariadb://user:password@host/database`, or object storage:
    `s3://bucket/prefix`, `gs://` or `az://` (docs/backends.md). `replies` is a language (`en`, `fr`) or a catalogue of
    one's own. `actor` is recorded with changes that name no other. Raises `InvalidInput` for what cannot be opened,
    and the errors of storage.

    `rules` and `detectors` find sensitive values besides those we know (docs/guards.md).
    Any of the `settings` (docs/guards.md), such as `view_chars=4_000`, is pinned for this process, whatever the stores
    have.

    A memory store whose memories may expire is swept when it is opened, at most once an hour; not with `sweep=False`,
    for who only looks, or is about to change the settings.

    With `keys` (a key file, a `KeyRing`, or what wraps keys otherwise) memory stores are sealed, those made with
    `seal_paths` their paths too; docs/encryption.md.
    """
    pins = dict(settings)
    examination = Examination(rules, detectors)
    examination.check(DEFAULTS.changed(pins))  # refuse what is wrong before anything is made
    catalogue, who = _catalogue(replies), as_actor(actor)
    seal = _sealing(keys, clock, seal_paths=seal_paths)
    backend = seal(open_backend(at, clock=clock, new_id=new_id))
    return Retentive(
        backend, pins=pins, examination=examination, replies=catalogue, actor=who, clock=clock, sweep=sweep
    )


def _sweep(store: MemoryStore) -> None:
    """Let memories expire in a store where any can; what fails is left for the next time."""
    try:
        if not is_on(store.settings()):
            return
    except RetentiveError:  # the first command will say what it is
        return
    from retentive.history.sweep import sweep_at_opening  # noqa: PLC0415 - seldom wanted

    sweep_at_opening(store)


def _sealing(keys: Keys | None, clock: Clock, *, seal_paths: bool) -> Callable[[Backend], Backend]:
    """What puts encryption over a backend, or leaves it as it is."""
    if keys is None:
        if seal_paths:
            raise InvalidInput("paths can be sealed only with keys")
        return lambda backend: backend
    try:
        from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415
        from retentive.storage.sealed.keys import as_wrapper  # noqa: PLC0415 - cryptography is imported late
    except ImportError:
        raise InvalidInput(f"encryption needs its library: {pip_install('crypto')}") from None
    wrapper = as_wrapper(keys)
    return lambda backend: SealedBackend(backend, wrapper, seal_paths=seal_paths, clock=clock)


def _catalogue(replies: Replies | str) -> Replies:
    if isinstance(replies, Replies):
        return replies
    if replies not in LANGUAGES:
        raise InvalidInput(f"no replies in {replies!r}; there are {', '.join(LANGUAGES)}")
    return LANGUAGES[replies]
