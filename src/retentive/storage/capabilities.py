"""Encrypted memory stores, as callers see them: whether one can be read, and the backend below the encryption."""

from __future__ import annotations

import json

from retentive.errors import Locked
from retentive.storage.contract import Backend, StoreInfo


def below_encryption(backend: Backend) -> Backend:
    """Return the backend below the encryption layer, or `backend` itself if there is no encryption layer."""
    return backend.inner if backend.encrypts and backend.inner is not None else backend


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
