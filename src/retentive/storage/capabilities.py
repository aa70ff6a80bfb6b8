"""Capabilities: optional parts of the storage contract.

A backend has a capability if it inherits from the class of the capability. `capability` also finds the capabilities of
a wrapped backend. If a backend does not have a capability, the functions below return a default, so callers need not
check.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import Locked
from retentive.storage.contract import Backend, StoreInfo

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

C = TypeVar("C")


class PlainFiles(ABC):
    """Capability to store memories as plain files that people can edit."""

    @abstractmethod
    def directory_of(self, store: StoreInfo) -> str | None:
        """Return the directory that contains the memories of a store as plain files. None if the store is encrypted."""


class Pooled(ABC):
    """Capability of storage that is reached through a limited number of connections."""

    @abstractmethod
    def connections(self) -> tuple[int, int, int]:
        """Return how many connections of this process are in use, how many are idle, and how many may be open."""


class Maintained:
    """Capability of storage with invariants beyond the core contract, or with bytes that outlast their deletion.

    Its methods do nothing, as for storage without the capability. A backend overrides those that it needs.
    """

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        """Check the storage and yield a finding for each error. Writes nothing.

        With `quick`, the texts of older versions are not checked.
        """
        return iter(())

    def rebuild(self) -> None:
        """Rebuild data that can be derived from other stored data, such as indexes. Deletes nothing."""

    def purge(self) -> bool:
        """Remove overwritten and deleted bytes from logs and free pages.

        Returns False if a reader still needs some of these bytes. In this case, call the method again later.
        """
        return True

    def collect(self, store_id: str) -> int:
        """Delete the orphans of a store: objects that nothing refers to. Returns the number of deleted objects."""
        return 0

    def history_bytes(self, store_id: str) -> int | None:
        """Return the number of bytes of superseded texts as they are stored: packs, and texts that are not packed yet.

        Returns None if the storage does not know it.
        """
        return None


def capability(backend: Backend, kind: type[C]) -> C | None:
    """Return the outermost layer of `backend` that has the capability `kind`, or None.

    The layers are the backend itself, the backend that it wraps, and so on.
    """
    layer: Backend | None = backend
    while layer is not None:
        if isinstance(layer, kind):
            return layer
        layer = getattr(layer, "inner", None)
    return None


def below_encryption(backend: Backend) -> Backend:
    """Return the backend below the encryption layer, or `backend` itself if there is no encryption layer."""
    layer: Backend | None = backend
    while layer is not None and not getattr(layer, "encrypts", False):
        layer = getattr(layer, "inner", None)
    inner: Backend = getattr(layer, "inner", backend)
    return inner


def directory_of(backend: Backend, store: StoreInfo) -> str | None:
    """Return the directory that contains the memories of a store, or None if the backend stores no plain files."""
    files = capability(backend, PlainFiles)  # type: ignore[type-abstract]
    return None if files is None else files.directory_of(store)


def _maintained(backend: Backend) -> Maintained:
    return capability(backend, Maintained) or Maintained()


def collect(backend: Backend, store_id: str) -> int:
    """Call `Maintained.collect`."""
    return _maintained(backend).collect(store_id)


def history_bytes(backend: Backend, store_id: str) -> int | None:
    """Call `Maintained.history_bytes`."""
    return _maintained(backend).history_bytes(store_id)


def purge(backend: Backend) -> bool:
    """Call `Maintained.purge`."""
    return _maintained(backend).purge()


def check(backend: Backend, *, quick: bool = False) -> Iterator[Finding]:
    """Call `Maintained.check`."""
    return _maintained(backend).check(quick=quick)


def rebuild(backend: Backend) -> None:
    """Call `Maintained.rebuild`."""
    _maintained(backend).rebuild()


def is_destroyed(store: StoreInfo) -> bool:
    """Return True if a store is encrypted and its key was destroyed. Such a store is unreadable."""
    if store.seal is None:
        return False
    try:
        return json.loads(store.seal).get("destroyed_at") is not None
    except (ValueError, AttributeError):
        return False


def unlock(backend: Backend, store: StoreInfo) -> None:
    """Raise `Locked` if the keys of this process cannot decrypt `store`."""
    if below_encryption(backend) is not backend:
        backend.read(store.id, lambda _: None)  # the encryption layer unwraps the key
    elif store.seal is not None:
        raise Locked("the memory store is encrypted; open the location with keys")
